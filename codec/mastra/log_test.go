package mastra

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// TestWrittenByProducers writes every recorded run into a log as the package documentation describes, including sub-agents. The fold of the log is the
// fold of the chunks without a log.
func TestWrittenByProducers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nc := natstest.Start(t).Conn(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Ensure(t, js, topology.Config{})
	producer, err := producers.New(js, producers.Config{Positions: producers.NoPositions})
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range runs(t) {
		t.Run(r.Name, func(t *testing.T) {
			session := chunk.RootSession(fmt.Sprintf("t%d", i), root.ID)
			w := writer{T: t, producer: producer, runs: map[string]*producers.Run{}}
			w.start(ctx, session)
			for _, s := range translate(t, r) {
				for _, c := range s.chunks {
					w.write(ctx, c)
				}
			}
			w.close()
			for id, want := range snapshots(t, r) {
				got := fold.New(session).Snapshot()
				if id != root.ID {
					got = fold.New(session.Child(id)).Snapshot()
				}
				for rec, err := range reader.Replay(ctx, chunk.Range{Session: got.Session}) {
					if err != nil {
						t.Fatal(err)
					}
					got = apply(t, got, []chunk.Record{rec})
				}
				if g, w := page(got), page(want); g != w {
					t.Errorf("%s:\n got %s\nwant %s", id, g, w)
				}
			}
		})
	}
}

// page returns the messages that a browser loads, without members that depend on the log.
func page(s fold.Snapshot) string {
	f := aisdk.Snapshot(s, aisdk.SnapshotOptions{})
	return asJSON(part{
		"messages": f.Messages, "status": f.Status, "usage": f.Usage, "children": f.Children,
		"pending": len(f.PendingCalls), "output": f.Run.Output, "finish": f.Run.FinishReason, "failure": f.Failure, "errors": len(f.Errors),
	})
}

// writer writes the chunks of a translator as the package documentation describes.
type writer struct {
	*testing.T

	producer *producers.Producer
	runs     map[string]*producers.Run // by session
}

func (w *writer) start(ctx context.Context, s chunk.Session) {
	w.Helper()
	run, err := w.producer.Start(ctx, s, chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}}})
	if err != nil {
		w.Fatal(err)
	}
	w.runs[s.ID] = run
}

func (w *writer) write(ctx context.Context, c chunk.Chunk) {
	w.Helper()
	run := w.runs[c.AgentID]
	var err error
	switch b := c.Body.(type) {
	case chunk.SubagentStart:
		w.runs[b.SubSessionID], err = run.Child(ctx, b, chunk.RunStarted{Mode: "execute"})
	case chunk.StreamEnd:
		var output chunk.Value
		if b.FinalOutput != nil {
			output = *b.FinalOutput
		}
		err = run.End(ctx, output)
	case chunk.StreamFailed:
		err = run.Fail(ctx, b.Error, b.ErrorDetail)
	case chunk.StreamPaused:
		err = run.Pause(ctx, *b.Reason)
	case chunk.StreamActive:
		err = run.Activate(ctx)
	default:
		err = run.Emit(ctx, c)
	}
	if err != nil {
		w.Fatalf("%s: %v", c.Type(), err)
	}
}

func (w *writer) close() {
	w.Helper()
	for _, run := range w.runs {
		if err := run.Close(); err != nil {
			w.Fatal(err)
		}
	}
}
