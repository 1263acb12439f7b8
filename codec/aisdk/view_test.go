package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/testkit/viewtest"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
)

// shown is a MessageWriter behind a view.
type shown struct {
	*MessageWriter

	view *view.Chat
}

func (s shown) Append(dst []byte, rec chunk.Record) []byte {
	if kept, ok := s.view.Record(rec); ok {
		return s.MessageWriter.Append(dst, kept)
	}
	return s.Hide(dst, rec)
}

func (s shown) Replay(dst []byte, recs []chunk.Record) []byte {
	r := s.BeginReplay()
	for _, rec := range recs {
		r.FindRemoved(rec)
	}
	return r.Write(dst, func(yield func(chunk.Record, bool) bool) {
		for _, rec := range recs {
			if kept, ok := s.view.Record(rec); ok {
				yield(kept, true)
			} else {
				yield(rec, false)
			}
		}
	}, nil)
}

// A client under a view accepts all frames, and one that resumes at any cursor gets the same bytes as other clients get after it; a replay builds the same message.
func TestViewTailIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt, shows := a.options(), viewtest.Views().Draw(a.t, "view").Chat()
		m, c := shown{New("msg-1", opt), shows}, newClient(opt.Major)
		for _, rec := range a.log {
			if m.Done() {
				m.Continue()
				c.open()
			}
			show(t, c, m.Append(nil, rec))
			if m.Done() != c.ended {
				t.Fatalf("done %v, the client got the end: %v", m.Done(), c.ended)
			}
		}
		m = shown{New("msg-1", opt), shows}
		frames := make([]string, len(a.log))
		for i, rec := range a.log {
			frames[i] = string(m.Append(nil, rec))
		}
		for cut := 1; cut <= len(a.log); cut++ {
			m := shown{New("msg-1", opt), shows}
			m.printer.started = true // as Advance
			for i, rec := range a.log {
				if got := string(m.Append(nil, rec)); i >= cut && got != frames[i] {
					t.Fatalf("cut at %d, record %d:\n got %q\nwant %q", cut, i, got, frames[i])
				}
			}
		}
		n := rapid.IntRange(0, len(a.log)).Draw(t, "cut")
		late := newClient(opt.Major)
		m = shown{New("msg-1", opt), shows}
		show(t, late, m.Replay(nil, a.log[:n]))
		for _, rec := range a.log[n:] {
			if m.Done() {
				m.Continue()
				late.open()
			}
			show(t, late, m.Append(nil, rec))
		}
		if c.reload || late.reload {
			return
		}
		// See doc.go about the step-start of a removed step.
		a.stepless = a.stepless || slices.ContainsFunc(a.log, func(rec chunk.Record) bool { return rec.Type == chunk.TypeTruncated })
		if got, want := comparableText(a, late.parts, opt), comparableText(a, c.parts, opt); got != want {
			t.Fatalf("replayed:\n%s\nwant as live:\n%s\nof %s", got, want, a)
		}
	})
}

// A client that loads a page under a view has the parts, and the number of steps, of one that followed the stream under that view.
func TestViewSnapshotHasTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.plain = true
		a.turn()
		opt := Options{Major: []int{0, 7}[a.pick("major", 2)], ClientTool: isClientTool}
		shows := viewtest.Views().Draw(a.t, "view").Chat()
		f := fold.New(session)
		for _, rec := range a.log {
			if err := f.Apply(rec); err != nil {
				t.Fatal(err)
			}
		}
		text, err := shows.Page(Snapshot(f.Snapshot(), SnapshotOptions{Partial: true}).AppendJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Messages []struct {
				Role  string            `json:"role"`
				Parts []json.RawMessage `json:"parts"`
			} `json:"messages"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			t.Fatal(err)
		}
		var parts []*uiPart
		for _, msg := range page.Messages {
			for _, raw := range msg.Parts {
				if msg.Role == "assistant" {
					parts = append(parts, partOf(t, raw))
				}
			}
		}
		want := comparableText(a, parts, opt)
		m, c := shown{New("msg-1", opt), shows}, newClient(opt.Major)
		for _, rec := range a.log {
			if m.Done() {
				m.Continue()
				c.open()
			}
			show(t, c, m.Append(nil, rec))
		}
		late := newClient(opt.Major)
		show(t, late, shown{New("msg-1", opt), shows}.Replay(nil, a.log))
		for _, c := range []*client{c, late} {
			if got := comparableText(a, c.parts, opt); got != want && !c.reload {
				t.Fatalf("stream:\n%s\nsnapshot:\n%s\nof %s", got, want, a)
			}
		}
	})
}

var planted = regexp.MustCompile(`tok[0-9]+x`)

// Nothing in the frames is from a record, or a member, that the view hides: each record has a token in each of its texts.
func TestViewShowsNoMoreThanTheLog(t *testing.T) {
	word := regexp.MustCompile(`"(delta|content|result|error|message|reason|data|url|title|filename|text|q|input|partialInput|finalOutput|agentType)":(?:"|\{"q":"?|null|[0-9])`)
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.value = rapid.Map(rapid.Int(), func(n int) chunk.Value { return chunk.Value(fmt.Sprintf(`{"q":"v%d"}`, n)) })
		a.text = rapid.SampledFrom([]string{"a", "b c"})
		a.turn()
		opt, compiled := a.options(), viewtest.Views().Draw(a.t, "view")
		shows := compiled.Chat()
		var allowed []string
		for i, rec := range a.log {
			n := 0
			a.log[i].Data = word.ReplaceAllFunc(rec.Data, func(found []byte) []byte {
				if !bytes.HasSuffix(found, []byte(`"`)) {
					return found
				}
				n++
				return fmt.Appendf(nil, "%stok%d00%dx ", found, rec.Seq, n)
			})
			if kept, ok := compiled.Record(a.log[i]); ok {
				allowed = append(allowed, planted.FindAllString(string(kept.Data), -1)...)
			}
		}
		m := shown{New("msg-1", opt), shows}
		var frames []byte
		for _, rec := range a.log {
			if m.Done() {
				m.Continue()
			}
			frames = m.Append(frames, rec)
		}
		frames = append(frames, shown{New("msg-1", opt), shows}.Replay(nil, a.log)...)
		for _, tok := range planted.FindAllString(string(frames), -1) {
			if !slices.Contains(allowed, tok) {
				t.Fatalf("%s is hidden, and in\n%s\nof %s", tok, frames, a)
			}
		}
		if bytes.Contains(frames, []byte("subagent")) && shows.Hidden().SubAgents && strings.Contains(string(frames), `"agentId":"k`) {
			t.Fatalf("a hidden sub-agent is in\n%s", frames)
		}
	})
}

// hiddenCallLogs are logs of an answer with a text around records of a call that is hidden.
var hiddenCallLogs = map[string][]chunk.Body{
	"a second outcome": {
		chunk.ToolStart{ToolCallID: "c1", ToolName: "search", Arguments: emptyInput}, chunk.TextDelta{Delta: "a"},
		chunk.ToolOutputError{ToolCallID: "c1", ToolName: "search", Error: "e"}, chunk.TextDelta{Delta: "b"},
		chunk.ToolInputError{ToolCallID: "c1", ToolName: "search", Error: "e"}, chunk.TextDelta{Delta: "c"},
	},
	"an outcome without a start": {
		chunk.TextDelta{Delta: "a"}, chunk.ToolOutputError{ToolCallID: "c1", ToolName: "search", Error: "e"}, chunk.TextDelta{Delta: "b"},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "search", ProviderExecuted: new(true)}, chunk.TextDelta{Delta: "c"},
	},
	"an outcome whose start was removed": {
		chunk.ToolStart{ToolCallID: "c1", ToolName: "search", Arguments: emptyInput}, chunk.ToolOutputError{ToolCallID: "c1", ToolName: "search", Error: "e"},
		chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 2, Last: 3}}}, chunk.TextDelta{Delta: "a"},
		chunk.ToolInputError{ToolCallID: "c1", ToolName: "search", Error: "e"}, chunk.TextDelta{Delta: "b"},
	},
}

// A call that is hidden divides the texts as in the snapshot.
func TestHiddenCallsDivideTexts(t *testing.T) {
	compiled, err := view.View{Types: []chunk.Type{"*"}, Except: []chunk.Type{chunk.TypeToolStart}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	for name, bodies := range hiddenCallLogs {
		recs := recordsOf(t, append([]chunk.Body{chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}}, bodies...), nil)
		m, c, removed := shown{New("msg-1", Options{Major: 7}), compiled.Chat()}, newClient(7), New("msg-1", Options{}).BeginReplay()
		for _, rec := range recs {
			removed.FindRemoved(rec)
			if err := c.read(m.Append(nil, rec)); err != nil {
				t.Fatal(err)
			}
		}
		_, parts, err := answerParts(recs, func(i int) bool { return removed.replay.IsRemoved(&recs[i]) })
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, p := range c.parts {
			got = append(got, p.member["text"])
		}
		for _, raw := range parts {
			if text := rawjson.Get(raw, "text"); text != nil {
				want = append(want, string(text))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the client has %q, the snapshot %q", name, got, want)
		}
	}
}

// recordsOf returns a log. The records at some indexes are of a sub-agent.
func recordsOf(t *testing.T, bodies []chunk.Body, ofChild []int) []chunk.Record {
	t.Helper()
	var recs []chunk.Record
	last := map[chunk.Session]chunk.Ordinal{}
	for i, body := range bodies {
		s := session
		if slices.Contains(ofChild, i) {
			s = session.Child("k1")
		}
		c := chunk.Chunk{AgentID: s.ID, AgentType: "planner", Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		last[s]++
		recs = append(recs, chunk.Record{Seq: chunk.Seq(i + 1), Session: s, Epoch: 1, Ordinal: last[s], Type: c.Type(), Data: data})
	}
	return recs
}

// A replay does not have the output of a sub-agent whose start was removed, whether the log still has the start or not: the snapshot does not have it either.
func TestReplayOfARemovedSubAgent(t *testing.T) {
	recs := recordsOf(t, []chunk.Body{
		chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "a"},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "subagent__x", Arguments: emptyInput}, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c1"},
		chunk.RunStarted{RunID: "child", Epoch: 1, Mode: "execute"}, chunk.TextDelta{Delta: "removed"},
		chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 3, Last: 4}}}, chunk.TextDelta{Delta: "b"}, chunk.StreamEnd{StreamID: "s1"},
	}, []int{4, 5})
	for _, log := range [][]chunk.Record{recs, slices.Concat(recs[:2], recs[4:])} {
		c := newClient(7)
		if err := c.read(New("msg-1", Options{Major: 7}).Replay(nil, log)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range c.parts {
			got = append(got, p.member["text"])
		}
		if want := []string{`"a"`, `"b"`}; !slices.Equal(got, want) {
			t.Errorf("the client has %q, want %q", got, want)
		}
	}
}
