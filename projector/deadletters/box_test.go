package deadletters_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/deadletters"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/projector/storetest"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var s1 = chunk.RootSession("acme", "s1")

// world is a server with everything, and a hand that writes into the log.
type world struct {
	*testing.T

	nc    *nats.Conn
	js    jetstream.JetStream
	box   *deadletters.Box
	log   natssource.Log
	store *kvstore.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, nc: natstest.Start(t).Conn(t)}
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		t.Fatal(err)
	}
	if err = topology.Ensure(t.Context(), w.js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.box, err = deadletters.New(w.js, deadletters.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.log.Reader, err = consumers.New(w.nc, w.js, consumers.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.store, err = kvstore.New(w.js, kvstore.Config{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// write puts a message into the log and says where it is.
func (w *world) write(subject string, header nats.Header, data []byte) deadletters.Origin {
	w.Helper()
	ack, err := w.js.PublishMsg(w.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		w.Fatal(err)
	}
	stream, err := w.js.Stream(w.Context(), "TR_CHUNKS_0")
	if err != nil {
		w.Fatal(err)
	}
	m, err := stream.GetMsg(w.Context(), ack.Sequence)
	if err != nil {
		w.Fatal(err)
	}
	return deadletters.Origin{Stream: "TR_CHUNKS_0", Subject: subject, Seq: chunk.Seq(ack.Sequence), Stored: m.Time}
}

// record writes a record of s1 and reads it back.
func (w *world) record(o chunk.Ordinal, body chunk.Body) chunk.Record {
	w.Helper()
	m, err := codec.Encode(s1, 1, o, chunk.Chunk{AgentID: s1.ID, AgentType: "t", Timestamp: 1, Body: body}, codec.FormatJSON)
	if err != nil {
		w.Fatal(err)
	}
	at := w.write("tr.chunks.0.acme.s1.s1", m.Header, m.Data)
	rec, err := codec.Decode(s1, at.Seq, at.Stored, m.Header, m.Data)
	if err != nil {
		w.Fatal(err)
	}
	return rec
}

func (w *world) letters() []deadletters.Letter {
	w.Helper()
	var all []deadletters.Letter
	for letter, err := range w.box.All(w.Context()) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, letter)
	}
	return all
}

// A letter has the bytes of its message, headers included, where it came from and
// why it is here. Buried twice, it is one.
func TestBuriedOnce(t *testing.T) {
	w := newWorld(t)
	header := nats.Header{"Zebra": {"2", "1"}, "apple": {"spaces and \\ and \u00fc"}, "Nats-Expected-Last-Subject-Sequence": {"0"}}
	data := []byte("\x00\xff not json \r\n")
	at := w.write("tr.chunks.0.acme.s1.s1", header, data)
	stray := w.write("tr.chunks.0.acme.s1.*\u00fc", nil, []byte("{}"))
	for range 2 {
		if err := w.box.BuryForeign(t.Context(), 0, at, errors.New("no envelope\nat all\x1b[31m")); err != nil {
			t.Fatal(err)
		}
		if err := w.box.BuryForeign(t.Context(), 0, stray, errors.New("a star")); err != nil {
			t.Fatal(err)
		}
	}
	all := w.letters()
	if len(all) != 2 {
		t.Fatalf("%d letters: %+v; want 2", len(all), all)
	}
	one, two := all[0], all[1]
	if one.Reason != deadletters.ReasonEnvelope || one.Why != "no envelope at all [31m" || one.Session != s1 || one.Origin.Seq != at.Seq ||
		!one.Origin.Stored.Equal(at.Stored) || one.Origin.Subject != at.Subject || one.Origin.Stream != at.Stream || one.Missing != "" {
		t.Errorf("letter %+v", one)
	}
	if !bytes.Equal(one.Data, data) {
		t.Errorf("data %q, want %q", one.Data, data)
	}
	if got, err := nats.DecodeHeadersMsg(one.Header); err != nil || got.Get("apple") != header.Get("apple") || len(got["Zebra"]) != 2 ||
		!strings.HasPrefix(string(one.Header), "NATS/1.0\r\n") {
		t.Errorf("headers %q, %v", one.Header, err)
	}
	if two.Reason != deadletters.ReasonSubject || two.Session != (chunk.Session{}) || two.Origin.Subject != stray.Subject ||
		string(two.Data) != "{}" || two.Header != nil {
		t.Errorf("letter %+v", two)
	}
	got, err := w.box.Get(t.Context(), one.Number)
	if err != nil || got.Number != one.Number || got.Why != one.Why {
		t.Errorf("Get: %+v, %v", got, err)
	}
	if err := w.box.Drop(t.Context(), one.Number); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Drop(t.Context(), one.Number); !errors.Is(err, deadletters.ErrNoLetter) {
		t.Errorf("dropped twice: %v, want ErrNoLetter", err)
	}
	if _, err := w.box.Get(t.Context(), one.Number); !errors.Is(err, deadletters.ErrNoLetter) {
		t.Errorf("Get of a dropped one: %v, want ErrNoLetter", err)
	}
	if all := w.letters(); len(all) != 1 || all[0].Number != two.Number {
		t.Errorf("left: %+v", all)
	}
}

// A message that the log has let go of, or that is another one by now, or that
// nobody can carry together with the headers of a letter, is missing and said so.
func TestMissingMessages(t *testing.T) {
	w := newWorld(t)
	at := w.write("tr.chunks.0.acme.s1.s1", nil, []byte("x"))
	other := at
	other.Stored = at.Stored.Add(time.Second)
	gone := at
	gone.Seq = 99
	for _, origin := range []deadletters.Origin{other, gone} {
		if err := w.box.BuryForeign(t.Context(), 0, origin, errors.New("x")); err != nil {
			t.Fatal(err)
		}
	}
	small, err := w.js.Stream(t.Context(), "TR_DEADLETTERS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := small.CachedInfo().Config
	cfg.MaxMsgSize = 1000
	if _, err := w.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	large := w.write("tr.chunks.0.acme.s1.s1", nil, bytes.Repeat([]byte("y"), 1000))
	if err := w.box.BuryForeign(t.Context(), 0, large, errors.New("x")); err != nil {
		t.Fatal(err)
	}
	var missing []deadletters.Missing
	for _, letter := range w.letters() {
		if letter.Header != nil || letter.Data != nil {
			t.Errorf("letter %+v has a message", letter)
		}
		missing = append(missing, letter.Missing)
	}
	if len(missing) != 3 || missing[0] != deadletters.Gone || missing[1] != deadletters.Gone || missing[2] != deadletters.TooLarge {
		t.Errorf("missing %q", missing)
	}
	for i, err := range w.box.Replay(t.Context(), w.letters(), w.store, w.log) {
		if want := map[bool]error{true: deadletters.ErrLogGone, false: deadletters.ErrStillDead}[i < 2]; !errors.Is(err, want) {
			t.Errorf("replay of letter %d: %v, want %v", i, err, want)
		}
	}
}

// What a stranger puts into the stream of letters can be seen and dropped, and
// hides none that comes after it.
func TestStrangersInTheBox(t *testing.T) {
	w := newWorld(t)
	if _, err := w.js.Publish(t.Context(), "tr.deadletters.acme.s1.s1.x", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.box.BuryForeign(t.Context(), 0, w.write("tr.chunks.0.acme.s1.s1", nil, nil), errors.New("x")); err != nil {
		t.Fatal(err)
	}
	all := w.letters()
	if len(all) != 2 || all[0].Reason != "" || string(all[0].Data) != "hello" || all[1].Reason != deadletters.ReasonEnvelope {
		t.Fatalf("letters %+v", all)
	}
	if errs := w.box.Replay(t.Context(), all[:1], w.store, w.log); !errors.Is(errs[0], deadletters.ErrStillDead) {
		t.Errorf("replay: %v, want ErrStillDead", errs)
	}
	if err := w.box.Drop(t.Context(), all[0].Number); err != nil {
		t.Error(err)
	}
}

// An older build could not read a record; this one can. Replay puts it into the
// snapshot and drops the letter, while a Runner holds the old snapshot in memory
// and goes on.
func TestReplay(t *testing.T) {
	w := newWorld(t)
	records := []chunk.Record{
		w.record(1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}),
		w.record(2, chunk.TextDelta{Delta: "one "}),
		w.record(3, chunk.TextDelta{Delta: "two "}),
	}
	// What the older build left.
	old := fold.New(s1)
	for i, rec := range records {
		var err error
		if i == 1 {
			old, err = fold.Skip(old, rec, "unreadable")
		} else {
			old, err = fold.Apply(old, rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.Save(t.Context(), old, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Bury(t.Context(), records[1], "unreadable"); err != nil {
		t.Fatal(err)
	}
	poison := w.write("tr.chunks.0.acme.s1.s1", codec.EncodeJSON(s1, 1, 4, chunk.TypeTextDelta, 1, nil).Header, []byte(`{"type":"text_delta","delta":7}`))
	w.project()
	natstest.Await(t, "the poison", func(context.Context) error {
		if len(w.letters()) < 2 {
			return errors.New("not buried yet")
		}
		return nil
	})
	all := w.letters()
	errs := w.box.Replay(t.Context(), all, w.store, w.log)
	if errs[0] != nil || !errors.Is(errs[1], deadletters.ErrStillDead) || all[1].Origin.Seq != poison.Seq || all[1].Reason != deadletters.ReasonRecord {
		t.Errorf("errors %v of %+v; want nil and ErrStillDead", errs, all)
	}
	if left := w.letters(); len(left) != 1 || left[0].Number != all[1].Number {
		t.Errorf("left: %+v", left)
	}
	storetest.Equal(t, "folded anew", storetest.Stored(t, w.store, s1), storetest.Fold(t, w.log, s1))
	last := w.record(5, chunk.TextDelta{Delta: "three"})
	reader := projector.NewReader(w.store, w.log)
	natstest.Await(t, "the next record", func(ctx context.Context) error {
		pos, _, err := reader.Head(ctx, s1)
		if err == nil && pos != last.Position() {
			err = errors.New("not yet")
		}
		return err
	})
	snap := storetest.Stored(t, w.store, s1)
	storetest.Equal(t, "and on", snap, storetest.Fold(t, w.log, s1))
	if page := string(snap.Frontend(true, 0).AppendJSON(nil)); !strings.Contains(page, "one two three") || snap.Faults.Skipped != 1 {
		t.Errorf("page %s, faults %+v", page, snap.Faults)
	}
}

// A log that no longer has the beginning is not folded anew: the head has more.
func TestReplayWithoutTheLog(t *testing.T) {
	w := newWorld(t)
	snap := fold.New(s1)
	var err error
	var records []chunk.Record
	for o := range chunk.Ordinal(3) {
		rec := w.record(o+1, chunk.TextDelta{Delta: "x"})
		records = append(records, rec)
		if snap, err = fold.Apply(snap, rec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.Save(t.Context(), snap, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.box.Bury(t.Context(), records[2], "x"); err != nil {
		t.Fatal(err)
	}
	stream, err := w.js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), uint64(records[0].Seq)); err != nil {
		t.Fatal(err)
	}
	before := storetest.Stored(t, w.store, s1)
	if errs := w.box.Replay(t.Context(), w.letters(), w.store, w.log); !errors.Is(errs[0], deadletters.ErrLogGone) {
		t.Errorf("errors %v, want ErrLogGone", errs)
	}
	storetest.Equal(t, "as it was", storetest.Stored(t, w.store, s1), before)
	if len(w.letters()) != 1 {
		t.Error("the letter is gone")
	}
}

// project runs a projector until the test ends.
func (w *world) project() {
	w.Helper()
	source, err := natssource.New(w.js, natssource.Config{Foreign: func(ctx context.Context, f natssource.Foreign) error {
		return w.box.BuryForeign(ctx, f.Partition, deadletters.Origin{Subject: f.Subject, Seq: f.Seq, Stored: f.Stored}, f.Err)
	}})
	if err != nil {
		w.Fatal(err)
	}
	runner, err := projector.NewRunner(source, w.store, w.log, projector.Config{SaveAfter: 20 * time.Millisecond, DeadLetter: w.box})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
	})
}

func TestConfigNamesTheField(t *testing.T) {
	w := newWorld(t)
	_, err := deadletters.New(w.js, deadletters.Config{Layout: subjects.Layout{Partitions: -1}})
	if err == nil || !strings.Contains(err.Error(), "Layout: Partitions is -1") {
		t.Errorf("err = %v", err)
	}
}
