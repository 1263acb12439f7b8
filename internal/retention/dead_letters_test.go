package retention

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

// addedReasons keeps the reasons of new entries.
type addedReasons struct {
	mu  sync.Mutex // guards all
	all []Reason
}

func (a *addedReasons) add(reason Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, reason)
}

// putMessage stores a message in the log and returns its origin.
func (w *env) putMessage(subject string, header nats.Header, data []byte) Origin {
	w.Helper()
	ack, err := w.JS.PublishMsg(w.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	if err != nil {
		w.Fatal(err)
	}
	stream, err := w.JS.Stream(w.Context(), "TR_CHUNKS_0")
	if err != nil {
		w.Fatal(err)
	}
	m, err := stream.GetMsg(w.Context(), ack.Sequence)
	if err != nil {
		w.Fatal(err)
	}
	return Origin{Stream: "TR_CHUNKS_0", Subject: subject, Seq: chunk.Seq(ack.Sequence), Stored: m.Time}
}

// record writes a record of s1 and reads it back.
func (w *env) record(o chunk.Ordinal, body chunk.Body) chunk.Record {
	w.Helper()
	m, err := codec.Encode(codec.Envelope{Session: s1, Epoch: 1, Ordinal: o}, chunk.Chunk{AgentID: s1.ID, AgentType: "t", Timestamp: 1, Body: body})
	if err != nil {
		w.Fatal(err)
	}
	at := w.putMessage("tr.chunks.0.acme.s1.s1", m.Header, m.Data)
	rec, err := codec.Decode(codec.Stored{Session: s1, Seq: at.Seq, At: at.Stored, Header: m.Header, Data: m.Data})
	if err != nil {
		w.Fatal(err)
	}
	return rec
}

func (w *env) entries() []DeadLetter {
	w.Helper()
	var all []DeadLetter
	for entry, err := range w.dead.All(w.Context()) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, entry)
	}
	return all
}

// An entry has the bytes of its message, headers included, its origin and the reason. A message that is added twice has one entry.
func TestAddedOnce(t *testing.T) {
	w := newEnv(t)
	header := nats.Header{"Zebra": {"2", "1"}, "apple": {"spaces and \\ and \u00fc"}, "Nats-Expected-Last-Subject-Sequence": {"0"}}
	data := []byte("\x00\xff not json \r\n")
	at := w.putMessage("tr.chunks.0.acme.s1.s1", header, data)
	stray := w.putMessage("tr.chunks.0.acme.s1.*\u00fc", nil, []byte("{}"))
	for range 2 {
		if err := w.dead.AddMalformed(t.Context(), 0, at, errors.New("no envelope\nat all\x1b[31m")); err != nil {
			t.Fatal(err)
		}
		if err := w.dead.AddMalformed(t.Context(), 0, stray, errors.New("a star")); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.added.all; !slices.Equal(got, []Reason{ReasonEnvelope, ReasonSubject}) {
		t.Errorf("observed %q, want each once", got)
	}
	all := w.entries()
	if len(all) != 2 {
		t.Fatalf("%d entries: %+v; want 2", len(all), all)
	}
	one, two := all[0], all[1]
	if one.Reason != ReasonEnvelope || one.Detail != "no envelope at all [31m" || one.Session != s1 || one.Origin.Seq != at.Seq ||
		!one.Origin.Stored.Equal(at.Stored) || one.Origin.Subject != at.Subject || one.Origin.Stream != at.Stream || one.Missing != "" {
		t.Errorf("entry %+v", one)
	}
	if !bytes.Equal(one.Data, data) {
		t.Errorf("data %q, want %q", one.Data, data)
	}
	if got, err := nats.DecodeHeadersMsg(one.Header); err != nil || got.Get("apple") != header.Get("apple") || len(got["Zebra"]) != 2 ||
		!strings.HasPrefix(string(one.Header), "NATS/1.0\r\n") {
		t.Errorf("headers %q, %v", one.Header, err)
	}
	if two.Reason != ReasonSubject || two.Session != (chunk.Session{}) || two.Origin.Subject != stray.Subject ||
		string(two.Data) != "{}" || two.Header != nil {
		t.Errorf("entry %+v", two)
	}
	got, err := w.dead.Get(t.Context(), one.Seq)
	if err != nil || got.Seq != one.Seq || got.Detail != one.Detail {
		t.Errorf("Get: %+v, %v", got, err)
	}
	if err := w.operator.Drop(t.Context(), one.Seq); err != nil {
		t.Fatal(err)
	}
	if err := w.operator.Drop(t.Context(), one.Seq); !errors.Is(err, ErrNoDeadLetter) {
		t.Errorf("deleted twice: %v, want ErrNoDeadLetter", err)
	}
	if _, err := w.dead.Get(t.Context(), one.Seq); !errors.Is(err, ErrNoDeadLetter) {
		t.Errorf("Get after Drop: %v, want ErrNoDeadLetter", err)
	}
	if all := w.entries(); len(all) != 1 || all[0].Seq != two.Seq {
		t.Errorf("left: %+v", all)
	}
}

// An entry reports why its message is missing: it has expired, its sequence holds another message, or it is too large together with the headers of the
// entry.
func TestMissingMessages(t *testing.T) {
	w := newEnv(t)
	at := w.putMessage("tr.chunks.0.acme.s1.s1", nil, []byte("x"))
	other := at
	other.Stored = at.Stored.Add(time.Second)
	gone := at
	gone.Seq = 99
	for _, origin := range []Origin{other, gone} {
		if err := w.dead.AddMalformed(t.Context(), 0, origin, errors.New("x")); err != nil {
			t.Fatal(err)
		}
	}
	small, err := w.JS.Stream(t.Context(), "TR_DEADLETTERS")
	if err != nil {
		t.Fatal(err)
	}
	cfg := small.CachedInfo().Config
	cfg.MaxMsgSize = 1000
	if _, err := w.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	large := w.putMessage("tr.chunks.0.acme.s1.s1", nil, bytes.Repeat([]byte("y"), 1000))
	if err := w.dead.AddMalformed(t.Context(), 0, large, errors.New("x")); err != nil {
		t.Fatal(err)
	}
	var missing []Missing
	for _, entry := range w.entries() {
		if entry.Header != nil || entry.Data != nil {
			t.Errorf("entry %+v has a message", entry)
		}
		missing = append(missing, entry.Missing)
	}
	if len(missing) != 3 || missing[0] != MissingExpired || missing[1] != MissingExpired || missing[2] != MissingTooLarge {
		t.Errorf("missing %q", missing)
	}
	for i, err := range w.operator.Replay(t.Context(), w.entries(), w.store, w.log) {
		if want := map[bool]error{true: ErrLogIncomplete, false: ErrStillUnreadable}[i < 2]; !errors.Is(err, want) {
			t.Errorf("replay of entry %d: %v, want %v", i, err, want)
		}
	}
}

// A message of another program in the stream can be listed and deleted, and does not hide the entries after it.
func TestMessageOfAnotherProgram(t *testing.T) {
	w := newEnv(t)
	if _, err := w.JS.Publish(t.Context(), "tr.deadletters.acme.s1.s1.x", []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.dead.AddMalformed(t.Context(), 0, w.putMessage("tr.chunks.0.acme.s1.s1", nil, nil), errors.New("x")); err != nil {
		t.Fatal(err)
	}
	all := w.entries()
	if len(all) != 2 || all[0].Reason != "" || string(all[0].Data) != "hello" || all[1].Reason != ReasonEnvelope {
		t.Fatalf("entries %+v", all)
	}
	if errs := w.operator.Replay(t.Context(), all[:1], w.store, w.log); !errors.Is(errs[0], ErrStillUnreadable) {
		t.Errorf("replay: %v, want ErrStillUnreadable", errs)
	}
	if err := w.operator.Drop(t.Context(), all[0].Seq); err != nil {
		t.Error(err)
	}
}

// An older build could not read a record; this one can. Replay adds it to the snapshot and deletes the entry, while a Runner has the old snapshot in memory
// and continues.
func TestReplay(t *testing.T) {
	w := newEnv(t)
	records := []chunk.Record{
		w.record(1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}),
		w.record(2, chunk.TextDelta{Delta: "one "}),
		w.record(3, chunk.TextDelta{Delta: "two "}),
	}
	// The snapshot of the older build.
	old := fold.New(s1)
	for i, rec := range records {
		var err error
		if i == 1 {
			err = old.Skip(rec, "unreadable")
		} else {
			err = old.Apply(rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.Save(t.Context(), old.Snapshot(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.dead.Add(t.Context(), records[1], "unreadable"); err != nil {
		t.Fatal(err)
	}
	poison := w.putMessage("tr.chunks.0.acme.s1.s1", codec.EncodeJSON(codec.Envelope{Session: s1, Epoch: 1, Ordinal: 4},
		codec.Header{Type: chunk.TypeTextDelta, Timestamp: 1}, nil).Header, []byte(`{"type":"text_delta","delta":7}`))
	t.Cleanup(w.project())
	natstest.Eventually(t, "the poison", func(context.Context) error {
		if len(w.entries()) < 2 {
			return errors.New("not added yet")
		}
		return nil
	})
	all := w.entries()
	errs := w.operator.Replay(t.Context(), all, w.store, w.log)
	if errs[0] != nil || !errors.Is(errs[1], ErrStillUnreadable) || all[1].Origin.Seq != poison.Seq || all[1].Reason != ReasonRecord {
		t.Errorf("errors %v of %+v; want nil and ErrStillUnreadable", errs, all)
	}
	if left := w.entries(); len(left) != 1 || left[0].Seq != all[1].Seq {
		t.Errorf("left: %+v", left)
	}
	storetest.Equal(t, "refolded", storetest.Stored(t, w.store, s1), storetest.Fold(t, w.log, s1))
	last := w.record(5, chunk.TextDelta{Delta: "three"})
	natstest.Eventually(t, "the next record", func(ctx context.Context) error {
		pos, _, _, err := w.Reader.StoredPosition(ctx, s1)
		if err == nil && pos != last.Position() {
			err = errors.New("not yet")
		}
		return err
	})
	snap := storetest.Stored(t, w.store, s1)
	storetest.Equal(t, "and on", snap, storetest.Fold(t, w.log, s1))
	if page := string(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true}).AppendJSON(nil)); !strings.Contains(page, "one two three") || snap.Faults.Skipped != 1 {
		t.Errorf("page %s, faults %+v", page, snap.Faults)
	}
}

// A session whose first records have expired is not refolded: the stored snapshot has more.
func TestReplayWithoutTheLog(t *testing.T) {
	w := newEnv(t)
	f := fold.New(s1)
	var records []chunk.Record
	for o := range chunk.Ordinal(3) {
		rec := w.record(o+1, chunk.TextDelta{Delta: "x"})
		records = append(records, rec)
		if err := f.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.Save(t.Context(), f.Snapshot(), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.dead.Add(t.Context(), records[2], "x"); err != nil {
		t.Fatal(err)
	}
	stream, err := w.JS.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), uint64(records[0].Seq)); err != nil {
		t.Fatal(err)
	}
	before := storetest.Stored(t, w.store, s1)
	if errs := w.operator.Replay(t.Context(), w.entries(), w.store, w.log); !errors.Is(errs[0], ErrLogIncomplete) {
		t.Errorf("errors %v, want ErrLogIncomplete", errs)
	}
	storetest.Equal(t, "as it was", storetest.Stored(t, w.store, s1), before)
	if len(w.entries()) != 1 {
		t.Error("the entry is gone")
	}
}
