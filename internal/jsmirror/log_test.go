package jsmirror_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/jsmirror"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/topology"
)

func TestMain(m *testing.M) { natstest.Main(m) }

var session = chunk.RootSession("acme", "s1")

// env is a log at home, and mirrors of it.
type env struct {
	*natstest.Leaf
	*jsmirror.Log

	t           *testing.T
	home, local jetstream.JetStream
	run         *producers.Run
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{Leaf: natstest.StartLeaf(t, natstest.LeafConfig{}), t: t}
	w.home = w.Home.JetStream(t)
	streamtest.Ensure(t, w.home, topology.Config{})
	nc := w.Leaf.Leaf.Conn(t)
	var err error
	w.local, err = jetstream.NewWithDomain(nc, natstest.LeafDomain)
	w.must(err)
	far, err := jetstream.NewWithDomain(nc, natstest.HomeDomain)
	w.must(err)
	w.ensure(far, topology.MirrorCreated)
	w.Log, err = jsmirror.New(w.local, far, consumers.Config{})
	w.must(err)
	w.SetTimeouts(30 * time.Second)
	w.start()
	return w
}

func (w *env) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ensure creates the mirrors.
func (w *env) ensure(far jetstream.JetStream, want topology.MirrorResult) {
	w.t.Helper()
	w.must(topology.EnsureMirrors(w.t.Context(), far, w.local, topology.MirrorConfig{HomeDomain: natstest.HomeDomain}, func(m topology.Mirror) {
		if m.Result != want {
			w.t.Errorf("mirror %+v, want %s", m, want)
		}
	}))
}

// start starts a run at home.
func (w *env) start() {
	w.t.Helper()
	p, err := producers.New(w.home, producers.Config{Linger: producers.Off})
	w.must(err)
	w.t.Cleanup(func() { _ = p.Close() })
	w.run, err = p.Start(w.t.Context(), session, chunk.RunStarted{Mode: "execute"}, producers.AgentType("a"))
	w.must(err)
}

// write stores a record at home, and returns its sequence.
func (w *env) write(text string) chunk.Seq {
	w.t.Helper()
	w.must(w.run.EmitBody(w.t.Context(), chunk.TextDelta{Delta: text}))
	pos, err := w.run.Flush(w.t.Context())
	w.must(err)
	return pos.Seq
}

// follow runs the comparisons until stop is called, and waits until the mirrors can be read.
func (w *env) follow() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(stop)
	natstest.Eventually(w.t, "usable mirrors", func(context.Context) error { return w.Usable() })
	return stop
}

// Every read of the mirror has what was stored at home before.
func TestReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	if _, err := w.Tip(t.Context(), 0); !errors.Is(err, jsmirror.ErrBehind) {
		t.Errorf("before the first comparison: %v", err)
	}
	w.follow()
	atHome, err := consumers.New(w.home, consumers.Config{})
	w.must(err)
	end, err := atHome.Tip(t.Context(), 0)
	w.must(err)
	if tip, err := w.Tip(t.Context(), 0); err != nil || tip != end {
		t.Errorf("the tip is %+v, %v, at home %+v", tip, err, end)
	}
	for n := range 50 {
		seq := w.write(fmt.Sprint(n))
		rec, err := w.Last(t.Context(), session)
		if err != nil || rec.Seq != seq {
			t.Fatalf("the last record is %d, %v, want %d", rec.Seq, err, seq)
		}
		seq = w.write("tip")
		if tip, err := w.Tip(t.Context(), 0); err != nil || tip.Seq != seq {
			t.Fatalf("the tip is %d, %v, want %d", tip.Seq, err, seq)
		}
		seq = w.write("replay")
		last := chunk.Seq(0)
		for rec, err := range w.Replay(t.Context(), chunk.Range{Session: session, After: chunk.Position{Seq: rec.Seq, Ordinal: rec.Ordinal}, Anchor: rec.Anchor()}) {
			if err != nil {
				t.Fatal(err)
			}
			last = rec.Seq
		}
		if last != seq {
			t.Fatalf("a replay ends at %d, want %d", last, seq)
		}
		w.write("cursor")
		rec, err = w.Last(t.Context(), session)
		if err != nil {
			t.Fatal(err)
		}
		if pos, err := w.CheckCursor(t.Context(), session, chunk.ScopeSession, rec.Cursor()); err != nil || pos != rec.Position() {
			t.Fatalf("cursor: %v, %v", pos, err)
		}
	}
	if _, err := w.Last(t.Context(), chunk.RootSession("acme", "unknown")); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("an unknown session: %v", err)
	}
	for _, err := range w.Replay(t.Context(), chunk.Range{Session: session, After: chunk.Position{Seq: 1 << 40, Ordinal: 1 << 40}}) {
		if truncated, ok := errors.AsType[*chunk.TruncatedError](err); !ok || truncated.Reason != chunk.TruncatedFuture {
			t.Errorf("a position beyond the end at home: %v", err)
		}
	}
}

// The last message was deleted at home before the mirror got it: the mirror is complete without it.
func TestEndWasDeleted(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.follow()
	w.Cut(t)
	seq := w.write("deleted")
	stream, err := w.home.Stream(t.Context(), "TR_CHUNKS_0")
	w.must(err)
	w.must(stream.DeleteMsg(t.Context(), uint64(seq)))
	w.Link.Restore()
	w.AwaitLink(t)
	natstest.Eventually(t, "a read", func(ctx context.Context) error {
		_, err := w.Last(ctx, chunk.RootSession("acme", "unknown"))
		if errors.Is(err, chunk.ErrUnknownSession) {
			return nil
		}
		return fmt.Errorf("an unknown session: %w", err)
	})
}

// What was removed at home is not read from the mirror, which keeps it.
func TestRemovedAtHome(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.follow()
	w.write("removed")
	removed, err := w.Last(t.Context(), session)
	w.must(err)
	read := func(of chunk.Range) (seqs []chunk.Seq, err error) {
		of.Session = session
		for rec, err := range w.Replay(t.Context(), of) {
			if err != nil {
				return seqs, err
			}
			seqs = append(seqs, rec.Seq)
		}
		return seqs, nil
	}
	if seqs, err := read(chunk.Range{}); err != nil || len(seqs) != 2 {
		t.Errorf("before: %v, %v", seqs, err)
	}
	stream, err := w.home.Stream(t.Context(), "TR_CHUNKS_0")
	w.must(err)
	w.must(stream.Purge(t.Context(), jetstream.WithPurgeSubject("tr.chunks.0.acme.s1.s1")))
	for _, tree := range []bool{false, true} {
		if seqs, err := read(chunk.Range{Tree: tree}); !errors.Is(err, chunk.ErrUnknownSession) || len(seqs) > 0 {
			t.Errorf("after, tree %t: %v, %v", tree, seqs, err)
		}
	}
	w.start() // again
	seq := w.write("kept")
	for _, of := range []chunk.Range{{}, {Tree: true}, {After: chunk.Position{Seq: removed.Seq - 1, Ordinal: removed.Ordinal - 1}}} {
		seqs, err := read(of)
		if truncated, ok := errors.AsType[*chunk.TruncatedError](err); !ok || truncated.Reason != chunk.TruncatedExpired || len(seqs) > 0 {
			t.Errorf("from a removed record, %+v: %v, %v", of, seqs, err)
		}
	}
	if seqs, err := read(chunk.Range{After: chunk.Position{Seq: seq - 1, Ordinal: 1}}); err != nil || len(seqs) != 1 {
		t.Errorf("from a kept record: %v, %v", seqs, err)
	}
	later := w.write("later")
	w.must(stream.Purge(t.Context(), jetstream.WithPurgeSequence(uint64(later)))) // the oldest records expire
	if seqs, err := read(chunk.Range{FromOldest: true}); err != nil || len(seqs) != 1 || seqs[0] != later {
		t.Errorf("from the oldest record: %v, %v, want %d", seqs, err, later)
	}
}

// While home cannot be reached, reads return what the mirror has, and nothing that it does not have is said to be missing.
func TestHomeIsLost(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.follow()
	seq := w.write("before")
	rec, err := w.Last(t.Context(), session)
	w.must(err)
	w.Cut(t)
	later := w.write("after the cut")
	natstest.Eventually(t, "a lost home", func(context.Context) error {
		if !w.IsHomeLost() {
			return errors.New("home is not lost")
		}
		return nil
	})
	w.must(w.Usable())
	if last, err := w.Last(t.Context(), session); err != nil || last.Seq != seq {
		t.Errorf("the last record is %d, %v, want %d", last.Seq, err, seq)
	}
	if _, err := w.Last(t.Context(), chunk.RootSession("acme", "unknown")); !errors.Is(err, hub.ErrBehind) {
		t.Errorf("an unknown session: %v", err)
	}
	beyond := chunk.Cursor{Seq: later, Anchor: rec.Anchor() + 1}
	if _, err := w.CheckCursor(t.Context(), session, chunk.ScopeSession, beyond); !errors.Is(err, hub.ErrBehind) {
		t.Errorf("a cursor of home: %v", err)
	}
	if has, err := w.HasRecord(t.Context(), session, chunk.Position{Seq: later, Ordinal: rec.Ordinal + 1}, beyond.Anchor); has || err != nil {
		t.Errorf("a record at home: %t, %v", has, err)
	}
	for _, err := range w.Replay(t.Context(), chunk.Range{Session: session, After: chunk.Position{Seq: later, Ordinal: rec.Ordinal + 1}}) {
		if !errors.Is(err, jsmirror.ErrBehind) {
			t.Errorf("a replay after a record at home: %v", err)
		}
	}
}

// While the connection is lost, the log is deleted at home and created again. Afterwards the server appends its records to the
// mirror. A feed ends before the first of them.
func TestHistoriesAreNotJoined(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	stop := w.follow()
	seq := w.write("before")
	tip, err := w.Tip(t.Context(), 0)
	w.must(err)
	ended := make(chan error, 1)
	go func() {
		for msg, err := range w.Feed(t.Context(), 0, 0) {
			if err != nil {
				ended <- err
				return
			}
			if msg.Seq > seq {
				ended <- fmt.Errorf("delivered %d", msg.Seq)
				return
			}
		}
	}()
	stop()
	w.Cut(t)
	w.must(w.home.DeleteStream(t.Context(), "TR_CHUNKS_0"))
	streamtest.Ensure(t, w.home, topology.Config{})
	w.start()
	for w.write("another history") <= seq {
	}
	w.Link.Restore()
	w.AwaitLink(t)
	natstest.Eventually(t, "the joined mirror", func(ctx context.Context) error {
		stream, err := w.local.Stream(ctx, "TR_CHUNKS_0")
		if err == nil && stream.CachedInfo().State.LastSeq <= uint64(seq) {
			err = errors.New("not joined yet")
		}
		return err
	})
	err = <-ended
	if truncated, ok := errors.AsType[*chunk.TruncatedError](err); !ok || truncated.Reason != chunk.TruncatedRecreated {
		t.Errorf("the feed ended with %v, want recreated", err)
	}
	if err := w.Usable(); !errors.Is(err, jsmirror.ErrOtherHistory) {
		t.Errorf("the mirrors: %v", err)
	}
	if _, err := w.Last(t.Context(), session); !errors.Is(err, jsmirror.ErrOtherHistory) {
		t.Errorf("a read: %v", err)
	}

	far, err := jetstream.NewWithDomain(w.local.Conn(), natstest.HomeDomain)
	w.must(err)
	w.must(topology.EnsureMirrors(t.Context(), far, w.local, topology.MirrorConfig{HomeDomain: natstest.HomeDomain}, func(m topology.Mirror) {
		if want := m.Stream == "TR_CHUNKS_0"; want != (m.Result == topology.MirrorRecreated) {
			t.Errorf("mirror %+v", m)
		}
	}))
	w.follow()
	now, err := w.Tip(t.Context(), 0)
	if err != nil || now.StreamEpoch == tip.StreamEpoch {
		t.Errorf("the tip is %+v, %v, before %+v", now, err, tip)
	}
}
