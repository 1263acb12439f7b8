// Package agui is a copy of the writer of AG-UI before one machine wrote the turns of all dialects, see package oldturn.
package agui
