package turntest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// Log is a log in the order of the stream.
type Log []chunk.Record

// String returns a line for each record.
func (l Log) String() string {
	var b strings.Builder
	for _, rec := range l {
		fmt.Fprintf(&b, "%d %s/%d %s\n", rec.Seq, rec.Session.ID, rec.Ordinal, rec.Data)
	}
	return b.String()
}

// GoString is String, for the reports of rapid.
func (l Log) GoString() string { return l.String() }

// Remaining returns the records that a reader of the log gets: without those that its truncated records removed.
func (l Log) Remaining() Log {
	removed := map[chunk.Ordinal]bool{}
	for _, rec := range l {
		c, err := rec.Decode()
		if b, ok := chunk.As[chunk.Truncated](c); err == nil && ok {
			for _, r := range b.Removed {
				for o := r.First; o <= r.Last; o++ {
					removed[chunk.Ordinal(o)] = true
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(l), func(rec chunk.Record) bool { return rec.Session == Session && removed[rec.Ordinal] })
}
