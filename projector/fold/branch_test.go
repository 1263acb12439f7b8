package fold

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// TestReplaced regenerates an answer, then edits the question before it: the page shows the latest version in that place, with
// new ids.
func TestReplaced(t *testing.T) {
	for _, reloads := range []bool{false, true} {
		t.Run(fmt.Sprintf("reloads=%t", reloads), func(t *testing.T) {
			sc := &script{t: t, s: newSnapshot(session), reloads: reloads}
			ask := func(n int, content, client, replaces string) {
				in := chunk.InputMessage{Content: content, ClientMessageID: &client}
				if replaces != "" {
					in.Extra = []chunk.Member{{Name: ReplacesMember, Value: chunk.Value(`"` + replaces + `"`)}}
				}
				sc.applyChunk(0, chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n), Mode: "execute", Input: []chunk.InputMessage{in}})
				sc.applyChunk(1, chunk.TextDelta{Delta: "answer " + fmt.Sprint(n)})
				sc.applyChunk(1, chunk.StreamEnd{StreamID: session.ID})
			}
			ask(1, "one", "c1", "")
			ask(2, "two", "c2", "")
			ask(3, "two", "c2", "msg-2")
			sc.shows("msg-0", "msg-1", "msg-4", "msg-5")
			ask(4, "uno", "c1", "msg-0")
			sc.shows("msg-6", "msg-7")
			ask(5, "x", "c5", "msg-99")
			sc.shows("msg-6", "msg-7", "msg-8", "msg-9")
			var ids []string
			for _, in := range sc.s.Inputs() {
				ids = append(ids, fmt.Sprintf("%d %s %s %t", in.Index, in.ClientID, in.Message.Content, in.Replaced))
			}
			want := []string{"0 c1 one true", "2 c2 two true", "4 c2 two true", "6 c1 uno false", "8 c5 x false"}
			if !slices.Equal(ids, want) {
				t.Errorf("inputs %q, want %q", ids, want)
			}
			page, err := sc.s.MessagePage(PageQuery{Before: "msg-6", Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			if older := BrowserPage(page); len(older.Messages) != 0 {
				t.Errorf("before the edit: %v, want no messages", older.Messages)
			}
		})
	}
}

// TestBranches compares the branches of random sessions with pointers from each message to the one before it: what is shown for the latest message, on the branch of
// each message, and which turns are alternatives.
func TestBranches(t *testing.T) {
	for seed := range 300 {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		sc, ref := &script{t: t, s: newSnapshot(session), reloads: seed%3 == 0}, newReference()
		for n := range 2 + random.IntN(14) {
			in := chunk.InputMessage{Content: fmt.Sprint("question ", n)}
			if random.IntN(3) > 0 {
				name := []string{ReplacesMember, FollowsMember}[random.IntN(2)]
				in.Extra = []chunk.Member{{Name: name, Value: chunk.Value(fmt.Sprintf("%q", MessageID(random.IntN(2*n+2))))}}
			}
			sc.applyChunk(0, chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n + 1), Mode: "execute", Input: []chunk.InputMessage{in}})
			sc.applyChunk(1, chunk.TextDelta{Delta: "answer"})
			sc.applyChunk(1, chunk.StreamEnd{StreamID: session.ID})
		}
		for _, rec := range sc.log {
			ref.take(rec)
		}
		last := len(ref.msgs) - 1
		if got, want := shownBy(sc.s), ref.path(last); !maps.Equal(got, want) {
			t.Fatalf("seed %d: shown %v, want %v", seed, got, want)
		}
		if got, want := sc.s.Branches(), ref.branches(last); !maps.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("seed %d: branches %v, want %v", seed, got, want)
		}
		for n := range ref.msgs {
			tip := last
			for !ref.path(tip)[n] || tip != last && tip+1 < len(ref.msgs) && ref.before(tip+1) == tip {
				tip--
			}
			at, err := sc.s.OnBranch(MessageID(n))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := shownBy(at), ref.path(tip); !maps.Equal(got, want) {
				t.Fatalf("seed %d: branch of %d: shown %v, want %v", seed, n, got, want)
			}
			if got, want := at.Branches(), ref.branches(tip); !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("seed %d: branch of %d: alternatives %v, want %v", seed, n, got, want)
			}
		}
	}
}

// TestManyBranches bounds what is stored of branches that are not shown.
func TestManyBranches(t *testing.T) {
	old := maxBranches
	maxBranches = 5
	t.Cleanup(func() { maxBranches = old })
	sc := &script{t: t, s: newSnapshot(session)}
	for n := range 40 {
		in := chunk.InputMessage{Content: "again", Extra: []chunk.Member{{Name: ReplacesMember, Value: chunk.Value(`"msg-0"`)}}}
		sc.applyChunk(0, chunk.RunStarted{RunID: fmt.Sprint("r", n), Epoch: int64(n + 1), Mode: "execute", Input: []chunk.InputMessage{in}})
		sc.applyChunk(1, chunk.TextDelta{Delta: "answer"})
		sc.applyChunk(1, chunk.StreamEnd{StreamID: session.ID})
	}
	sc.shows("msg-78", "msg-79")
	if n := len(sc.s.branches); n > 7 {
		t.Errorf("%d branches are stored, want at most 5 that are not shown", n)
	}
	if _, err := sc.s.OnBranch("msg-80"); !errors.Is(err, chunk.ErrUnknownMessage) {
		t.Errorf("branch of a message that does not exist: %v, want ErrUnknownMessage", err)
	}
}

func shownBy(s Snapshot) map[int]bool {
	out := map[int]bool{}
	for _, m := range s.Messages(0) {
		out[m.Index] = true
	}
	return out
}

// branches returns the alternatives of the turns on the path to a message.
func (w *reference) branches(last int) map[string][]string {
	after := map[int][]string{}
	shown := map[int]string{}
	path := w.path(last)
	for n := range w.msgs {
		p := w.before(n)
		after[p] = append(after[p], MessageID(n))
		if path[n] {
			shown[p] = MessageID(n)
		}
	}
	out := map[string][]string{}
	for p, ids := range after {
		if shown[p] != "" && len(ids) > 1 {
			out[shown[p]] = ids
		}
	}
	return out
}

func (sc *script) shows(want ...string) {
	sc.t.Helper()
	var got []string
	for _, m := range BrowserForm(sc.s, false, 0).Messages {
		got = append(got, m.ID)
	}
	if !slices.Equal(got, want) {
		sc.t.Errorf("shown: %q, want %q", got, want)
	}
}
