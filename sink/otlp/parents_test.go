package otlp

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/turntest"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// ended returns the log with a last run of each session that ends, the sub-agents first.
func ended(t *rapid.T, log turntest.Log) turntest.Log {
	last := map[chunk.Session]chunk.Record{}
	var sessions []chunk.Session
	for _, rec := range log {
		if _, known := last[rec.Session]; !known {
			sessions = append(sessions, rec.Session)
		}
		last[rec.Session] = rec
	}
	slices.Reverse(sessions)
	out := slices.Clone(log)
	for _, s := range sessions {
		rec := last[s]
		rec.Epoch += 100
		for _, body := range []chunk.Body{chunk.RunStarted{RunID: "last", Epoch: int64(rec.Epoch), Mode: "continue"}, chunk.StreamEnd{StreamID: s.ID}} {
			c := chunk.Chunk{AgentID: s.ID, AgentType: "planner", Timestamp: 1, Body: body}
			data, err := c.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			rec.Ordinal, rec.Seq, rec.Type, rec.Data = rec.Ordinal+1, out[len(out)-1].Seq+1, c.Type(), data
			out = append(out, rec)
		}
	}
	return out
}

// The parent of each span is a span of the same trace. Cleanups, which remove what spans are about, are the only exception.
func TestParentsOfRandomLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := ended(t, turntest.Logs(turntest.Config{Turns: 3, SubAgents: true, Reuse: true}).Draw(t, "log"))
		var b row.Batch
		f := observe.New(observe.Config{})
		for i := range log {
			f.Append(&b, log[i])
		}
		traces := map[string]string{} // of spans
		for i := range b.Observations {
			r := export.Row{Observation: &b.Observations[i]}
			if !Select(r) {
				continue
			}
			s := spanOf(r)
			traces[string(s.GetSpanId())] = string(s.GetTraceId())
			if len(s.GetSpanId()) != 8 || len(s.GetTraceId()) != 16 || s.GetName() == "" || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
				t.Fatalf("invalid span %v of %+v", s, r.Observation)
			}
		}
		for i := range b.Observations {
			o := &b.Observations[i]
			if o.EndTime == nil || o.ParentSpanID == "" {
				continue
			}
			switch in, ok := traces[string(bytesOf(o.ParentSpanID))]; {
			case !ok:
				t.Fatalf("the parent of %s %s of %s does not exist\n%s", o.Kind, o.Name, o.Session, log)
			case in != string(bytesOf(o.TraceID)):
				t.Fatalf("the parent of %s %s of %s is in another trace\n%s", o.Kind, o.Name, o.Session, log)
			}
		}
	})
}
