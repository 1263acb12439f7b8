package producers

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
)

// Chunks over a limit of the session are rejected, also in a later run; the end of a run never is.
func TestSessionLimit(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"chunks":    {Config{MaxSessionChunks: 4}, "session has reached its limit: 4 chunks"},
		"bytes":     {Config{MaxSessionBytes: 500}, "session has reached its limit: 500 bytes"},
		"unlimited": {Config{MaxSessionChunks: Off, MaxSessionBytes: Off}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newFakeLog(t, testSession)
				r := startOn(t, l, test.cfg)
				var err error
				stored := 0
				for ; err == nil && stored < 10; stored++ {
					_, err = r.Write(t.Context(), numbered(stored))
				}
				if test.want == "" {
					if err != nil {
						t.Error(err)
					}
				} else if !errors.Is(err, ErrSessionLimit) || !errors.Is(err, chunk.ErrNotStored) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("after %d chunks: %v, want %s", stored, err, test.want)
				}
				before := len(l.records())
				if err := r.Fail(t.Context(), "too long", nil); err != nil {
					t.Errorf("the end: %v", err)
				}
				if n := len(l.records()); n != before+1 || test.want != "" && n > 6 {
					t.Errorf("%d records, %d before the end", n, before)
				}
			})
		})
	}
}

// Each record has the bytes of the session up to it, which the next writer continues: also after a takeover, a cleanup, and when all records have
// expired. Without that each new run, and each request of ingest, had a limit of its own.
func TestSessionBytesContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{})
		l.mustWrite(r, 3)
		if _, err := r.CleanupToStep(t.Context(), -1, 0); err != nil {
			t.Fatal(err)
		}
		r, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "execute"}, true)
		if err != nil {
			t.Fatal(err)
		}
		l.mustWrite(r, 2)
		if err := r.End(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		recs, removed := l.records(), int64(0)
		for i, rec := range recs[1:] {
			grown := rec.SessionBytes - recs[i].SessionBytes - int64(len(rec.Data))
			if removed += grown; grown < 0 || grown > 0 && rec.Ordinal == recs[i].Ordinal+1 {
				t.Errorf("record %d of %d bytes: the sum is %d after %d", rec.Ordinal, len(rec.Data), rec.SessionBytes, recs[i].SessionBytes)
			}
		}
		if removed < 300 {
			t.Errorf("%d bytes of the removed chunks count, want all", removed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		startOn(t, l, Config{Positions: &heads{pos: chunk.Position{Seq: 77, Ordinal: 41}, epoch: 6, bytes: 5000}})
		if rec := l.records()[0]; rec.SessionBytes != 5000+int64(len(rec.Data)) {
			t.Errorf("%d bytes after the records that have expired, want more than 5000", rec.SessionBytes)
		}
	})
}

// A session that is exactly at its limit stores no chunk more and its end, records of builds that have not counted begin the count again, and what a writer that was
// taken over has sent does not count.
func TestSessionBytesAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := newFakeLog(t, testSession)
		counted.mustWrite(startOn(t, counted, Config{}), 3)
		last := counted.records()[3].SessionBytes

		l := newFakeLog(t, testSession)
		r := startOn(t, l, Config{MaxSessionBytes: last})
		l.mustWrite(r, 3)
		if at := l.records()[3].SessionBytes; at != last {
			t.Fatalf("%d bytes, want %d", at, last)
		}
		if _, err := r.Write(t.Context(), numbered(3)); !errors.Is(err, ErrSessionLimit) {
			t.Errorf("a chunk beyond the limit: %v", err)
		}
		if err := r.End(t.Context(), nil); err != nil || l.records()[4].Type != chunk.TypeStreamEnd {
			t.Errorf("the end: %v, %v", err, l.summary())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		l.putRecord(1, 1, chunk.Chunk{AgentID: testSession.ID, AgentType: "a", Timestamp: 1, Body: chunk.StreamEnd{StreamID: "s"}})
		old := startOn(t, l, Config{})
		l.mustWrite(old, 1)
		r, err := tryStart(t, l, Config{}, chunk.RunStarted{Mode: "execute"}, true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := old.Write(t.Context(), numbered(5)); !errors.Is(err, chunk.ErrFenced) {
			t.Errorf("the writer that was taken over: %v", err)
		}
		l.mustWrite(r, 2)
		sum := int64(0)
		for _, rec := range l.records()[1:] {
			if sum += int64(len(rec.Data)); rec.SessionBytes != sum {
				t.Errorf("record %d: %d bytes, want %d", rec.Ordinal, rec.SessionBytes, sum)
			}
		}
	})
}

func (l *fakeLog) mustWrite(r *Run, n int) {
	l.t.Helper()
	for i := range n {
		if _, err := r.Write(l.t.Context(), numbered(i)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// At the limit a run can be taken over and ended, and beyond the reserve nothing is stored but the end of an open run. Starts, pauses and their reasons would otherwise
// fill the log without an end.
func TestLimitReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFakeLog(t, testSession)
		cfg := Config{MaxSessionBytes: 1000}
		long := strings.Repeat("x", 400<<10)
		r := startOn(t, l, cfg)
		var err error
		for n := 0; err == nil; n++ {
			if err = r.Pause(t.Context(), long); err == nil {
				err = r.Activate(t.Context())
			}
			if n > 20 {
				t.Fatal("pauses without an end")
			}
		}
		if !errors.Is(err, ErrSessionLimit) {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			next, err := tryStart(t, l, cfg, chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: long}}}, true)
			if err != nil {
				if !errors.Is(err, ErrSessionLimit) || n == 0 || n > 10 {
					t.Fatalf("start %d: %v", n, err)
				}
				break
			}
			r = next
		}
		before := len(l.records())
		if err := r.Fail(t.Context(), long, nil); err != nil {
			t.Error(err)
		}
		if _, err := tryStart(t, l, cfg, chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: long}}}, false); !errors.Is(err, ErrSessionLimit) {
			t.Error(err)
		}
		if n := len(l.records()); n != before+1 {
			t.Errorf("%d records, %d before the end", n, before)
		}
	})
}
