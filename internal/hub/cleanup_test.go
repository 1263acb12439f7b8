package hub_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// records returns the types and ordinals of the next records of a cursor, until there are none.
func records(t *testing.T, cur *hub.Cursor) string {
	t.Helper()
	var got []string
	for waited := 0; ; {
		synctest.Wait()
		batch, err := cur.Next(t.Context(), now())
		if err != nil {
			t.Errorf("after %v: %v", got, err)
			return ""
		}
		if len(batch.Frames) == 0 {
			if waited++; waited == 3 { // it waits for no page that is being read
				return fmt.Sprint(got)
			}
			continue
		}
		waited = 0
		for line := range bytes.Lines(batch.Frames) {
			var seq, ordinal int
			var id, typ string
			if _, err := fmt.Sscan(string(line), &seq, &ordinal, &id, &typ); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(typ, " ", ordinal))
		}
	}
}

// TestTakeoverWithCleanup checks takeovers and retried steps that the feed delivers at once, after clients took none, some or all of the removed records. Each
// client reads on, and gets the truncation record and the new step; a client that attaches later gets no removed record. The clients read the log for that only
// if the hub has too little memory.
func TestTakeoverWithCleanup(t *testing.T) {
	for _, row := range []struct {
		name   string
		memory int64
		mode   string
		want   string
	}{
		{"takeover", 1 << 20, "takeover", "[run_started 9 truncated 10 text_delta 11]"},
		{"retried step", 1 << 20, "", "[truncated 9 text_delta 10]"},
		{"takeover, little memory", 1, "takeover", "[run_started 9 truncated 10 text_delta 11]"},
		{"retried step, little memory", 1, "", "[truncated 9 text_delta 10]"},
	} {
		for _, scope := range []chunk.Scope{chunk.ScopeTree, chunk.ScopeSession} {
			t.Run(fmt.Sprintf("%s/scope=%d", row.name, scope), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { takeover(t, row.memory, row.mode, row.want, scope) })
			})
		}
	}
}

func takeover(t *testing.T, memory int64, mode, want string, scope chunk.Scope) {
	t.Helper()
	log := memlog.New()
	h := start(t, log, log, hub.Config{MaxMemory: memory})
	subscribe := func() *hub.Cursor {
		t.Helper()
		cur, err := h.Subscribe(t.Context(), hub.Request{Session: aRoot, Scope: scope, KeepOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cur.Close)
		return cur
	}
	var cursors []*hub.Cursor
	for range 6 {
		cursors = append(cursors, subscribe())
	}
	log.Append(aRoot, chunk.TypeRunStarted, "")
	log.AppendAt(aRoot, chunk.TypeTextDelta, 1, "")
	kept := log.AppendAt(aRoot, chunk.TypeTextDelta, 1, "")
	for n := range cursors {
		for _, cur := range cursors[n:] {
			records(t, cur)
		}
		if n < 5 {
			log.AppendAt(aRoot, chunk.TypeTextDelta, 2, "")
		}
	}
	reads := h.Stats().Reads
	log.PauseFeeds()
	if mode == "takeover" {
		log.Takeover(aRoot)
		log.Append(aRoot, chunk.TypeRunStarted, "")
	}
	log.Cleanup(aRoot, 1, kept.Seq)
	log.AppendAt(aRoot, chunk.TypeTextDelta, 2, "")
	log.Release()
	for n, cur := range slices.Backward(cursors) { // a page that is read for a client that has none has all
		if got := records(t, cur); got != want {
			t.Errorf("a client that has %d removed records gets %s, want %s", n, got, want)
		}
	}
	if got, want := records(t, subscribe()), "[run_started 1 text_delta 2 text_delta 3 "+want[1:]; got != want {
		t.Errorf("a client that attaches later gets %s, want %s", got, want)
	}
	if n := h.Stats().Reads - reads; (n > 0) != (memory == 1) {
		t.Errorf("%d pages were read from the log", n)
	}
}
