package fold

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// read folds the records of a log after the position of s like a reader that reads ahead to explain gaps.
func read(t failer, s Snapshot, log []chunk.Record) Snapshot {
	t.Helper()
	for _, rec := range log {
		if rec.Ordinal <= s.Position.Ordinal {
			continue
		}
		s = take(t, skipGap(s, rec, GapRemoved), rec, log)
	}
	return s
}

// take applies one record like the projector; log is the content of the log at that time.
func take(t failer, s Snapshot, rec chunk.Record, log []chunk.Record) Snapshot {
	t.Helper()
	next, err := applyRecord(s, rec)
	var refold *RefoldError
	switch {
	case err == nil:
		return next
	case errors.Is(err, ErrInvalidRecord):
		next, err := skipRecord(s, rec, err.Error())
		if err != nil {
			t.Fatalf("skip %d: %v", rec.Ordinal, err)
		}
		return next
	case errors.As(err, &refold):
		return read(t, refold.Base, log)
	case errors.Is(err, ErrGap):
		return read(t, s, log)
	}
	t.Fatalf("apply %d: %v", rec.Ordinal, err)
	return s
}

// whole folds the first n records as they were written, without reading ahead. deleted reports whether the removed records have
// been deleted when their truncated record is applied.
func whole(t failer, a *generator, n int, deleted bool) Snapshot {
	t.Helper()
	s := newSnapshot(session)
	for i, rec := range a.all[:n] {
		log := a.all[:i+1]
		if deleted {
			log = a.survivors(i + 1)
		}
		s = take(t, s, rec, log)
	}
	return s
}

// stored returns all stored data of a snapshot as one text.
func stored(s Snapshot) string {
	out := string(s.AppendHead(nil))
	for _, f := range s.FinishedMessages() {
		out += "\n" + string(f.Data)
	}
	return out
}

// reload saves and loads s.
func reload(t failer, s Snapshot) Snapshot {
	t.Helper()
	back, err := ParseHead(s.AppendHead(nil))
	if err != nil {
		t.Fatalf("load: %v\n%s", err, s.AppendHead(nil))
	}
	var data [][]byte
	for _, f := range s.FinishedMessages()[:back.TrimmedCount()] { // the head has the others
		data = append(data, f.Data)
	}
	if back, err = back.attachFinished(data); err != nil {
		t.Fatalf("attach: %v", err)
	}
	return back
}

func equal(t failer, what string, got, want Snapshot) {
	t.Helper()
	if g, w := stored(got), stored(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// laws checks a law for random logs.
func laws(t *testing.T, n int, law func(t *rapid.T, a *generator)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.log(n)
		law(t, a)
	})
}
