package run

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

// The rows that count are those of the log after it was restored from a backup, restored again, and created again without records.
func TestRestoredLog(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	store := &memory{}
	write := func(name string, n int) {
		for i := range n {
			s := chunk.RootSession("acme", fmt.Sprint(name, i))
			w.put(s, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hi"}}})
			w.put(s, 1, chunk.StepStart{})
			w.put(s, 1, chunk.StepEnd{})
			w.put(s, 1, chunk.StreamEnd{StreamID: s.ID})
		}
	}
	step := func(name string) {
		copyAll(t, js, store)
		if diff := cmp.Diff(recordsOf(t, js), counted(store)); diff != "" {
			t.Fatalf("%s: records that count (- log, + rows):\n%s", name, diff)
		}
	}
	stream := subjects.Layout{}.Stream(0)
	restore := func(b natstest.Backup) {
		if err := js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		b.Restore(t, js)
	}

	write("before", 5)
	step("first copy")
	backup := natstest.BackUp(t, js, stream)
	write("lost", 7)
	step("second copy")
	restore(backup)
	step("restored")
	write("after", 3)
	step("records in the place of lost ones")
	write("more", 9)
	step("more than before")
	restore(backup)
	write("again", 2)
	step("restored again")
	if err := js.DeleteStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	streamtest.Ensure(t, js, topology.Config{})
	step("created again")
	write("new", 4)
	step("records of the new log")
}

func copyAll(t *testing.T, js jetstream.JetStream, store row.Store) {
	t.Helper()
	sink, err := New(js, Config{Store: store, NoFollow: true, Bytes: 3000, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := sink.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
}

// recordsOf returns the records of the log.
func recordsOf(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	firehose, err := reader.Firehose(consumers.FirehoseConfig{NoFollow: true})
	if err != nil {
		t.Fatal(err)
	}
	records := []string{}
	err = firehose.Run(t.Context(), func(_ context.Context, rec chunk.Record) error {
		records = append(records, fmt.Sprintf("%d %s %d %s", rec.Seq, rec.Session.ID, rec.Ordinal, rec.Type))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// counted returns the records whose rows are in no range that the log has lost.
func counted(m *memory) []string {
	records := []string{}
	events := slices.Clone(m.events)
	slices.SortFunc(events, func(a, b row.Event) int { return int(a.Seq - b.Seq) })
	for _, e := range events {
		lost := slices.ContainsFunc(m.gaps, func(g row.Gap) bool {
			return g.Reason == row.Recreated && g.StreamEpoch == e.StreamEpoch && *g.FromSeq <= e.Seq && e.Seq <= *g.ToSeq
		})
		if !lost {
			records = append(records, fmt.Sprintf("%d %s %d %s", e.Seq, e.Session, e.Ordinal, e.Type))
		}
	}
	return records
}
