package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// The log in memory and the log on a server behave the same, so that the tests with a fake clock are valid for a server.
func TestFakeLogMatchesServer(t *testing.T) {
	p := local(t)
	served, err := p.producer(t, Config{}).newNATSLog(testSession)
	if err != nil {
		t.Fatal(err)
	}
	defer served.close()
	for name, log := range map[string]sessionLog{"in memory": newFakeLog(t, testSession), "on a server": served} {
		t.Run(name, func(t *testing.T) { exerciseLog(t, log) })
	}
}

func exerciseLog(t *testing.T, log sessionLog) {
	t.Helper()
	ctx := t.Context()
	number := uint64(0)
	out := func(o chunk.Ordinal, after chunk.Seq) outgoing {
		m := codec.EncodeJSON(codec.Envelope{Session: testSession, Epoch: 1, Ordinal: o},
			codec.Header{Type: "later", Timestamp: 1}, []byte(`{"type":"later","n":`+strconv.Itoa(int(o))+`}`))
		m.Header[headerExpectedSeq] = []string{strconv.FormatUint(uint64(after), 10)}
		number++
		return outgoing{number: number, after: chunk.Position{Seq: after}, messages: []*nats.Msg{{Header: m.Header, Data: m.Data}}}
	}
	wantConflict := func(m outgoing) {
		t.Helper()
		if _, err := log.publish(ctx, m, nil); classify(err) != jsclient.Conflict {
			t.Fatalf("err = %v, want a conflict", err)
		}
	}
	wantNone := func(_ message, err error) {
		t.Helper()
		if !errors.Is(err, jsclient.ErrNotFound) {
			t.Fatalf("err = %v, want none", err)
		}
	}
	wantNone(log.last(ctx))
	wantNone(log.next(ctx, 0))
	wantConflict(out(1, 7))

	var seqs []chunk.Seq
	after := chunk.Seq(0)
	for o := range chunk.Ordinal(4) {
		m := out(o+1, after)
		seq, err := log.publish(ctx, m, nil)
		if err != nil || seq <= after {
			t.Fatal(seq, err)
		}
		wantConflict(m) // a repetition
		found, err := log.next(ctx, after)
		if err != nil || found.seq != seq || !isStoredAs(m.messages[0], found) {
			t.Fatalf("next: %+v, %v", found, err)
		}
		last, err := log.last(ctx)
		if err != nil || last.seq != seq || !isStoredAs(m.messages[0], last) || isStoredAs(out(o+2, seq).messages[0], last) {
			t.Fatalf("last: %+v, %v", last, err)
		}
		wantNone(log.next(ctx, seq))
		after = seq
		seqs = append(seqs, seq)
	}
	for range 2 { // a second delete of the same sequence is not an error
		if err := log.remove(ctx, seqs[1]); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := log.next(ctx, seqs[0]); err != nil || m.seq != seqs[2] {
		t.Errorf("next over a gap: %d, %v", m.seq, err)
	}
	for _, headers := range []bool{false, true} {
		var got []chunk.Seq
		for m, err := range log.scan(ctx, scanRange{after: seqs[0], through: seqs[3], headersOnly: headers}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, o, ok := chunk.ParseEventID(headerOf(m.header, headerID)); !ok || o == 0 {
				t.Errorf("headers of %d: %v", m.seq, m.header)
			}
			got = append(got, m.seq)
		}
		if want := []chunk.Seq{seqs[2], seqs[3]}; !slices.Equal(got, want) {
			t.Errorf("scan: %d, want %d", got, want)
		}
	}
	for range log.scan(ctx, scanRange{through: seqs[2]}) {
		break // the caller stops reading
	}
	for range log.scan(ctx, scanRange{after: 5, through: 5}) {
		t.Error("an empty range has something in it")
	}
}

// A stored message is byte for byte as docs/reference/log.md specifies.
func TestMessageOnTheWire(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession, AgentType("writer"))
	seq, err := r.Write(t.Context(), chunk.Chunk{Timestamp: 1_770_000_000_123, Step: 2, Body: chunk.TextDelta{Delta: "hi"}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.log.last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-specversion":                      {"1.0"},
		"ce-id":                               {"1-2"},
		"ce-sessionbytes":                     {"273"},
		"ce-source":                           {"/acme/s1/s1"},
		"ce-type":                             {"text_delta"},
		"ce-time":                             {"2026-02-02T02:40:00.123Z"},
		"ce-datacontenttype":                  {"application/json"},
		"Nats-Expected-Last-Subject-Sequence": {strconv.Itoa(int(seq) - 1)},
	}
	if string(m.data) != `{"type":"text_delta","agentId":"s1","agentType":"writer","timestamp":1770000000123,"step":2,"delta":"hi"}` {
		t.Errorf("body %s", m.data)
	}
	if len(m.header) != len(want) {
		t.Errorf("headers %v, want %v", m.header, want)
	}
	for name, v := range want {
		if !slices.Equal(m.header[name], v) {
			t.Errorf("%s: %q, want %q", name, m.header[name], v)
		}
	}
}

func TestARunOnAServer(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession, AgentType("writer"))
	if r.Session() != testSession || r.Epoch() != 1 || r.ID() == "" || r.Position().Ordinal != 1 {
		t.Errorf("it is %+v, epoch %d, id %q, at %+v", r.Session(), r.Epoch(), r.ID(), r.Position())
	}
	emitAll(t, r, text("Hel"), text("lo"), numbered(1))
	pos, err := r.Flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	recs := p.log(t, testSession)
	if pos != recs[len(recs)-1].Position() || pos != r.Position() {
		t.Errorf("Flush: %+v, the log ends at %+v", pos, recs[len(recs)-1].Position())
	}
	if err := r.Pause(t.Context(), "approval"); err != nil {
		t.Fatal(err)
	}
	next := mustStart(t, producer, testSession) // a new run opens the paused stream
	if err := r.Activate(t.Context()); !errors.Is(err, chunk.ErrFenced) {
		t.Errorf("the old run: %v, want fenced", err)
	}
	if err := next.End(t.Context(), chunk.Value(`{"answer":42}`)); err != nil {
		t.Fatal(err)
	}
	var types []string
	for i, rec := range p.log(t, testSession) {
		types = append(types, string(rec.Type))
		if rec.Ordinal != chunk.Ordinal(i+1) {
			t.Errorf("record %d has ordinal %d", i, rec.Ordinal)
		}
	}
	types = slices.Compact(types) // the two deltas merged if the first was still waiting
	if got := strings.Join(types, " "); got != "run_started text_delta custom stream_paused run_started stream_end" {
		t.Errorf("the log has %s", got)
	}
}

func TestCV8OnAServer(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	r, minSeq := twoTurns(t, func() *Run { return mustStart(t, producer, testSession) })
	if n, err := r.CleanupToStep(t.Context(), 1, minSeq); n != 1 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	if got := survivors(p.log(t, testSession)); !slices.Equal(got, []int{1, 2, 3, 4, 5, 6, 7, 9}) {
		t.Errorf("left: %v", got)
	}
	if n, err := r.CleanupToStep(t.Context(), 1, 0); n != 2 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	if got := survivors(p.log(t, testSession)); !slices.Equal(got, []int{1, 2, 5, 6, 7, 9, 10}) {
		t.Errorf("left: %v", got)
	}
	if _, err := r.Write(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	wantNoConsumers(t, p)
}

// wantNoConsumers waits until the stream has none: a scan deletes its own without waiting for the response of the server.
func wantNoConsumers(t *testing.T, p env) {
	t.Helper()
	natstest.Eventually(t, "no consumers", func(ctx context.Context) error {
		stream, err := p.js.Stream(ctx, "TR_CHUNKS_0")
		if err != nil {
			return err
		}
		if n := stream.CachedInfo().State.Consumers; n > 0 {
			return fmt.Errorf("%d consumers", n)
		}
		return nil
	})
}

// A cleanup removes all records of a session with some thousand chunks.
func TestLargeCleanupOnAServer(t *testing.T) {
	p := local(t)
	r := mustStart(t, p.producer(t, Config{}), testSession)
	const n = 2100 // more than two batches of the reader
	for i := range n {
		emitAll(t, r, numbered(i))
	}
	if removed, err := r.CleanupToStep(t.Context(), 0, 0); removed != n || err != nil {
		t.Fatalf("removed %d, %v", removed, err)
	}
	if got := survivors(p.log(t, testSession)); !slices.Equal(got, []int{1, n + 2}) {
		t.Errorf("left: %v", got)
	}
	wantNoConsumers(t, p)
}

// The writer crashes before its deletes, and the next Start completes them, on a server.
func TestNextStartFinishesTheDeletes(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	r, _ := twoTurns(t, func() *Run { return mustStart(t, producer, testSession) })
	removable, _, err := r.findRemovable(t.Context(), 1, 0, r.Position().Seq)
	if err != nil || len(removable) != 3 {
		t.Fatal(removable, err)
	}
	mark := chunk.Truncated{TruncatedAtStep: 1, FromSequence: int64(removable[0].Seq), AtSequence: int64(r.Position().Seq), Removed: rangesOf(removable)}
	if err := r.appendTruncation(t.Context(), mark, nil); err != nil { // and no deletes
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	mustStart(t, producer, testSession, TakeOver())
	if got := survivors(p.log(t, testSession)); !slices.Equal(got, []int{1, 2, 5, 6, 7, 9, 10}) {
		t.Errorf("left: %v", got)
	}
	wantNoConsumers(t, p)
}

// A session whose records were purged continues at the stored position, and its old writer is fenced.
func TestPurgedSession(t *testing.T) {
	p := local(t)
	h := &heads{}
	producer := p.producer(t, Config{Positions: h, RetryTimeout: 5 * time.Second})
	old := mustStart(t, producer, testSession)
	if _, err := old.Write(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	h.pos, h.epoch = old.Position(), old.Epoch()
	stream, err := p.js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject("tr.chunks.0.acme.s1.s1")); err != nil {
		t.Fatal(err)
	}
	var fenced *FencedError
	if _, err := old.Write(t.Context(), numbered(2)); !errors.As(err, &fenced) || fenced.At != 0 {
		t.Errorf("the old writer: %v, want fenced because its records are gone", err)
	}
	r := mustStart(t, producer, testSession)
	if r.Epoch() != 2 || r.Position().Ordinal != 3 {
		t.Errorf("epoch %d, ordinal %d, want 2 and 3", r.Epoch(), r.Position().Ordinal)
	}
}

// A malformed message does not block a session.
func TestStrayMessageOnAServer(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession)
	if err := r.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.js.Publish(t.Context(), "tr.chunks.0.acme.s1.s1", []byte("hello?")); err != nil {
		t.Fatal(err)
	}
	r = mustStart(t, producer, testSession)
	if r.Epoch() != 2 || r.Position().Ordinal != 3 {
		t.Errorf("epoch %d, ordinal %d, want 2 and 3", r.Epoch(), r.Position().Ordinal)
	}
	if _, err := r.Write(t.Context(), numbered(1)); err != nil {
		t.Error(err)
	}
	wantNoConsumers(t, p)
}

func TestPartitionsAndPrefix(t *testing.T) {
	nc := natstest.Start(t).Conn(t)
	layout := subjects.Layout{Prefix: "test.x", Partitions: 3}
	p := newEnvWith(t, nc, layout)
	producer := p.producer(t, Config{Layout: layout})
	for i := range 10 {
		s := chunk.RootSession("acme", "s"+strconv.Itoa(i))
		r := mustStart(t, producer, s)
		seq, err := r.Write(t.Context(), numbered(i))
		if err != nil {
			t.Fatal(err)
		}
		stream, err := p.js.Stream(t.Context(), layout.Stream(layout.Partition(s)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetMsg(t.Context(), uint64(seq))
		if err != nil || !strings.HasSuffix(m.Subject, ".acme."+s.ID+"."+s.ID) {
			t.Errorf("%v, %v", m, err)
		}
	}
}
