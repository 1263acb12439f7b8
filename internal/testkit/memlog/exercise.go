package memlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
)

// TestLog is a log of one partition with the operations that change it.
type TestLog interface {
	hub.Log
	hub.PartitionLog
	hub.Feed // of trees

	// Append stores the next record of s, see Log.Append.
	Append(s chunk.Session, typ chunk.Type, members string) chunk.Record

	// Cleanup marks and removes the chunks of s of a step above step and a sequence above minSeq.
	Cleanup(s chunk.Session, step int64, minSeq chunk.Seq)

	// Delete removes single messages without a truncated record.
	Delete(seqs ...chunk.Seq)

	// Expire removes all records through a sequence.
	Expire(through chunk.Seq)

	// Purge removes all records of one session.
	Purge(s chunk.Session)

	// Restart makes the next record of s that of a writer that does not know the earlier ones: its epochs and ordinals start again at 1.
	Restart(s chunk.Session)

	// Recreate deletes the stream and creates an empty one with the same name.
	Recreate()
}

// RunContract checks that the log that open returns, which is empty, satisfies the contract of hub.Log, hub.PartitionLog and hub.Feed. Where the contract allows several results,
// each of them passes.
func RunContract(t *testing.T, open func(t *testing.T) TestLog) {
	t.Helper()
	for _, tt := range []struct {
		name string
		run  func(*testing.T, TestLog)
	}{
		{"replay", testReplay},
		{"replay of an unknown session", testReplayUnknown},
		{"replay of a tree", testReplayTree},
		{"replay over a cleanup", testReplayCleanup},
		{"replay over a gap", testReplayGap},
		{"replay from a position that does not fit", testReplayMisfit},
		{"replay of what has expired", testReplayExpired},
		{"replay after a purge", testReplayPurged},
		{"replay of ordinals that start again", testReplayRestarted},
		{"replay broken off", testReplayBroken},
		{"replay with a context that has ended", testReplayCancelled},
		{"verify", testVerify},
		{"verify what is gone", testVerifyGone},
		{"verify an anchor", testVerifyAnchor},
		{"last", testLast},
		{"tip", testTip},
		{"feed", ofPartition(testFeed)},
		{"feed broken off", ofPartition(testFeedBroken)},
		{"feed from a place that is not there", ofPartition(testFeedMisfit)},
		{"feed across a recreated stream", ofPartition(testFeedRecreated)},
		{"feed of a root", ofRoot(testFeed)},
		{"feed of a root broken off", ofRoot(testFeedBroken)},
		{"feed of a root from a place that is not there", ofRoot(testFeedMisfit)},
		{"feed of a root across a recreated stream", ofRoot(testFeedRecreated)},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t)) })
	}
}

// newTree returns a session with a sub-agent, and another session.
func newTree() (root, child, other chunk.Session) {
	root = chunk.RootSession("acme", "root")
	return root, root.Child("child"), chunk.RootSession("acme", "other")
}

// AppendRunStarted stores the record that starts a run.
func AppendRunStarted(w TestLog, s chunk.Session) chunk.Record {
	return w.Append(s, chunk.TypeRunStarted, `"runId":"r1","epoch":1,"mode":"start"`)
}

func appendDeltas(w TestLog, s chunk.Session, n int) []chunk.Record {
	recs := make([]chunk.Record, n)
	for i := range recs {
		recs[i] = w.Append(s, chunk.TypeTextDelta, fmt.Sprintf(`"delta":"word %d"`, i))
	}
	return recs
}

// appendText stores n records of s, with one of another session after each.
func appendText(w TestLog, s chunk.Session, n int) []chunk.Record {
	_, _, other := newTree()
	recs := []chunk.Record{AppendRunStarted(w, s)}
	for len(recs) < n {
		appendDeltas(w, other, 1)
		recs = append(recs, appendDeltas(w, s, 1)...)
	}
	return recs
}

func testReplay(t *testing.T, w TestLog) {
	t.Helper()
	root, _, other := newTree()
	AppendRunStarted(w, other) // so that there is a sequence before the first record
	recs := appendText(w, root, 6)
	for _, tt := range []struct {
		name    string
		after   chunk.Position
		through chunk.Seq
		want    []chunk.Record
	}{
		{"whole", chunk.Position{}, 0, recs},
		{"after a record", recs[2].Position(), 0, recs[3:]},
		{"after a bare cursor", chunk.Position{Seq: recs[2].Seq}, 0, recs[3:]},
		{"after the position before a record", recs[2].Position().Before(), 0, recs[2:]}, // the record there is of another session
		{"through a record", chunk.Position{}, recs[3].Seq, recs[:4]},
		{"through a place between records", recs[0].Position(), recs[3].Seq + 1, recs[1:4]},
		{"through the end", recs[1].Position(), recs[5].Seq, recs[2:]},
		{"of nothing new", recs[5].Position(), 0, nil},
		{"of nothing new after a bare cursor", chunk.Position{Seq: recs[5].Seq}, 0, nil},
		{"before the first record", chunk.Position{}, recs[0].Seq - 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, After: tt.after, Through: tt.through}))
			equal(t, got, tt.want)
			reason(t, err)
		})
	}
}

func testReplayUnknown(t *testing.T, w TestLog) {
	t.Helper()
	root, _, other := newTree()
	AppendRunStarted(w, other)
	for name, read := range map[string]iter.Seq2[chunk.Record, error]{
		"session": w.Replay(limited(t), chunk.Range{Session: root}),
		"tree":    w.Replay(limited(t), chunk.Range{Session: root, Tree: true}),
	} {
		// No record is available; whether this is an error is not specified.
		got, err := Collect(read)
		if len(got) > 0 || err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("%s: %v, then %v", name, got, err)
		}
	}
}

func testReplayTree(t *testing.T, w TestLog) {
	t.Helper()
	root, child, other := newTree()
	var tree []chunk.Record
	tree = append(tree, AppendRunStarted(w, root))
	AppendRunStarted(w, other)
	tree = append(tree, AppendRunStarted(w, child))
	for range 3 {
		tree = append(tree, appendDeltas(w, root, 1)...)
		appendDeltas(w, other, 1)
		tree = append(tree, appendDeltas(w, child, 2)...)
	}
	last := len(tree) - 1
	for after := range tree {
		got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true, After: chunk.Position{Seq: tree[after].Seq}}))
		equal(t, got, tree[after+1:])
		reason(t, err)
	}
	got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true, Through: tree[last-1].Seq}))
	equal(t, got, tree[:last])
	reason(t, err)
	got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true}))
	equal(t, got, tree)
	reason(t, err)

	_, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true, After: chunk.Position{Seq: tree[last].Seq + 1}}))
	reason(t, err, chunk.TruncatedFuture)
	otherRec := appendDeltas(w, other, 1)[0]
	_, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true, After: chunk.Position{Seq: otherRec.Seq}}))
	reason(t, err, chunk.TruncatedWrongSession)
}

func testReplayCleanup(t *testing.T, w TestLog) {
	t.Helper()
	root, child, _ := newTree()
	recs := appendText(w, root, 6)
	kid := AppendRunStarted(w, child)
	w.Cleanup(root, 0, recs[2].Seq)
	later := appendDeltas(w, root, 2)
	got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root}))
	reason(t, err)
	want := append(slices.Clone(recs[:3]), later...)
	if len(got) != len(want)+1 || got[3].Type != chunk.TypeTruncated || got[3].Ordinal != 7 {
		t.Fatalf("read %v, want %v with a mark in the middle", got, want)
	}
	mark := got[3]
	equal(t, slices.Delete(slices.Clone(got), 3, 4), want)

	got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true}))
	equal(t, got, slices.Concat(recs[:3], []chunk.Record{kid, mark}, later))
	reason(t, err)

	// The position of a snapshot may belong to a record that was rolled back and deleted; the following records prove it.
	got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, After: recs[4].Position()}))
	equal(t, got, append([]chunk.Record{mark}, later...))
	reason(t, err)

	// A bare cursor of such a record is valid only for a reader that had the record.
	for _, of := range []chunk.Range{{Session: root}, {Session: root, Tree: true}} {
		of.After.Seq = recs[4].Seq
		_, err = Collect(w.Replay(limited(t), of))
		reason(t, err, chunk.TruncatedCleanup)
		of.AllowCleanup = true
		got, err = Collect(w.Replay(limited(t), of))
		want := append([]chunk.Record{mark}, later...)
		if of.Tree {
			want = append([]chunk.Record{kid}, want...)
		}
		equal(t, got, want)
		reason(t, err)
	}
	w.Delete(later[0].Seq)
	_, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true, After: chunk.Position{Seq: later[0].Seq}, AllowCleanup: true}))
	reason(t, err, chunk.TruncatedExpired, chunk.TruncatedGap)
}

func testReplayGap(t *testing.T, w TestLog) {
	t.Helper()
	root, child, _ := newTree()
	recs := appendText(w, root, 8)
	AppendRunStarted(w, child)
	w.Delete(recs[3].Seq, recs[4].Seq)
	for _, read := range []iter.Seq2[chunk.Record, error]{
		w.Replay(limited(t), chunk.Range{Session: root}),
		w.Replay(limited(t), chunk.Range{Session: root, Through: recs[6].Seq}),
		w.Replay(limited(t), chunk.Range{Session: root, Tree: true}),
	} {
		got, err := Collect(read)
		equal(t, got, recs[:3])
		reason(t, err, chunk.TruncatedGap)
	}
	got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, After: recs[1].Position()}))
	equal(t, got, recs[2:3])
	reason(t, err, chunk.TruncatedGap)
	got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, After: recs[4].Position()}))
	equal(t, got, recs[5:])
	reason(t, err)

	// A truncated record that lists other ordinals explains nothing.
	w.Cleanup(root, 0, recs[6].Seq)
	_, err = Collect(w.Replay(limited(t), chunk.Range{Session: root}))
	reason(t, err, chunk.TruncatedGap)
}

func testReplayMisfit(t *testing.T, w TestLog) {
	t.Helper()
	root, _, _ := newTree()
	recs := appendText(w, root, 5)
	tip := recs[4].Seq
	for name, after := range map[string]chunk.Position{
		"beyond the end":               {Seq: tip + 1, Ordinal: 5},
		"a bare cursor beyond the end": {Seq: tip + 1},
		"a bare cursor of another":     {Seq: recs[1].Seq - 1},
		"saw less":                     {Seq: recs[2].Seq, Ordinal: 2},
		"saw more":                     {Seq: recs[2].Seq, Ordinal: 4},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, After: after}))
			equal(t, got, nil)
			reason(t, err, chunk.TruncatedFuture, chunk.TruncatedWrongSession, chunk.TruncatedGap, chunk.TruncatedRecreated)
		})
	}
	got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true, After: recs[2].Position()}))
	if len(got) > 0 || err == nil {
		t.Errorf("a tree after an ordinal: %v, then %v; want an error", got, err)
	}
}

func testReplayExpired(t *testing.T, w TestLog) {
	t.Helper()
	root, child, _ := newTree()
	recs := appendText(w, root, 4)
	kid := AppendRunStarted(w, child)
	recs = append(recs, appendDeltas(w, root, 4)...)
	w.Expire(recs[3].Seq)
	for name, read := range map[string]iter.Seq2[chunk.Record, error]{
		"from zero":                  w.Replay(limited(t), chunk.Range{Session: root}),
		"from zero, a bound in it":   w.Replay(limited(t), chunk.Range{Session: root, Through: recs[2].Seq}),
		"a bare cursor":              w.Replay(limited(t), chunk.Range{Session: root, After: chunk.Position{Seq: recs[1].Seq}}),
		"a position":                 w.Replay(limited(t), chunk.Range{Session: root, After: recs[1].Position()}),
		"a cursor of the tree":       w.Replay(limited(t), chunk.Range{Session: root, Tree: true, After: chunk.Position{Seq: recs[1].Seq}}),
		"the tree, sub-agent before": w.Replay(limited(t), chunk.Range{Session: root, Tree: true, Through: kid.Seq - 1}),
	} {
		got, err := Collect(read)
		if len(got) > 0 {
			t.Errorf("%s: %v before the error", name, got)
		}
		reason(t, err, chunk.TruncatedExpired, chunk.TruncatedGap)
	}
	_, err := Collect(w.Replay(limited(t), chunk.Range{Session: root}))
	reason(t, err, chunk.TruncatedExpired)
	got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, After: recs[3].Position()}))
	equal(t, got, recs[4:])
	reason(t, err)
	for _, after := range []chunk.Position{{}, recs[1].Position()} {
		got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, After: after, FromOldest: true}))
		equal(t, got, recs[4:])
		reason(t, err)
	}
	// The beginning of the child is available, that of the tree is not.
	_, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, Tree: true}))
	reason(t, err, chunk.TruncatedExpired)
}

func testReplayPurged(t *testing.T, w TestLog) {
	t.Helper()
	root, _, other := newTree()
	recs := appendText(w, root, 4)
	w.Purge(root)
	if _, err := w.Last(limited(t), root); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("the last record after a purge: %v", err)
	}
	if _, err := w.Last(limited(t), other); err != nil {
		t.Errorf("the purge removed another session: %v", err)
	}
	later := appendDeltas(w, root, 2)
	got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, After: recs[3].Position()}))
	equal(t, got, later)
	reason(t, err)
	for _, after := range []chunk.Position{{}, recs[1].Position()} {
		got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, After: after}))
		equal(t, got, nil)
		reason(t, err, chunk.TruncatedExpired, chunk.TruncatedGap)
	}
}

func testReplayRestarted(t *testing.T, w TestLog) {
	t.Helper()
	root, _, _ := newTree()
	recs := appendText(w, root, 6)
	w.Purge(root)
	w.Restart(root)
	later := append([]chunk.Record{AppendRunStarted(w, root)}, appendDeltas(w, root, 9)...)
	for _, begun := range []int{0, 3} { // the first ones expire too
		if begun > 0 {
			w.Delete(later[0].Seq, later[1].Seq, later[2].Seq)
		}
		for _, after := range []chunk.Position{recs[1].Position(), recs[5].Position()} {
			got, err := Collect(w.Replay(limited(t), chunk.Range{Session: root, After: after}))
			equal(t, got, nil)
			reason(t, err, chunk.TruncatedExpired)
			got, err = Collect(w.Replay(limited(t), chunk.Range{Session: root, After: after, FromOldest: true}))
			equal(t, got, later[begun:])
			reason(t, err)
		}
	}
}

func testReplayBroken(t *testing.T, w TestLog) {
	t.Helper()
	root, _, _ := newTree()
	recs := appendText(w, root, 5)
	for n := 1; n < len(recs); n++ {
		var got []chunk.Record
		for rec, err := range w.Replay(limited(t), chunk.Range{Session: root}) {
			reason(t, err)
			if got = append(got, rec); len(got) == n {
				break
			}
		}
		equal(t, got, recs[:n])
		for rec, err := range w.Replay(limited(t), chunk.Range{Session: root, Tree: true}) {
			reason(t, err)
			equal(t, []chunk.Record{rec}, recs[:1])
			break
		}
	}
}

func testReplayCancelled(t *testing.T, w TestLog) {
	t.Helper()
	root, _, _ := newTree()
	appendText(w, root, 3)
	ctx, cancel := context.WithCancel(limited(t))
	cancel()
	for _, read := range []iter.Seq2[chunk.Record, error]{
		w.Replay(ctx, chunk.Range{Session: root}),
		w.Replay(ctx, chunk.Range{Session: root, Tree: true}),
	} {
		if _, err := Collect(read); !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want that of the context", err)
		}
	}
}

func testLast(t *testing.T, w TestLog) {
	t.Helper()
	root, child, _ := newTree()
	if _, err := w.Last(limited(t), root); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("of an empty log: %v", err)
	}
	recs := appendText(w, root, 3)
	if _, err := w.Last(limited(t), child); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("of a session that is not there: %v", err)
	}
	last, err := w.Last(limited(t), root)
	reason(t, err)
	equal(t, []chunk.Record{last}, recs[2:])
	kid := AppendRunStarted(w, child)
	last, err = w.Last(limited(t), child)
	reason(t, err)
	equal(t, []chunk.Record{last}, []chunk.Record{kid})
	w.Delete(recs[2].Seq)
	last, err = w.Last(limited(t), root)
	reason(t, err)
	equal(t, []chunk.Record{last}, recs[1:2])
}

// limited returns a context with a timeout that no correct log needs.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Collect reads an iterator to its end.
func Collect(seq iter.Seq2[chunk.Record, error]) (recs []chunk.Record, err error) {
	for rec, err := range seq {
		if err != nil {
			return recs, err
		}
		recs = append(recs, rec)
	}
	return recs, nil
}

// Same describes the difference between two reads; the storage times may differ.
func Same(got, want []chunk.Record) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d records, want %d:\n%v\n%v", len(got), len(want), got, want)
	}
	for i, g := range got {
		w := want[i]
		if g.Seq != w.Seq || g.Session != w.Session || g.Epoch != w.Epoch || g.Ordinal != w.Ordinal || g.Type != w.Type || !bytes.Equal(g.Data, w.Data) {
			return fmt.Errorf("record %d is\n%+v, want\n%+v", i, g, w)
		}
	}
	return nil
}

func equal(t *testing.T, got, want []chunk.Record) {
	t.Helper()
	if err := Same(got, want); err != nil {
		t.Error(err)
	}
}

// reason asserts that err is nil, or a *chunk.TruncatedError with one of the reasons.
func reason(t *testing.T, err error, reasons ...chunk.TruncationReason) {
	t.Helper()
	var truncated *chunk.TruncatedError
	switch {
	case len(reasons) == 0 && err == nil:
	case len(reasons) > 0 && errors.As(err, &truncated) && slices.Contains(reasons, truncated.Reason):
	default:
		t.Errorf("err = %v, want one of %v", err, reasons)
	}
}
