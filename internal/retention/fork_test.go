package retention

import (
	"context"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
)

// forks returns the first records of forks of the end of a session.
func (w *env) forks(origin chunk.Session) func(fork chunk.Session) []chunk.Chunk {
	w.Helper()
	snap, err := w.Reader.Snapshot(w.Context(), origin)
	must(w.T, err)
	seeds, end, _, err := snap.Seed(fold.Fork{})
	must(w.T, err)
	return func(s chunk.Session) (all []chunk.Chunk) {
		for _, b := range seeds {
			all = append(all, chunk.Chunk{AgentID: s.ID, AgentType: "agent", Body: b})
		}
		return append(all, chunk.Chunk{AgentID: s.ID, AgentType: "agent", Body: end})
	}
}

// A fork whose first records were never completed is not listed, and is deleted after an hour. A complete one stays.
func TestSweepDeletesIncompleteForks(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	origin := chunk.RootSession("acme", "s1")
	must(t, w.say(origin).End(t.Context(), nil))
	records := w.forks(origin)
	whole, part := chunk.RootSession("acme", "whole"), chunk.RootSession("acme", "part")
	seeds := len(records(whole)) - 1
	for s, n := range map[chunk.Session]int{whole: seeds + 1, part: seeds} {
		if ok, err := w.producer.Fork(t.Context(), s, records(s)[:n]); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for _, s := range []chunk.Session{part, whole} {
		natstest.Eventually(t, "the head of "+s.ID, func(ctx context.Context) error {
			_, _, err := w.store.Load(ctx, s)
			return err
		})
	}
	stop()
	list, err := w.store.Sessions(t.Context(), "acme", projector.SessionQuery{})
	must(t, err)
	if len(list.Sessions) != 2 || list.Sessions[0].Session == part || list.Sessions[1].Session == part {
		t.Errorf("listed: %+v", list.Sessions)
	}
	if n, err := w.eraser.SweepAt(t.Context(), time.Now().Add(50*time.Minute)); n != 0 || err != nil {
		t.Errorf("after 50 minutes: %d removed, %v", n, err)
	}
	if n, err := w.eraser.SweepAt(t.Context(), time.Now().Add(2*time.Hour)); n != 1 || err != nil {
		t.Errorf("after two hours: %d removed, %v", n, err)
	}
	if last, err := w.log.Last(t.Context(), part); err != nil || !last.IsDeletion() {
		t.Errorf("the last record of the incomplete fork is %s, %v", last.Type, err)
	}
	if ok, err := w.producer.Fork(t.Context(), part, records(part)); ok || err != nil {
		t.Errorf("a deleted fork is completed: %t, %v", ok, err)
	}
	if all := w.Records(whole); len(all) != seeds+1 {
		t.Errorf("the complete fork has %d records", len(all))
	}
}
