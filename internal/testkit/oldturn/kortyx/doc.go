// Package kortyx is a copy of the writer of Kortyx before one machine wrote the turns of all dialects, see package oldturn.
package kortyx
