package run

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// writer writes records to the log.
type writer struct {
	t    *testing.T
	js   jetstream.JetStream
	last map[chunk.Session]chunk.Ordinal
}

func (w *writer) put(s chunk.Session, epoch chunk.Epoch, body chunk.Body) {
	w.t.Helper()
	w.last[s]++
	msg := streamtest.Message(w.t, subjects.Layout{}, codec.Envelope{Session: s, Epoch: epoch, Ordinal: w.last[s]}, body)
	if _, err := w.js.PublishMsg(w.t.Context(), msg); err != nil {
		w.t.Fatal(err)
	}
}

func TestCopy(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	for i := range 20 {
		s := chunk.RootSession("acme", fmt.Sprint("s", i))
		w.put(s, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hi"}}})
		w.put(s, 1, chunk.StepStart{})
		w.put(s, 1, chunk.TextDelta{Delta: "hello"})
		w.put(s, 1, chunk.StepEnd{})
		w.put(s, 1, chunk.StreamEnd{StreamID: s.ID})
	}
	st := &memory{fails: func(n int) failure { return []failure{succeeds, storesNothing, losesAnswer}[n%3] }}
	sink, err := New(js, Config{Store: st, NoFollow: true, Bytes: 3000, Observe: observe.Config{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := sink.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	if len(st.events) != 80 || len(st.rows) != 60 {
		t.Errorf("%d events, %d observations, want 80 and 60", len(st.events), len(st.rows))
	}
}
