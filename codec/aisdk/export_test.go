package aisdk

import "github.com/tailrace/tailrace/chunk"

// Replay appends the frames of stored records that are in memory.
func (m *MessageWriter) Replay(dst []byte, recs []chunk.Record) []byte {
	r := m.BeginReplay()
	for _, rec := range recs {
		r.FindRemoved(rec)
	}
	return r.Write(dst, func(yield func(chunk.Record, bool) bool) {
		for _, rec := range recs {
			yield(rec, true)
		}
	}, nil)
}
