package observe_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// Rows with one id are of one thing; parents exist, are of the right kind and in the same trace; each turn of a root session has one trace.
func TestTracesAreTrees(t *testing.T) {
	kinds := map[row.Kind][]row.Kind{
		row.Run: {row.Tool}, row.Step: {row.Run}, row.Tool: {row.Step, row.Run}, row.Approval: {row.Tool}, row.ClientTool: {row.Tool},
	}
	rapid.Check(t, func(t *rapid.T) {
		log := logs(sinktest.Config{Hostile: true, Clocks: true}).Draw(t, "log")
		log = ended(log)
		b := rowsOf(observe.Config{}, log)
		rows, turns := latest(b), map[string]string{}
		for _, o := range b.Observations {
			if last := rows[o.ID]; last.Kind != o.Kind || last.Session != o.Session || last.FirstSeq != o.FirstSeq || last.Seq < o.Seq {
				t.Fatalf("%+v and %+v", o, last)
			}
		}
		for _, o := range rows {
			if o.Status == row.Running || o.Status == row.Waiting || len(o.TraceID) != 32 || o.SpanID != o.ID[:16] || (o.Kind == row.Run) != (o.Attempts != nil) {
				t.Fatalf("%+v\n%s", o, log)
			}
			if o.Session == o.SessionID {
				key := o.TraceID + o.SessionID
				if turn, ok := turns[key]; ok && turn != o.TurnID {
					t.Fatalf("turns %q and %q have one trace", turn, o.TurnID)
				}
				turns[key] = o.TurnID
			}
			if o.ParentID == "" {
				if o.Kind != row.Run || o.ParentSpanID != "" {
					t.Fatalf("%+v has no parent", o)
				}
				continue
			}
			p, ok := rows[o.ParentID]
			if !ok || !slices.Contains(kinds[o.Kind], p.Kind) || p.TraceID != o.TraceID || p.SpanID != o.ParentSpanID || p.FirstSeq > o.FirstSeq {
				t.Fatalf("%+v\nhas the parent %+v\n%s", o, p, log)
			}
		}
	})
}

// ended appends records with which all sessions end, and all their calls.
func ended(log sinktest.Log) sinktest.Log {
	last := map[chunk.Session]chunk.Record{}
	var sessions []chunk.Session
	for _, rec := range log {
		if _, ok := last[rec.Session]; !ok {
			sessions = append(sessions, rec.Session)
		}
		rec.Epoch = max(rec.Epoch, last[rec.Session].Epoch)
		last[rec.Session] = rec
	}
	seq := log[len(log)-1].Seq
	for _, s := range sessions {
		rec := last[s]
		for n := range 3 {
			for _, body := range []chunk.Body{chunk.RunStarted{RunID: fmt.Sprintf("end-%d", n), Mode: "execute"}, chunk.StreamEnd{StreamID: s.ID}} {
				c := chunk.Chunk{AgentID: s.ID, Timestamp: 1, Body: body}
				data, err := c.AppendJSON(nil)
				if err != nil {
					panic(err) // both are valid
				}
				rec.Data = data
				seq++
				rec.Seq, rec.Ordinal, rec.Epoch, rec.Type = seq, rec.Ordinal+1, rec.Epoch+1, c.Type()
				log = append(log, rec)
			}
		}
	}
	return log
}
