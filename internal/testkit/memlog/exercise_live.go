package memlog

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

func testVerify(t *testing.T, w TestLog) {
	t.Helper()
	root, child, other := newTree()
	recs := appendText(w, root, 3)
	kid := AppendRunStarted(w, child)
	otherRec := appendDeltas(w, other, 1)[0]
	const tree, session = chunk.ScopeTree, chunk.ScopeSession
	for _, tt := range []struct {
		name  string
		s     chunk.Session
		scope chunk.Scope
		after chunk.Seq
		want  chunk.Position
		fails chunk.TruncationReason
	}{
		{"zero", root, session, 0, chunk.Position{}, ""},
		{"zero of a missing session", other.Child("missing"), tree, 0, chunk.Position{}, ""},
		{"own record", root, session, recs[1].Seq, recs[1].Position(), ""},
		{"own record in the tree", root, tree, recs[2].Seq, recs[2].Position(), ""},
		{"a child in the tree", root, tree, kid.Seq, kid.Position(), ""},
		{"the root in the tree of a child", child, tree, recs[2].Seq, recs[2].Position(), ""},
		{"a child is not the session", root, session, kid.Seq, chunk.Position{}, chunk.TruncatedWrongSession},
		{"another session", root, tree, otherRec.Seq, chunk.Position{}, chunk.TruncatedWrongSession},
		{"the next", root, session, otherRec.Seq + 1, chunk.Position{}, chunk.TruncatedFuture},
		{"far off", root, tree, otherRec.Seq + 1000, chunk.Position{}, chunk.TruncatedFuture},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := w.CheckCursor(limited(t), tt.s, tt.scope, chunk.Cursor{Seq: tt.after})
			if got != tt.want {
				t.Errorf("position %+v, want %+v", got, tt.want)
			}
			if tt.fails == "" {
				reason(t, err)
				return
			}
			reason(t, err, tt.fails)
			var truncated *chunk.TruncatedError
			if errors.As(err, &truncated) && truncated.After != tt.after {
				t.Errorf("error after %d, want %d", truncated.After, tt.after)
			}
		})
	}
}

// A record is identified by its sequence and its anchor.
func testVerifyAnchor(t *testing.T, w TestLog) {
	t.Helper()
	root, _, other := newTree()
	appendText(w, root, 3)
	otherRec := appendDeltas(w, other, 1)[0]
	rec, err := w.Last(limited(t), root)
	reason(t, err)
	if rec.Anchor() == 0 {
		t.Fatal("the record has no time of storage")
	}
	for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
		pos, err := w.CheckCursor(limited(t), root, scope, rec.Cursor())
		reason(t, err)
		if pos != rec.Position() {
			t.Errorf("position %+v, want %+v", pos, rec.Position())
		}
		for seq := rec.Seq - 1; seq <= otherRec.Seq+1; seq++ {
			// No record was stored an hour before the test, so the anchor is of a record that is gone.
			_, err = w.CheckCursor(limited(t), root, scope, chunk.Cursor{Seq: seq, Anchor: rec.Anchor() - 3_600_000})
			reason(t, err, chunk.TruncatedRecreated)
		}
	}
	w.Expire(rec.Seq)
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeTree, rec.Cursor())
	reason(t, err, chunk.TruncatedExpired)
}

func testVerifyGone(t *testing.T, w TestLog) {
	t.Helper()
	root, child, _ := newTree()
	recs := appendText(w, root, 6)
	AppendRunStarted(w, child)
	kid := appendDeltas(w, child, 2)
	w.Cleanup(root, 0, recs[3].Seq)
	for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
		_, err := w.CheckCursor(limited(t), root, scope, chunk.Cursor{Seq: recs[4].Seq})
		reason(t, err, chunk.TruncatedCleanup)
		_, err = w.CheckCursor(limited(t), root, scope, chunk.Cursor{Seq: recs[5].Seq})
		reason(t, err, chunk.TruncatedCleanup)
	}
	_, err := w.CheckCursor(limited(t), child, chunk.ScopeTree, chunk.Cursor{Seq: recs[5].Seq})
	reason(t, err, chunk.TruncatedCleanup)

	// After the range that the cleanup removed, and before it.
	w.Delete(kid[0].Seq, recs[2].Seq)
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeTree, chunk.Cursor{Seq: kid[0].Seq})
	reason(t, err, chunk.TruncatedExpired, chunk.TruncatedGap)
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeSession, chunk.Cursor{Seq: recs[2].Seq})
	reason(t, err, chunk.TruncatedExpired, chunk.TruncatedGap)

	w.Expire(recs[1].Seq)
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeSession, chunk.Cursor{Seq: recs[1].Seq})
	reason(t, err, chunk.TruncatedExpired)
	pos, err := w.CheckCursor(limited(t), root, chunk.ScopeSession, chunk.Cursor{Seq: recs[3].Seq})
	reason(t, err)
	if pos != recs[3].Position() {
		t.Errorf("position %+v, want %+v", pos, recs[3].Position())
	}

	end, err := w.Tip(limited(t), 0)
	reason(t, err)
	tip := end.Seq
	w.Expire(tip)
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeSession, chunk.Cursor{Seq: recs[3].Seq})
	reason(t, err, chunk.TruncatedExpired)
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeSession, chunk.Cursor{Seq: tip + 1})
	reason(t, err, chunk.TruncatedFuture)
	w.Recreate()
	_, err = w.CheckCursor(limited(t), root, chunk.ScopeSession, chunk.Cursor{Seq: recs[3].Seq})
	reason(t, err, chunk.TruncatedFuture)
}

func testTip(t *testing.T, w TestLog) {
	t.Helper()
	root, _, other := newTree()
	want := chunk.Seq(0)
	check := func(what string) string {
		t.Helper()
		got, err := w.Tip(limited(t), 0)
		if err != nil || got.Seq != want || got.StreamEpoch == "" {
			t.Errorf("%s: tip %+v, %v; want %d, and an epoch", what, got, err, want)
		}
		return got.StreamEpoch
	}
	epoch := check("empty")
	recs := appendText(w, root, 3)
	want = appendDeltas(w, other, 1)[0].Seq
	check("written")
	w.Delete(want, recs[1].Seq)
	check("the last one deleted")
	w.Expire(want)
	if check("all expired") != epoch {
		t.Error("the same stream has another epoch")
	}
	w.Recreate()
	want = 0
	if check("recreated") == epoch {
		t.Error("another stream has the same epoch")
	}
	if _, err := w.Tip(limited(t), 1); err == nil {
		t.Error("partition 1 of 1 has a tip")
	}
}

// feedOf is a feed of a partition or of a root: they have the same contract for the sessions that are in it.
type feedOf struct {
	open func(ctx context.Context, after chunk.Seq) iter.Seq2[codec.Stored, error]
	in   func(chunk.Session) bool
}

// records returns those that are in the feed.
func (of feedOf) records(recs ...chunk.Record) []chunk.Record {
	return slices.DeleteFunc(slices.Clone(recs), func(rec chunk.Record) bool { return !of.in(rec.Session) })
}

func ofPartition(test func(*testing.T, TestLog, feedOf)) func(*testing.T, TestLog) {
	return func(t *testing.T, w TestLog) {
		t.Helper()
		test(t, w, feedOf{
			open: func(ctx context.Context, after chunk.Seq) iter.Seq2[codec.Stored, error] {
				return w.Feed(ctx, 0, after)
			},
			in: func(chunk.Session) bool { return true },
		})
		for _, err := range w.Feed(limited(t), 1, 0) {
			if err == nil {
				t.Error("partition 1 of 1 has a message")
			}
			break
		}
	}
}

func ofRoot(test func(*testing.T, TestLog, feedOf)) func(*testing.T, TestLog) {
	return func(t *testing.T, w TestLog) {
		t.Helper()
		root, _, _ := newTree()
		test(t, w, feedOf{
			open: func(ctx context.Context, after chunk.Seq) iter.Seq2[codec.Stored, error] {
				return w.Open(ctx, w.Scope(root), after)
			},
			in: func(s chunk.Session) bool { return s.Tree() == root },
		})
	}
}

func testFeed(t *testing.T, w TestLog, of feedOf) {
	t.Helper()
	root, child, other := newTree()
	recs := []chunk.Record{AppendRunStarted(w, root), AppendRunStarted(w, other), AppendRunStarted(w, child)}
	recs = append(recs, appendDeltas(w, root, 3)...)
	whole, middle, tip := follow(t, of, 0), follow(t, of, recs[2].Seq), follow(t, of, recs[5].Seq)
	whole.expect(of.records(recs...)...)
	middle.expect(recs[3:]...)
	// All feeds are at the end; records that are stored now arrive live.
	for range 3 {
		live := append(appendDeltas(w, other, 1), appendDeltas(w, child, 1)...)
		for _, f := range []*feed{whole, middle, tip} {
			f.expect(of.records(live...)...)
		}
	}
	// Deleted before a feed reads them: the feed does not report them.
	w.Cleanup(root, 0, 0)
	late := follow(t, of, recs[2].Seq)
	if first := late.next(); first.Seq <= recs[5].Seq {
		t.Errorf("a feed gives %d, which was rolled back", first.Seq)
	}
	for _, f := range []*feed{whole, middle, tip, late} {
		if err := f.leave(); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want that of the context", err)
		}
	}
}

func testFeedBroken(t *testing.T, w TestLog, of feedOf) {
	t.Helper()
	root, _, _ := newTree()
	recs := appendText(w, root, 3)
	for _, rec := range recs {
		for m, err := range of.open(limited(t), rec.Seq-1) {
			reason(t, err)
			if m.Seq != rec.Seq {
				t.Errorf("a feed after %d begins with %d", rec.Seq-1, m.Seq)
			}
			break
		}
	}
	last := recs[2].Seq
	for m, err := range of.open(limited(t), 0) {
		reason(t, err)
		if m.Seq == last {
			break
		}
	}
}

func testFeedMisfit(t *testing.T, w TestLog, of feedOf) {
	t.Helper()
	root, _, _ := newTree()
	recs := appendText(w, root, 6)
	reason(t, follow(t, of, recs[5].Seq+1).end(), chunk.TruncatedFuture)
	w.Expire(recs[2].Seq)
	reason(t, follow(t, of, recs[1].Seq).end(), chunk.TruncatedExpired)
	if first := follow(t, of, recs[3].Seq-1).next(); first.Seq != recs[3].Seq {
		t.Errorf("a feed begins with %d, want %d", first.Seq, recs[3].Seq)
	}
	w.Recreate()
	reason(t, follow(t, of, recs[5].Seq).end(), chunk.TruncatedFuture)
}

func testFeedRecreated(t *testing.T, w TestLog, of feedOf) {
	t.Helper()
	root, _, _ := newTree()
	recs := appendText(w, root, 3)
	busy, idle := follow(t, of, 0), follow(t, of, recs[2].Seq)
	for _, rec := range recs {
		for busy.next().Seq != rec.Seq {
			continue // of another session
		}
	}
	live := appendDeltas(w, root, 1)
	busy.expect(live...)
	idle.expect(live...)
	w.Recreate()
	again := appendText(w, root, 1)
	reason(t, busy.end(), chunk.TruncatedRecreated)
	reason(t, idle.end(), chunk.TruncatedRecreated)
	follow(t, of, 0).expect(again...)
}

// feed is an open Feed and the goroutine that reads it.
type feed struct {
	t      *testing.T
	recs   chan chunk.Record
	err    error // readable once recs is closed
	cancel context.CancelFunc
}

// follow opens a feed; it ends with the test at the latest.
func follow(t *testing.T, of feedOf, after chunk.Seq) *feed {
	t.Helper()
	ctx, cancel := context.WithCancel(limited(t))
	f := &feed{t: t, recs: make(chan chunk.Record), cancel: cancel}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(f.recs)
		f.err = f.read(ctx, of.open(ctx, after))
	})
	t.Cleanup(func() {
		cancel()
		reading.Wait()
	})
	return f
}

func (f *feed) read(ctx context.Context, messages iter.Seq2[codec.Stored, error]) error {
	for m, err := range messages {
		if err != nil {
			return err
		}
		rec, err := codec.Decode(m)
		if err != nil {
			return err
		}
		if m.Session != rec.Session || m.Seq != rec.Seq {
			return errors.New("a message is not of the session or the sequence of its record")
		}
		select {
		case f.recs <- rec:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the feed ended without an error")
}

func (f *feed) next() chunk.Record {
	f.t.Helper()
	rec, ok := <-f.recs
	if !ok {
		f.t.Fatalf("the feed ended: %v", f.err)
	}
	return rec
}

func (f *feed) expect(recs ...chunk.Record) {
	f.t.Helper()
	for _, want := range recs {
		equal(f.t, []chunk.Record{f.next()}, []chunk.Record{want})
	}
}

// end waits for the error.
func (f *feed) end() error {
	f.t.Helper()
	for rec := range f.recs {
		f.t.Errorf("record %d instead of an end", rec.Seq)
	}
	return f.err
}

// leave closes the feed, whatever is in flight.
func (f *feed) leave() error {
	f.cancel()
	for range f.recs {
		continue // not needed any more
	}
	return f.err
}
