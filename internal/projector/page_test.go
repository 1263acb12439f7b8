package projector_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/testkit/storetest"
	"github.com/tailrace/tailrace/projector/fold"
)

var pageSeed = flag.Uint64("page.seed", 0, "seed of TestPages; 0 takes the time's")

// TestPages compares pages with parts of the whole snapshot, for any position of the stored head, with a run in flight, hidden
// messages and cleanups, and the head with that of the whole snapshot.
func TestPages(t *testing.T) {
	seed := *pageSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-page.seed=%d", seed)
	notRead := 0 // messages that the heads did not need
	rng, hidden := rand.New(rand.NewPCG(seed, 1)), chunk.Value(`{"hidden":true}`)
	for range 25 {
		log, store := storetest.NewLog(), storetest.NewMemory()
		a := storetest.NewSessionGenerator(log, s1, rng.Uint64())
		for range rng.IntN(3) {
			a.Write(t, 1+rng.IntN(150))
			hidden := chunk.RunStarted{
				RunID: "hidden", Epoch: 1, Mode: "execute",
				Input: []chunk.InputMessage{{Content: "hidden", Metadata: &hidden}},
			}
			log.Append(t, s1, 0, hidden)
		}
		a.Write(t, 1+rng.IntN(150))
		stored(t, store, log, s1)
		a.Write(t, 1+rng.IntN(60))
		snap := storetest.Fold(t, log, s1)
		reader := projector.NewReader(store, log)
		head, err := reader.Head(t.Context(), s1)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(head.AppendHead(nil)), string(snap.AppendHead(nil)); got != want {
			t.Fatalf("the head is\n%s\nwant\n%s", got, want)
		}
		notRead += head.TrimmedCount()
		for range 12 {
			w := fold.PageQuery{Limit: 1 + rng.IntN(12), Partial: rng.IntN(2) == 0}
			all := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: w.Partial, Timestamp: 7})
			if n := len(all.Messages); n > 0 && rng.IntN(3) > 0 {
				w.Before = all.Messages[rng.IntN(n)].ID
			}
			page, err := reader.MessagePage(t.Context(), s1, w)
			if err != nil {
				t.Fatalf("%+v: %v", w, err)
			}
			got, want := string(aisdk.Page(page, 7).AppendJSON(nil)), string(cut(all, w).AppendJSON(nil))
			if got != want {
				t.Fatalf("%+v:\n got %s\nwant %s", w, got, want)
			}
		}
	}
	if notRead == 0 {
		t.Error("every head was read with all messages")
	}
}

// cut returns the page as a part of the whole snapshot, for sessions without sub-agents.
func cut(all aisdk.FrontendSnapshot, w fold.PageQuery) aisdk.FrontendSnapshot {
	end := len(all.Messages)
	if w.Before != "" {
		end = slices.IndexFunc(all.Messages, func(m aisdk.UIMessage) bool { return m.ID == w.Before })
	}
	begin, before := max(0, end-w.Limit), ""
	if begin > 0 {
		before = all.Messages[begin].ID
	}
	all.Messages, all.Before = all.Messages[begin:end], &before
	return all
}

// TestPageReadsLittle checks that the cost of a page depends on its size and not on the session.
func TestPageReadsLittle(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 5)
	a.WithCleanups = false
	a.Write(t, 20_000)
	snap := stored(t, store, log, s1)
	reader := projector.NewReader(store, log)
	w := fold.PageQuery{Limit: 5}
	for range 3 {
		before := store.Reads()
		page, err := reader.MessagePage(t.Context(), s1, w)
		if err != nil {
			t.Fatal(err)
		}
		f := aisdk.Page(page, 0)
		if n := store.Reads() - before; n > 100 || n >= snap.FinishedCount() || len(f.Messages) != 5 || *f.Before == "" {
			t.Errorf("%d of %d messages were read for %d", n, snap.FinishedCount(), len(f.Messages))
		}
		w.Before = *f.Before
	}
}

// TestPageOfChildren checks that a page contains the sub-agents that its messages called.
func TestPageOfChildren(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	for _, child := range []string{"a", "b"} {
		log.Append(t, s1, 0, chunk.RunStarted{RunID: "r" + child, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "ask " + child}}})
		log.Append(t, s1, 1, chunk.SubagentStart{SubSessionID: child, SubAgentType: "scout", CallID: "c" + child})
		log.Append(t, s1, 1, chunk.SubagentEnd{SubSessionID: child, SubAgentType: "scout", CallID: "c" + child, Result: chunk.Value(`1`)})
		log.Append(t, s1, 1, chunk.TextDelta{Delta: "done"})
		log.Append(t, s1, 1, chunk.StreamEnd{StreamID: "s1"})
	}
	stored(t, store, log, s1)
	page, err := projector.NewReader(store, log).MessagePage(t.Context(), s1, fold.PageQuery{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	f := aisdk.Page(page, 0)
	if len(f.Children) != 1 || f.Children[0].Session != "b" || f.Children[0].Status != fold.ChildEnded || len(f.Messages) != 2 {
		t.Errorf("children %+v, messages %+v", f.Children, f.Messages)
	}
}

func TestPageErrors(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	reader := projector.NewReader(store, log)
	if _, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{Limit: 1}); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("no session: %v", err)
	}
	for step := range int64(6) { // one answer of three steps, and a second one in flight
		if step%3 == 0 {
			log.Append(t, s1, 0, chunk.RunStarted{RunID: fmt.Sprint("r", step), Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "q"}}})
		}
		log.Append(t, s1, step, chunk.TextDelta{Delta: "x"})
		log.Append(t, s1, step, chunk.StepEnd{})
	}
	stored(t, store, log, s1)
	for _, id := range []string{"msg-2", "msg-3", "msg-5", "msg-99", "msg--1", "msg-01", "msg-+1", "msg-", "1", "msg-4294967296", "msg-99999999999999999999"} {
		if _, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{Limit: 1, Before: id}); !errors.Is(err, chunk.ErrUnknownMessage) {
			t.Errorf("before %q: %v", id, err)
		}
	}
	if _, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{Limit: 1, Before: "msg-5", Partial: true}); err != nil {
		t.Errorf("before the one in flight: %v", err)
	}
	if _, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{}); err == nil {
		t.Error("a page with limit 0")
	}
}

// TestInconsistentPage checks that the log replaces missing stored messages; if it cannot, the page is an error.
func TestInconsistentPage(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	a := storetest.NewSessionGenerator(log, s1, 6)
	a.WithCleanups = false
	a.Write(t, 2000)
	snap := stored(t, store, log, s1)
	store.DropMessages(s1)
	reader := projector.NewReader(store, log)
	page, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(aisdk.Page(page, 7).AppendJSON(nil)), string(cut(aisdk.Snapshot(snap, aisdk.SnapshotOptions{Timestamp: 7}), fold.PageQuery{Limit: 500}).AppendJSON(nil)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	log.Expire(s1, snap.Position.Ordinal)
	if _, err := reader.MessagePage(t.Context(), s1, fold.PageQuery{Limit: 500}); !errors.Is(err, fold.ErrInconsistent) {
		t.Errorf("err = %v, want ErrInconsistent", err)
	}
}

// TestPagesOfLongSteps does the same for steps that are stored in segments, in finished turns and in the open one, and with calls
// without an outcome.
func TestPagesOfLongSteps(t *testing.T) {
	log, store := storetest.NewLog(), storetest.NewMemory()
	calls := func(name string, n int) {
		for i := range n {
			id := fmt.Sprint(name, i)
			log.Append(t, s1, 1, chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{}`)})
			log.Append(t, s1, 1, chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{}`)})
		}
	}
	for turn, n := range []int{3, 500, 64, 65, 1, 200, 400} {
		name := fmt.Sprint("t", turn, "-")
		log.Append(t, s1, 0, chunk.RunStarted{RunID: name, Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: name}}})
		calls(name, n)
		if turn == 5 {
			log.Append(t, s1, 1, chunk.ToolStart{ToolCallID: "open", ToolName: "search", Arguments: chunk.Value(`{}`)})
			calls("after-open-", 100)
		}
		stored(t, store, log, s1)
	}
	calls("unsaved-", 100)
	snap, reader := storetest.Fold(t, log, s1), projector.NewReader(store, log)
	if snap.TrimmedCount() != 0 || len(snap.FinishedMessages()) < 20 || snap.FinishedCount() > 14 {
		t.Fatalf("%d values of %d messages", len(snap.FinishedMessages()), snap.FinishedCount())
	}
	for limit := 1; limit < 5; limit++ {
		for _, partial := range []bool{false, true} {
			all := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: partial, Timestamp: 7})
			for n := range len(all.Messages) + 1 {
				w := fold.PageQuery{Limit: limit, Partial: partial}
				if n < len(all.Messages) {
					w.Before = all.Messages[n].ID
				}
				page, err := reader.MessagePage(t.Context(), s1, w)
				if err != nil {
					t.Fatalf("%+v: %v", w, err)
				}
				got, want := string(aisdk.Page(page, 7).AppendJSON(nil)), string(cut(all, w).AppendJSON(nil))
				if got != want {
					t.Fatalf("%+v:\n got %s\nwant %s", w, got, want)
				}
			}
		}
	}
}
