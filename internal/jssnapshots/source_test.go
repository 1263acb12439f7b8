package jssnapshots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/subjects"
)

// Many concurrent sessions are read from the log by the durable consumer and saved in the bucket, with cleanups; snapshots that are read meanwhile are exact.
func TestLogToBucket(t *testing.T) {
	w := newEnv(t)
	p := w.project(SourceConfig{})
	draft := storetest.NewLog()
	var authors []*storetest.SessionGenerator
	for i := range 10 {
		a := storetest.NewSessionGenerator(draft, chunk.RootSession("acme", fmt.Sprintf("s%d", i)), uint64(i))
		authors = append(authors, a)
	}
	for round := range 6 {
		for _, a := range authors {
			w.copy(a.Write(t, 15))
			if round%2 == 1 {
				w.sweep(draft, a.Session)
			}
			snap, err := w.reader.Snapshot(t.Context(), a.Session)
			if err != nil {
				t.Fatal(err)
			}
			storetest.Equal(t, "read fresh", snap, storetest.Fold(t, w.log, a.Session))
		}
	}
	for _, a := range authors {
		w.caughtUp(a.Session)
	}
	if st := p.runner.Stats(); st.Failures+st.TooLarge > 0 || attachCount(p.source) != 1 {
		t.Errorf("stats %+v, attached %d times", st, attachCount(p.source))
	}
}

// The durable consumer is deleted: it is recreated at its position, and no record is missed.
func TestConsumerDeleted(t *testing.T) {
	w := newEnv(t)
	p := w.project(SourceConfig{})
	a := storetest.NewSessionGenerator(storetest.NewLog(), s1, 1)
	for range 3 {
		w.copy(a.Write(t, 50))
		w.caughtUp(s1)
		before := attachCount(p.source)
		if err := w.js.DeleteConsumer(t.Context(), stream, "projector"); err != nil {
			t.Fatal(err)
		}
		w.copy(a.Write(t, 50))
		w.caughtUp(s1)
		if attachCount(p.source) == before {
			t.Error("the consumer was not created again")
		}
	}
}

// One of two has the partition. When it ends, gracefully or by a crash, the other one gets it, with all unsaved records.
func TestPartitionTakeover(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a := storetest.NewSessionGenerator(storetest.NewLog(), s1, 3)
	one := w.project(SourceConfig{TakeoverTimeout: 3 * time.Second, AckWait: 2 * time.Second})
	w.copy(a.Write(t, 60))
	w.caughtUp(s1)
	two := w.project(SourceConfig{TakeoverTimeout: 3 * time.Second, AckWait: 2 * time.Second})
	w.copy(a.Write(t, 60))
	w.caughtUp(s1)
	if n := two.runner.Stats().Delivered; n > 0 {
		t.Errorf("the standby got %d records", n)
	}
	one.stop() // gracefully
	w.copy(a.Write(t, 60))
	w.caughtUp(s1)
	if n := two.runner.Stats().Delivered; n == 0 {
		t.Error("the second one did not take over")
	}
	three := w.project(SourceConfig{TakeoverTimeout: 3 * time.Second, AckWait: 2 * time.Second})
	two.nc.Close() // like a crash: no acknowledgement, and the pin is not released
	w.copy(a.Write(t, 60))
	w.caughtUp(s1)
	if n := three.runner.Stats().Delivered; n == 0 {
		t.Error("the third one did not take over")
	}
	two.stop()
}

// A projector that ends regularly saves what it has, acknowledges it and only then releases the partition: the next one gets nothing of it once more.
func TestRestartRepeatsNothing(t *testing.T) {
	w := newEnv(t)
	late := projector.Config{SaveAfter: time.Hour, SaveRecords: 1 << 20}
	draft := storetest.NewLog()
	w.copy([]chunk.Record{draft.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})})
	for i := range 50 {
		w.copy([]chunk.Record{draft.Append(t, s1, 1, chunk.TextDelta{Delta: fmt.Sprint(i)})})
	}
	one := w.projectSaving(SourceConfig{}, late, nil)
	natstest.Eventually(t, "the deliveries", func(context.Context) error {
		if n := one.runner.Stats().Delivered; n < 51 {
			return fmt.Errorf("%d, want 51", n)
		}
		return nil
	})
	one.stop()
	w.caughtUp(s1)
	two := w.projectSaving(SourceConfig{}, late, nil)
	w.copy([]chunk.Record{draft.Append(t, s1, 1, chunk.StreamPaused{})})
	w.caughtUp(s1)
	if n := two.runner.Stats().Delivered; n != 1 {
		t.Errorf("%d deliveries after the restart, want the new record only", n)
	}
}

// Malformed messages are skipped, and so are records whose body cannot be parsed; the valid ones between them are folded.
func TestMalformedAndPoison(t *testing.T) {
	w := newEnv(t)
	subject, err := w.layout.Subject(s1)
	if err != nil {
		t.Fatal(err)
	}
	draft := storetest.NewLog()
	w.copy([]chunk.Record{draft.Append(t, s1, 0, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})})
	w.publish(subject, nil, []byte("hello"))
	w.copy([]chunk.Record{draft.AppendRaw(s1, chunk.TypeTextDelta, []byte(`{"type":"text_delta","delta":1}`))})
	w.publish(subject, map[string][]string{"ce-id": {"1-3"}}, nil)
	w.publish("tr.chunks.0.acme.s1.*x", nil, []byte("{}"))
	w.copy([]chunk.Record{draft.Append(t, s1, 1, chunk.TextDelta{Delta: "good"})})
	var reported []string
	p := w.project(SourceConfig{OnMalformed: func(_ context.Context, f Malformed) error {
		reported = append(reported, fmt.Sprintf("%d %s: %v", f.Seq, f.Subject, f.Err))
		return nil
	}})
	w.caughtUp(s1)
	p.stop()
	if len(reported) != 3 || p.runner.Stats().Skipped != 1 {
		t.Errorf("malformed %q, stats %+v; want 3 and 1 skipped", reported, p.runner.Stats())
	}
	snap, err := w.reader.Snapshot(t.Context(), s1)
	if err != nil || !strings.Contains(string(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).AppendJSON(nil)), `"good"`) {
		t.Errorf("%s, %v", aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).AppendJSON(nil), err)
	}
}

// The server restarts, a head is deleted, and the bucket is deleted and recreated.
func TestServerRestartsAndBucketIsRecreated(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.project(SourceConfig{})
	a := storetest.NewSessionGenerator(storetest.NewLog(), s1, 4)
	w.copy(a.Write(t, 80))
	w.caughtUp(s1)

	w.srv.Restart(t)
	natstest.Eventually(t, "the server", func(ctx context.Context) error { _, err := w.js.AccountInfo(ctx); return err })
	w.copy(a.Write(t, 40))
	w.caughtUp(s1)

	kv, err := w.js.KeyValue(t.Context(), names.Layout(w.layout).Snapshots())
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(t.Context(), "h.acme.s1.s1"); err != nil {
		t.Fatal(err)
	}
	w.copy(a.Write(t, 40))
	w.caughtUp(s1)

	if err := w.js.DeleteKeyValue(t.Context(), names.Layout(w.layout).Snapshots()); err != nil {
		t.Fatal(err)
	}
	w.copy(a.Write(t, 40))
	w.ensure()
	w.copy(a.Write(t, 40))
	w.caughtUp(s1)
}

// A consumer of the same name with other settings is an error that an operator must resolve.
func TestOtherSettings(t *testing.T) {
	w := newEnv(t)
	if _, err := w.js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "projector", AckPolicy: jetstream.AckNonePolicy}); err != nil {
		t.Fatal(err)
	}
	src, err := NewSource(w.js, SourceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	err = src.Run(t.Context(), func(context.Context, []projector.Delivery) error { return nil })
	if !errors.Is(err, jsreader.ErrConfigMismatch) {
		t.Errorf("err = %v, want ErrConfigMismatch", err)
	}
}

// An error of take ends the Source; nothing is acknowledged.
func TestErrorOfTakeEndsTheSource(t *testing.T) {
	w := newEnv(t)
	w.copy(storetest.NewSessionGenerator(storetest.NewLog(), s1, 5).Write(t, 3))
	src, err := NewSource(w.js, SourceConfig{})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	if err := src.Run(t.Context(), func(context.Context, []projector.Delivery) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("err = %v", err)
	}
	c, err := w.js.Consumer(t.Context(), stream, "projector")
	if err != nil || c.CachedInfo().AckFloor.Stream != 0 {
		t.Errorf("acknowledged %+v, %v", c.CachedInfo().AckFloor, err)
	}
}

func TestConfigNamesTheField(t *testing.T) {
	for _, c := range []struct {
		cfg  SourceConfig
		want string
	}{
		{SourceConfig{Partition: 1}, "Partition is 1, want 0 to 0"},
		{SourceConfig{Batch: -1}, "Batch is -1, want 1 to 10000"},
		{SourceConfig{TakeoverTimeout: time.Second}, "TakeoverTimeout is 1s, want at least 3s"},
		{SourceConfig{Name: "a.b"}, "Name"},
		{SourceConfig{Layout: subjects.Layout{Partitions: -1}}, "Layout: Partitions is -1"},
	} {
		if _, err := NewSource(nil, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("err = %v, want %s", err, c.want)
		}
	}
}
