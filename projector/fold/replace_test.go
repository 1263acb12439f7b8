package fold

import (
	"fmt"
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
