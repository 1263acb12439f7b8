//go:build e2e

package chat

import (
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// turn is one user message and its answer in the log.
type turn struct {
	question string // by the user
	text     string // of the answer
	runs     int    // including takeovers
	over     chunk.Type
}

// readLog reads a chat record by record without a fold: it omits removed
// records and joins the deltas.
func (w *env) readLog(t *testing.T, chat string) []turn {
	t.Helper()
	var records []chunk.Record
	var removed []chunk.OrdinalRange
	session := chunk.RootSession("default", chat)
	for rec, err := range w.Log.Replay(t.Context(), chunk.Range{Session: session}) {
		if err != nil {
			t.Fatalf("read the log of %s: %v", chat, err)
		}
		records = append(records, rec)
		if mark, ok := body[chunk.Truncated](t, rec); ok {
			removed = append(removed, mark.Removed...)
		}
	}
	var turns []turn
	for _, rec := range records {
		if start, ok := body[chunk.RunStarted](t, rec); ok {
			if len(start.Input) > 0 {
				turns = append(turns, turn{question: start.Input[len(start.Input)-1].Content})
			}
			turns[len(turns)-1].runs++
		}
		if isRemoved(rec.Ordinal, removed) {
			continue
		}
		last := &turns[len(turns)-1]
		if delta, ok := body[chunk.TextDelta](t, rec); ok {
			last.text = chunk.Concat(last.text, delta.Delta)
		}
		if rec.Type.Terminal() || rec.Type == chunk.TypeStreamPaused {
			last.over = rec.Type
		}
	}
	return turns
}

func isRemoved(at chunk.Ordinal, removed []chunk.OrdinalRange) bool {
	for _, r := range removed {
		if r.First <= int64(at) && int64(at) <= r.Last {
			return true
		}
	}
	return false
}

func body[B chunk.Body](t *testing.T, rec chunk.Record) (b B, ok bool) {
	t.Helper()
	c, err := rec.Decode()
	if err != nil {
		t.Fatal(err)
	}
	b, ok = c.Body.(B)
	return b, ok
}
