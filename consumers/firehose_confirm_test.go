package consumers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// confirmable runs a firehose whose records need a confirmation.
func (w *env) confirmable(r *Reader, cfg FirehoseConfig) (*sink, *Firehose) {
	w.t.Helper()
	cfg.Name, cfg.Unconfirmed = "audit", 20
	f, err := r.Firehose(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	s := &sink{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		s.err = f.Run(ctx, s.take)
	}()
	w.t.Cleanup(func() { cancel(); <-s.done })
	return s, f
}

// positionOf returns the position of a record that a firehose of one partition delivered.
func positionOf(rec chunk.Record) PartitionPosition { return PartitionPosition{Cursor: rec.Cursor()} }

// Handled records are delivered again until they are confirmed, in the next Run too; a confirmation acknowledges its record and all before it.
func TestConfirm(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 50)
	s, f := w.confirmable(w.reader, FirehoseConfig{})
	got := w.sinkHas(s, 20)
	if err := f.Confirm(positionOf(got[6])); err != nil {
		t.Fatal(err)
	}
	w.acked2("audit", want[6].Seq)
	same(t, w.sinkHas(s, 27), want[:27])
	for range 2 { // a repetition and an earlier one change nothing
		for _, i := range []int{6, 2} {
			if err := f.Confirm(positionOf(got[i])); err != nil {
				t.Error(err)
			}
		}
	}
	if err := s.stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := f.Confirm(positionOf(got[8])); err == nil {
		t.Error("a record is confirmed after the end of Run")
	}
	s, f = w.confirmable(w.reader, FirehoseConfig{})
	got = w.sinkHas(s, 20)
	same(t, got, want[7:27])
	for confirmed := 0; confirmed < 43; {
		got = s.got()
		if confirmed = len(got); confirmed > 0 {
			if err := f.Confirm(positionOf(got[confirmed-1])); err != nil {
				t.Fatal(err)
			}
		}
		w.sinkHas(s, min(43, confirmed+1))
	}
	w.acked("audit", want[49].Seq)
	same(t, s.got(), want[7:])
}

// A range whose records are handled is reported once, before they are confirmed, and Run ends after that.
func TestRangeIsHandled(t *testing.T) {
	w := newEnv(t, Config{})
	for _, n := range []int{0, 20} {
		want := w.sayAll(alice, n)
		handled := make(chan struct{})
		s, f := w.confirmable(w.reader, FirehoseConfig{NoFollow: true, OnHandled: func() { close(handled) }})
		<-handled
		same(t, s.got(), want)
		if f.AllConfirmed() != (n == 0) {
			t.Errorf("all of %d records confirmed: %t", n, f.AllConfirmed())
		}
		for _, rec := range s.got() {
			if err := f.Confirm(positionOf(rec)); err != nil {
				t.Error(err)
			}
		}
		if <-s.done; s.err != nil {
			t.Error(s.err)
		}
	}
}

// A position that was not delivered acknowledges nothing.
func TestConfirmWhatWasNotDelivered(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 10)
	s, f := w.confirmable(w.reader, FirehoseConfig{Types: []chunk.Type{chunk.TypeTextDelta, chunk.TypeStreamEnd}})
	got := w.sinkHas(s, 10)
	hidden := w.put(alice, 1, chunk.Thinking{Content: "x"})
	w.sinkHasAfter(s, w.say(alice, "last"))
	other := got[3].Cursor()
	other.Anchor++
	for name, at := range map[string]PartitionPosition{
		"of another partition": {Partition: 1, Cursor: got[3].Cursor()},
		"not written yet":      {Cursor: chunk.Cursor{Seq: 99}},
		"of another log":       {Cursor: other},
		"of a hidden record":   {Cursor: chunk.Cursor{Seq: hidden.Seq}},
		"before the first":     {},
		"of no partition":      {Partition: 1 << 20, Cursor: got[3].Cursor()},
	} {
		if err := f.Confirm(at); err == nil || !strings.Contains(err.Error(), "was not delivered") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.Confirm(positionOf(got[4])); err != nil {
		t.Error(err)
	}
	w.acked2("audit", want[4].Seq)
	if err := (&Firehose{}).Confirm(positionOf(got[4])); err == nil {
		t.Error("a firehose that needs no confirmation confirms")
	}
}

// sinkHasAfter waits until the sink has a record.
func (w *env) sinkHasAfter(s *sink, rec chunk.Record) {
	w.t.Helper()
	w.eventually("the record", func() bool {
		return slices.ContainsFunc(s.got(), func(r chunk.Record) bool { return r.Seq == rec.Seq })
	})
}

// Records that are not wanted do not fill the place of those that are not confirmed.
func TestUnwantedRecordsNeedNoConfirmation(t *testing.T) {
	w := newEnv(t, Config{})
	first := w.put(alice, 1, chunk.StreamEnd{StreamID: "x"})
	w.sayAll(alice, 700)
	last := w.put(alice, 1, chunk.StreamEnd{StreamID: "y"})
	s, f := w.confirmable(w.reader, FirehoseConfig{Types: []chunk.Type{chunk.TypeStreamEnd}, Batch: 20, AckWait: time.Minute})
	got := w.sinkHas(s, 2)
	same(t, got, []chunk.Record{first, last})
	if err := f.Confirm(positionOf(got[1])); err != nil {
		t.Fatal(err)
	}
	w.acked("audit", last.Seq)
}

// A session is deleted while its records wait for their confirmation: a confirmation of a deleted record counts for those before it, and the others need theirs.
// nats-server 2.15 moves the ack floor again with the next confirmation after a deletion, so a reader that begins before that repeats confirmed records.
func TestConfirmAroundADeletedSession(t *testing.T) {
	w := newEnv(t, Config{})
	bob := chunk.RootSession("acme", "bob")
	want := w.sayAll(bob, 3)
	w.sayAll(alice, 5)
	want = append(want, w.sayAll(bob, 3)...)
	s, f := w.confirmable(w.reader, FirehoseConfig{})
	got := w.sinkHas(s, 11)
	subject, err := w.layout.Subject(alice)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.stream().Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
		t.Fatal(err)
	}
	if err := f.Confirm(positionOf(got[5])); err != nil {
		t.Fatal(err)
	}
	w.eventually("the others are not acknowledged", func() bool {
		c, err := w.js.Consumer(t.Context(), stream, "audit")
		return err == nil && c.CachedInfo().NumAckPending == 3
	})
	_ = s.stop() // context canceled
	s, f = w.confirmable(w.reader, FirehoseConfig{})
	w.sinkHasAfter(s, want[5])
	got = s.got()
	same(t, got, want[len(want)-len(got):])
	if err := f.Confirm(positionOf(got[len(got)-1])); err != nil {
		t.Fatal(err)
	}
	w.acked("audit", want[5].Seq)
}

// The server repeats records that are not confirmed within AckWait: they are not handled again, and a late confirmation counts.
func TestLateConfirmation(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 15)
	s, f := w.confirmable(w.reader, FirehoseConfig{AckWait: time.Second})
	got := w.sinkHas(s, 15)
	w.eventually("the server repeats", func() bool {
		c, err := w.js.Consumer(t.Context(), stream, "audit")
		return err == nil && c.CachedInfo().NumRedelivered == 15
	})
	last := w.say(alice, "last")
	same(t, w.sinkHas(s, 16), append(want, last))
	if err := f.Confirm(positionOf(got[14])); err != nil {
		t.Fatal(err)
	}
	w.acked2("audit", want[14].Seq)
	same(t, s.got(), append(want, last))
}

// The connection is cut while records wait for their confirmation: none is handled twice in this Run, and the confirmations count.
func TestConfirmAfterACut(t *testing.T) {
	w := newEnv(t, Config{})
	proxy := natstest.StartProxy(t, w.srv.URL)
	r := w.newReader(Config{Heartbeat: 100 * time.Millisecond}, natstest.Connect(t, proxy.URL))
	want := w.sayAll(alice, 10)
	s, f := w.confirmable(r, FirehoseConfig{})
	got := w.sinkHas(s, 10)
	resets := r.Stats().Resets
	proxy.CloseConnections()
	w.eventually("the reader attaches again", func() bool { return r.Stats().Resets > resets })
	want = append(want, w.say(alice, "after the cut"))
	same(t, w.sinkHas(s, 11), want)
	if err := f.Confirm(positionOf(got[9])); err != nil {
		t.Fatal(err)
	}
	w.acked2("audit", want[9].Seq)
	if err := f.Confirm(positionOf(s.got()[10])); err != nil {
		t.Fatal(err)
	}
	w.acked("audit", want[10].Seq)
}

// A reader crashes, with records that are not confirmed: all there are, as many as there may be, or with later ones that were not delivered. The next one, which waits
// or begins then, gets all of them within two seconds. It took 13 to 30.
func TestFastTakeover(t *testing.T) {
	t.Parallel()
	for name, total := range map[string]int{"at the end of the log": 10, "as many as may be": 20, "before later ones": 40} {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", the next one waits: ", waits), func(t *testing.T) {
				t.Parallel()
				w := newEnv(t, Config{})
				nc := natstest.Connect(t, w.srv.URL)
				want := w.sayAll(alice, total)
				first, _ := w.confirmable(w.newReader(Config{}, nc), FirehoseConfig{})
				w.sinkHas(first, min(total, 20))
				var second *sink
				if waits {
					second, _ = w.confirmable(w.reader, FirehoseConfig{})
					w.eventually("it waits", func() bool {
						c, err := w.js.Consumer(t.Context(), stream, "audit")
						return err == nil && c.CachedInfo().NumWaiting > 1
					})
				}
				nc.Close() // its requests end, and its pin is not released
				began := time.Now()
				if !waits {
					second, _ = w.confirmable(w.reader, FirehoseConfig{})
				}
				same(t, w.sinkHas(second, min(total, 20)), want[:min(total, 20)])
				took := time.Since(began)
				t.Logf("took over after %s", took)
				if took > 3*time.Second { // one of them for a busy machine
					t.Errorf("the next reader had the records after %s, want 2s", took)
				}
			})
		}
	}
}

// A consumer of an earlier version serves the next reader after 10 seconds, and has 512 deliveries without acknowledgement. Its reader changes both.
func TestOlderConsumerIsAdjusted(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 5)
	if _, err := w.js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{
		Durable: "audit", FilterSubject: names.Layout(w.layout).AllFilter(0), AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: 10,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{"tailrace"}, PinnedTTL: 10 * time.Second,
	}); err != nil {
		t.Fatal(err)
	}
	s, _ := w.confirmable(w.reader, FirehoseConfig{})
	same(t, w.sinkHas(s, 5), want)
	c, err := w.js.Consumer(t.Context(), stream, "audit")
	if err != nil {
		t.Fatal(err)
	}
	if cfg := c.CachedInfo().Config; cfg.PinnedTTL >= 2*time.Second || cfg.MaxAckPending != 512 {
		t.Errorf("pinned for %s, %d deliveries without acknowledgement", cfg.PinnedTTL, cfg.MaxAckPending)
	}
}

// Two readers with unconfirmed records, both alive: the second waits, logs it once, and never gets a record.
func TestLiveReadersDoNotDisturbEachOther(t *testing.T) {
	w := newEnv(t, Config{})
	want := w.sayAll(alice, 10)
	first, f := w.confirmable(w.reader, FirehoseConfig{})
	got := w.sinkHas(first, 10)
	logged := make(chan string, 100)
	second, _ := w.confirmable(w.newReader(Config{Log: logTo(logged)}, w.srv.Conn(t)), FirehoseConfig{})
	line := <-logged
	if !strings.Contains(line, "firehose waits for another reader") {
		t.Errorf("logged %q", line)
	}
	pinned := time.NewTimer(4 * time.Second) // twice the time of a takeover, without a record or a confirmation
	<-pinned.C
	if n := len(second.got()); n > 0 || len(first.got()) != 10 {
		t.Errorf("the second got %d records, the first %d", n, len(first.got()))
	}
	if len(logged) > 0 {
		t.Errorf("logged %q, too", <-logged)
	}
	if err := f.Confirm(positionOf(got[3])); err != nil {
		t.Fatal(err)
	}
	w.acked2("audit", want[3].Seq)
	_ = first.stop() // context canceled
	same(t, w.sinkHas(second, 6), want[4:])
}

func TestPartitionPosition(t *testing.T) {
	for _, text := range []string{"0.4711-mgj6k3gb", "63.0", "abcdefghijkl:7.12"} {
		if p, err := ParsePartitionPosition(text); err != nil || p.String() != text {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "4711-mgj6k3gb", "0.", ".1", "00.1", "+1.1", "0.01", "0.1-", "x:0.1", ":0.1", "abcdefghijkl:", "0.1 ", "0.1,1.2", "-1.1"} {
		if p, err := ParsePartitionPosition(text); err == nil {
			t.Errorf("%q is the position %s", text, p)
		}
	}
}

// logTo returns a log whose messages of level warning and above go to a channel.
func logTo(lines chan<- string) *slog.Logger {
	return slog.New(slog.NewTextHandler(lineWriter(lines), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type lineWriter chan<- string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
