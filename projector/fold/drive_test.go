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

// read folds what a log holds after the position of s, as a reader does that
// looks ahead to explain holes.
func read(t failer, s Snapshot, log []chunk.Record) Snapshot {
	t.Helper()
	for _, rec := range log {
		if rec.Ordinal <= s.Position.Ordinal {
			continue
		}
		s = take(t, Across(s, rec, TakenBack), rec, log)
	}
	return s
}

// take applies one record the way the projector does; log is what the log holds
// at that moment.
func take(t failer, s Snapshot, rec chunk.Record, log []chunk.Record) Snapshot {
	t.Helper()
	next, err := Apply(s, rec)
	var refold *RefoldError
	switch {
	case err == nil:
		return next
	case errors.Is(err, ErrPoison):
		next, err := Skip(s, rec, err.Error())
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

// whole folds everything up to n as it was written, marks coming as a surprise.
// deleted says whether what a mark lists is gone from the log when it is seen.
func whole(t failer, a *author, n int, deleted bool) Snapshot {
	t.Helper()
	s := New(session)
	for i, rec := range a.all[:n] {
		log := a.all[:i+1]
		if deleted {
			log = a.survivors(i + 1)
		}
		s = take(t, s, rec, log)
	}
	return s
}

// stored is everything that is saved of a snapshot, as one text.
func stored(s Snapshot) string {
	out := string(s.AppendHead(nil))
	for _, f := range s.Finished() {
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
	for _, f := range s.Finished() {
		data = append(data, f.Data)
	}
	if back, err = back.Hold(data); err != nil {
		t.Fatalf("hold: %v", err)
	}
	return back
}

func equal(t failer, what string, got, want Snapshot) {
	t.Helper()
	if g, w := stored(got), stored(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// laws runs a law on random logs.
func laws(t *testing.T, n int, law func(t *rapid.T, a *author)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		a := newAuthor(t)
		a.log(n)
		law(t, a)
	})
}
