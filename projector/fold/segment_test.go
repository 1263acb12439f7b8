package fold

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// smallSegments lets the short messages of random logs have segments.
func smallSegments(t *testing.T, parts, bytes int) {
	t.Helper()
	oldParts, oldBytes := segmentParts, segmentBytes
	segmentParts, segmentBytes = parts, bytes
	t.Cleanup(func() { segmentParts, segmentBytes = oldParts, oldBytes })
}

// TestLawsWithSegments checks all laws for messages with segments of one or two parts, and of a few bytes.
func TestLawsWithSegments(t *testing.T) {
	for _, size := range []struct{ parts, bytes int }{{1, 1 << 20}, {2, 1 << 20}, {64, 40}} {
		t.Run(fmt.Sprintf("parts=%d/bytes=%d", size.parts, size.bytes), func(t *testing.T) {
			smallSegments(t, size.parts, size.bytes)
			t.Run("laws", TestLaws)
			lawsOfStorage(t)
		})
	}
}

// lawsOfStorage checks the laws that hold for every division of messages.
func lawsOfStorage(t *testing.T) {
	t.Helper()
	t.Run("cut", TestPrefixSaveLoadRestIsAll)
	t.Run("every record", TestSaveAndLoadAfterEveryRecord)
	t.Run("trimmed", TestTrimmedFoldsTheSame)
	t.Run("twice", TestTwiceIsOnce)
	t.Run("order", TestAnyOrderOfDelivery)
	t.Run("cleanup", TestCleanUpIsConsistent)
	t.Run("cleanup after reload", TestCleanUpAfterReload)
	t.Run("cleanup half through", TestCleanUpHalfThrough)
	t.Run("one name", TestOneNameOneContent)
	t.Run("page", TestPageIsTheSnapshotAtItsCursor)
}

// TestLawsWithFewDroppedCalls checks the laws of cleanups for a bound that the calls of random logs exceed.
func TestLawsWithFewDroppedCalls(t *testing.T) {
	smallSegments(t, 1, 1<<20)
	old := maxDropped
	maxDropped = 1
	t.Cleanup(func() { maxDropped = old })
	lawsOfStorage(t)
}

// TestSegmentsChangeNoMessage checks that segments change only how messages are stored: every reader gets the same messages.
func TestSegmentsChangeNoMessage(t *testing.T) {
	laws(t, 80, func(rt *rapid.T, a *generator) {
		log := a.survivors(len(a.all))
		want := read(rt, newSnapshot(session), log)
		smallSegmentsIn(func() {
			got := read(rt, newSnapshot(session), log)
			for _, partial := range []bool{false, true} {
				if g, w := string(BrowserForm(got, partial, 5).JSON), string(BrowserForm(want, partial, 5).JSON); g != w {
					rt.Fatalf("page:\n got %s\nwant %s", g, w)
				}
			}
			for n := range want.MessageCount() {
				if g, w := fmt.Sprintf("%+v", texts(got.Messages(n))), fmt.Sprintf("%+v", texts(want.Messages(n))); g != w {
					rt.Fatalf("messages from %d:\n got %s\nwant %s", n, g, w)
				}
			}
			if got.MessageCount() != want.MessageCount() || got.FinishedCount() != want.FinishedCount() || got.TurnMessages() != want.TurnMessages() {
				rt.Fatalf("%d messages, %d finished, want %d and %d", got.MessageCount(), got.FinishedCount(), want.MessageCount(), want.FinishedCount())
			}
			pages(rt, got, want)
		})
	})
}

func smallSegmentsIn(do func()) {
	oldParts := segmentParts
	segmentParts = 1
	defer func() { segmentParts = oldParts }()
	do()
}

func texts(list []Message) []string {
	var out []string
	for _, m := range list {
		text := fmt.Sprint(m.Index, m.Shown, m.Role, m.Hidden, len(m.Children))
		for i := range m.Parts {
			text += fmt.Sprintf(" %s %q", m.Parts[i].Kind, m.Parts[i].Text)
			if c := m.Parts[i].Call; c != nil {
				text += fmt.Sprint(c.ID, c.State)
			}
		}
		out = append(out, text)
	}
	return out
}

// pages compares all pages of a snapshot without its finished messages with those of one without segments.
func pages(t *rapid.T, got, want Snapshot) {
	all := got.FinishedMessages()
	trimmed := got.trimFinished()
	load := func(q PageQuery) *MessagePage {
		p, err := trimmed.MessagePage(q)
		if err != nil {
			t.Fatalf("page before %q: %v", q.Before, err)
		}
		for from, to := p.MissingRange(); from < to; from, to = p.MissingRange() {
			var data [][]byte
			for _, f := range all[from:to] {
				data = append(data, f.Data)
			}
			if err := p.AddMessages(data); err != nil {
				t.Fatalf("page before %q: messages %d to %d: %v", q.Before, from, to, err)
			}
		}
		return p
	}
	for parts := 1; parts <= 3; parts++ {
		pagesOfParts(t, want, load, parts)
	}
	for limit := 1; limit <= 3; limit++ {
		before := ""
		for {
			q := PageQuery{Limit: limit, Partial: true, Before: before}
			w, err := want.MessagePage(q)
			if err != nil {
				t.Fatalf("page before %q: %v", before, err)
			}
			wantList, wantOlder := w.Messages()
			gotList, older := load(q).Messages()
			if g, w := fmt.Sprint(texts(gotList)), fmt.Sprint(texts(wantList)); g != w || older != wantOlder {
				t.Fatalf("page of %d before %q:\n got %s, older %q\nwant %s, older %q", limit, before, g, older, w, wantOlder)
			}
			if before = older; before == "" {
				break
			}
		}
	}
}

// pagesOfParts compares all pages with a maximum number of parts, joined, with the whole conversation. Every page but the first
// of the conversation has that many parts, or as many messages as asked for.
func pagesOfParts(t *rapid.T, want Snapshot, load func(PageQuery) *MessagePage, parts int) {
	const limit = 2
	users := func(list []Message) (out []string) {
		for _, m := range list {
			if m.Hidden || m.Replaced {
				continue
			}
			for _, p := range m.Parts {
				text := fmt.Sprintf("%d %d %s %q", m.Shown, m.Index, p.Kind, p.Text)
				if p.Call != nil {
					text += fmt.Sprint(p.Call.ID, p.Call.State)
				}
				out = append(out, text)
			}
		}
		return out
	}
	whole, before := users(want.AllMessages()), ""
	maxPages := len(whole) + 1
	for pages := 0; ; pages++ {
		list, older := load(PageQuery{Limit: limit, Parts: parts, Before: before, Partial: true}).Messages()
		page := users(list)
		rest := len(whole) - len(page)
		if rest < 0 || pages > maxPages || !slices.Equal(whole[rest:], page) {
			t.Fatalf("page of %d parts before %q:\n got %q\nwant the end of %q", parts, before, page, whole)
		}
		shown := map[int]bool{}
		for _, m := range list {
			if !m.Hidden && !m.Replaced && len(m.Parts) > 0 {
				shown[m.Shown] = true
			}
		}
		if len(page) > parts || len(shown) > limit || older != "" && len(page) < parts && len(shown) < limit {
			t.Fatalf("page before %q has %d parts of %d messages, want %d or %d; older %q", before, len(page), len(shown), parts, limit, older)
		}
		if older == "" {
			if rest > 0 {
				t.Fatalf("page before %q is the last, and %q is missing", before, whole[:rest])
			}
			return
		}
		whole, before = whole[:rest], older
	}
}

// TestHeadOfALongTurnStaysSmall checks that the head and the memory do not grow with the calls of one turn, in one step and in
// many.
func TestHeadOfALongTurnStaysSmall(t *testing.T) {
	for _, steps := range []bool{false, true} {
		t.Run(fmt.Sprintf("steps=%t", steps), func(t *testing.T) {
			f, n, step := New(session), 0, int64(1)
			add := func(body chunk.Body) {
				t.Helper()
				n++
				rec := record(t, n, body)
				c := chunk.Chunk{AgentID: session.ID, AgentType: "agent", Timestamp: 1, Step: step, Body: body}
				var err error
				if rec.Data, err = c.AppendJSON(nil); err != nil {
					t.Fatal(err)
				}
				if err := f.Apply(rec); err != nil {
					t.Fatal(err)
				}
			}
			add(chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "work"}}})
			calls := func(upTo int) (head, memory int) {
				for n < upTo {
					if steps {
						step++
						add(chunk.StepStart{})
					}
					id := fmt.Sprintf("call-%08d", n)
					add(chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"q":1}`)})
					add(chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"r":[1,2,3]}`)})
					add(chunk.TextDelta{Delta: "found "})
					head, memory = max(head, len(f.Snapshot().AppendHead(nil))), max(memory, f.MemoryBytes())
					f.Trim()
				}
				return head, memory
			}
			head, memory := calls(1000)
			laterHead, laterMemory := calls(20_000)
			if laterHead > head*12/10 || laterMemory > memory*12/10 {
				t.Errorf("head of %d bytes, %d in memory after 20,000 records; %d and %d after 1,000", laterHead, laterMemory, head, memory)
			}
		})
	}
}
