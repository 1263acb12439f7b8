// Package mastra is a copy of the writer of Mastra before one machine wrote the turns of all dialects, see package oldturn.
package mastra
