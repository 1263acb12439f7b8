package kortyx

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/turn"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// write returns the frames of each record.
func write(log []chunk.Record) []string {
	w := NewWriter(nil)
	out := make([]string, len(log))
	for i, rec := range log {
		out[i] = string(w.Append(nil, rec))
	}
	return out
}

// Whatever the log, each record has frames that Kortyx's reader accepts, and chunks that its schema and its reducer accept. A process that continues after any
// record writes the same bytes.
func TestFramesOfAnyLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, false)
		g.turn()
		frames := write(g.log)
		var c client
		body := ""
		for i, f := range frames {
			checkFrames(t, f)
			if f != "" && !strings.Contains(f, "\n\nid: "+g.log[i].Cursor().String()+"\n\n") {
				t.Fatalf("no cursor in %q", f)
			}
			if body += f; strings.Contains(f, "[DONE]") {
				c.follow(t, body)
				body = ""
			}
		}
		c.follow(t, body)
		if s := c.streams["state:s1"]; s != nil && !sameJSON(t, member(s.AppendData(nil), stateRoot), g.doc) {
			t.Fatalf("the client has the state %s, want %s", s.AppendData(nil), g.doc)
		}
		if strings.Contains(strings.Join(frames, ""), "marker") {
			t.Fatalf("a suspension_marker left the server")
		}
		cut := rapid.IntRange(0, len(g.log)).Draw(t, "cut")
		primed := NewWriter(nil)
		var dropped []byte
		for _, rec := range g.log[:cut] {
			dropped = primed.Append(dropped[:0], rec)
		}
		for i, rec := range g.log[cut:] {
			if got := string(primed.Append(nil, rec)); got != frames[cut+i] {
				t.Fatalf("record %d after a cut at %d:\n got %q\nwant %q", cut+i, cut, got, frames[cut+i])
			}
		}
	})
}

// Records in another spelling, which the fast path does not read, have the same frames.
func TestFastPathWritesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, false)
		g.turn()
		spelled := slices.Clone(g.log)
		for i := range spelled {
			if spelled[i].Type == chunk.TypeTextDelta || spelled[i].Type == chunk.TypeThinking {
				spelled[i].Data = slices.Concat([]byte("{ "), spelled[i].Data[1:])
			}
		}
		if got, want := write(spelled), write(g.log); !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	})
}

// The same records again, and those of a fenced writer, have no frames.
func TestRecordsAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, true)
		g.turn()
		w := NewWriter(nil)
		for i, rec := range g.log {
			w.Append(nil, rec)
			again := g.log[rapid.IntRange(0, i).Draw(t, "again")]
			if frames := w.Append(nil, again); len(frames) > 0 {
				t.Fatalf("again %q", frames)
			}
		}
	})
}

// What a client shows is what the snapshot has: its state at every record, its structured data and its text.
func TestClientShowsTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, true)
		g.turn()
		var c client
		f := fold.New(session)
		p := &printer{}
		w := machineOf(p)
		body := ""
		for _, rec := range g.log {
			frames := string(w.Append(nil, rec))
			body += frames
			if strings.Contains(frames, "[DONE]") {
				c.follow(t, body)
				body = ""
			}
			if rec.Session != session {
				continue
			}
			if err := f.Apply(rec); err != nil {
				t.Fatalf("%v", err)
			}
			if rec.Type == chunk.TypeStatePatch && p.state.shown {
				if got, want := p.state.client.AppendData(nil), p.state.doc; !sameJSON(t, member(got, stateRoot), want) || !sameJSON(t, want, f.Snapshot().State) {
					t.Fatalf("after %s: the client has %s, the writer %s, the snapshot %s", rec.Data, got, want, f.Snapshot().State)
				}
			}
		}
		c.follow(t, body)
		if s := c.streams["state:s1"]; s != nil && p.state.shown && !sameJSON(t, member(s.AppendData(nil), stateRoot), f.Snapshot().State) {
			t.Fatalf("the client has %s, want %s", s.AppendData(nil), f.Snapshot().State)
		}
		want := ""
		var join textState
		for i, m := range f.Snapshot().AllMessages() {
			for j := range m.Parts {
				if p := m.Parts[j]; m.Role == fold.Assistant && p.Kind == fold.PartText {
					want = chunk.Concat(want, join.separated(fmt.Sprint(i, j), p.Text))
				}
				if p := m.Parts[j]; p.Data != nil && p.Data.ID != nil && !reserved[*p.Data.ID] {
					if s := c.streams[*p.Data.ID]; s == nil || !sameJSON(t, s.AppendData(nil), dialect.Read(p.Data.Value).Peek("data")) {
						t.Fatalf("stream %q of the snapshot has %s", *p.Data.ID, p.Data.Value)
					}
				}
			}
		}
		got := ""
		var read textState
		for _, m := range c.chunks {
			if m.Or("type", "") == "text-delta" {
				got = chunk.Concat(got, read.separated(blockKey(m), m.Or("delta", "")))
			}
		}
		if got != want {
			t.Fatalf("the client shows %q, want %q", got, want)
		}
	})
}

// sameJSON compares values, whatever the order of members. Numbers and strings are compared as they are written, except for the spelling of characters.
func sameJSON(tb failer, a, b []byte) bool {
	tb.Helper()
	return reflect.DeepEqual(plain(a), plain(b))
}

func plain(v []byte) any {
	if s, ok := dialect.Text(v); ok {
		return "s" + s
	}
	switch {
	case len(v) == 0:
		return nil
	case v[0] == '{':
		m := map[string]any{}
		for name, value := range rawjson.Members(v) {
			m[string(name.Bytes())] = plain(value)
		}
		return m
	case v[0] == '[':
		list := []any{}
		for e := range elements(v) {
			list = append(list, plain(e))
		}
		return list
	}
	return string(bytes.TrimSpace(v))
}

// Writing a log for Kortyx and translating it back keeps the text, the calls and their outcomes, the requests to the user and the end.
func TestTranslationKeepsTheTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, true)
		g.turn()
		tr := New(codec.Run{Session: "s1", AgentType: "planner"})
		var got, want []string
		var ending chunk.Type
		gotText := ""
		take := func(chunks []chunk.Chunk) {
			for _, c := range chunks {
				if err := c.Validate(); err != nil {
					t.Fatalf("%v", err)
				}
				if d, ok := chunk.As[chunk.TextDelta](c); ok {
					gotText = chunk.Concat(gotText, d.Delta)
				}
				if c.Type().Control() {
					ending = c.Type()
				}
				got = append(got, facts(c, nil)...)
			}
		}
		var reader client
		body := ""
		w := NewWriter(nil)
		for _, rec := range g.log {
			frames := string(w.Append(nil, rec))
			body += frames
			if !strings.Contains(frames, "[DONE]") {
				continue
			}
			chunks, _ := readStream(body)
			reader.follow(t, body)
			body = ""
			for _, raw := range chunks {
				raw = strings.ReplaceAll(raw, `"resumeToken":""`, `"resumeToken":"a token of the agent"`) // a Writer writes empty ones
				chunks, err := tr.Translate([]byte(raw))
				if err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				take(chunks)
			}
			if rec.Type == chunk.TypeRunInterrupted {
				return // a response of Kortyx does not say that it can be continued
			}
			take(tr.End())
		}
		if len(body) > 0 {
			return // the rest is not written yet
		}
		if strings.Contains(strings.Join(got, "\n"), "a token of the agent") {
			t.Fatalf("a token is in the log: %v", got)
		}
		var last chunk.Type
		denied := map[string]bool{}
		for _, rec := range g.log {
			if rec.Session != session {
				continue
			}
			c, err := rec.Decode()
			if err != nil {
				t.Fatalf("%v", err)
			}
			want = append(want, facts(c, denied)...)
			if c.Type().Control() {
				last = c.Type()
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if last != ending {
			t.Fatalf("it ends with %s, want %s", ending, last)
		}
		wantText := ""
		var join textState
		for _, m := range reader.chunks {
			if m.Or("type", "") == "text-delta" {
				wantText = chunk.Concat(wantText, join.separated(blockKey(m), m.Or("delta", "")))
			}
		}
		if gotText != wantText {
			t.Fatalf("text %q, want %q", gotText, wantText)
		}
	})
}

// facts returns what a translation keeps of a chunk.
func facts(c chunk.Chunk, denied map[string]bool) []string {
	switch b := c.Body.(type) {
	case chunk.ToolStart:
		if b.ToolName != turn.FinishTool {
			return []string{fmt.Sprintf("call %s %s %s", b.ToolCallID, b.ToolName, b.Arguments)}
		}
	case chunk.ToolEnd:
		switch {
		case b.ToolName == turn.FinishTool || denied[b.ToolCallID]:
		case b.Error != nil:
			return []string{fmt.Sprintf("failed %s %q", b.ToolCallID, *b.Error)}
		default:
			result := fmt.Sprint(plain(b.Result))
			if !strings.ContainsAny(string(b.Result[:1]), `"[{`) {
				result = "s" + string(b.Result) // a scalar becomes the text of the content
			}
			return []string{fmt.Sprintf("result %s %s", b.ToolCallID, result)}
		}
	case chunk.ToolOutputError:
		return []string{fmt.Sprintf("failed %s %q", b.ToolCallID, b.Error)}
	case chunk.ToolInputError:
		return []string{fmt.Sprintf("failed %s %q", b.ToolCallID, b.Error)}
	case chunk.ToolApprovalRequest:
		return []string{fmt.Sprintf("approval %s %s %s %s", b.ToolCallID, b.ToolName, b.ApprovalID, b.Input)}
	case chunk.ToolApprovalResponse:
		if !b.Approved {
			denied[b.ToolCallID] = true
			reason := "Denied."
			if b.Reason != nil {
				reason = *b.Reason
			}
			return []string{fmt.Sprintf("failed %s %q", b.ToolCallID, reason)}
		}
	case chunk.StreamFailed:
		text := b.Error
		if text == "" {
			text = "the agent failed without saying why"
		}
		return []string{fmt.Sprintf("failed with %q", text)}
	}
	return nil
}

func elements(v []byte) func(func([]byte) bool) { return rawjson.Elements(v) }

// A client that has frames of removed records may continue with a process that never had these records.
func TestProcessWithoutRemovedRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, false)
		g.turn()
		var cuts []int // after which the log tells what was removed
		removed := map[chunk.Ordinal]bool{}
		for i, rec := range g.log {
			if rec.Type != chunk.TypeTruncated {
				continue
			}
			c, err := rec.Decode()
			if err != nil {
				t.Fatalf("%v", err)
			}
			b, _ := chunk.As[chunk.Truncated](c)
			for n := b.Removed[0].First; n <= b.Removed[0].Last; n++ {
				removed[chunk.Ordinal(n)] = true
			}
			cuts = append(cuts, i+1)
		}
		if len(cuts) == 0 {
			return
		}
		from := cuts[len(cuts)-1]
		cut := rapid.IntRange(from, len(g.log)).Draw(t, "cut")
		frames := write(g.log[:cut])
		other := NewWriter(nil)
		for _, rec := range g.log[:cut] {
			if rec.Session != session || !removed[rec.Ordinal] {
				other.Append(nil, rec)
			}
		}
		for _, rec := range g.log[cut:] {
			frames = append(frames, string(other.Append(nil, rec)))
		}
		var c client
		body := ""
		for _, f := range frames {
			checkFrames(t, f)
			if body += f; strings.HasSuffix(f, "[DONE]\n\n") {
				c.follow(t, body)
				body = ""
			}
		}
		c.follow(t, body)
	})
}

// Whatever is hidden, the rest is what a client accepts, and a hidden record has nothing but the end of a text.
func TestHideAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, false)
		g.turn()
		w := NewWriter(nil)
		var c client
		body := ""
		for i, rec := range g.log {
			var frames string
			if i > 0 && !rec.Type.Control() && rapid.IntRange(0, 2).Draw(t, "hide") == 0 {
				frames = string(w.Hide(nil, rec))
				chunks, _ := readStream(frames)
				if len(chunks) > 1 || len(chunks) == 1 && !strings.HasPrefix(chunks[0], `{"type":"text-end"`) && !strings.Contains(chunks[0], `"streamId":"reasoning:`) {
					t.Fatalf("hidden %s has %q", rec.Data, frames)
				}
			} else {
				frames = string(w.Append(nil, rec))
			}
			checkFrames(t, frames)
			if body += frames; strings.HasSuffix(frames, "[DONE]\n\n") {
				c.follow(t, body)
				body = ""
			}
		}
		c.follow(t, body)
	})
}

// A client that continues a turn, with what it has or from another dialect, gets responses that it accepts and shows the same data.
func TestResumedClient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t, rapid.Bool().Draw(t, "intact"))
		g.turn()
		cut := rapid.IntRange(1, len(g.log)).Draw(t, "cut")
		w := NewWriter(nil)
		var same, fresh client
		follow := func(body string, clients ...*client) {
			for _, c := range clients {
				c.follow(t, body)
			}
		}
		body := ""
		for _, rec := range g.log[:cut] {
			frames := string(w.Append(nil, rec))
			if body += frames; strings.HasSuffix(frames, "[DONE]\n\n") {
				follow(body, &same)
				body = ""
			}
		}
		follow(body, &same)
		body = string(w.Resume(nil))
		if !strings.HasPrefix(body, "data: {\"type\":\"session\"") || strings.Contains(body, "\n\nid: ") || w.Done() {
			t.Fatalf("resumed with %q, done %t", body, w.Done())
		}
		for _, rec := range g.log[cut:] {
			frames := string(w.Append(nil, rec))
			checkFrames(t, frames)
			if body += frames; strings.HasSuffix(frames, "[DONE]\n\n") {
				follow(body, &same, &fresh)
				body = ""
			}
		}
		follow(body, &same, &fresh)
		for _, id := range fresh.order {
			got, want := fresh.streams[id], same.streams[id]
			if !want.HasUnset() && !sameJSON(t, got.AppendData(nil), want.AppendData(nil)) {
				t.Fatalf("stream %q has %s, want %s", id, got.AppendData(nil), want.AppendData(nil))
			}
		}
		if s := fresh.streams["state:s1"]; s != nil && !sameJSON(t, member(s.AppendData(nil), stateRoot), g.doc) {
			t.Fatalf("the client has the state %s, want %s", s.AppendData(nil), g.doc)
		}
	})
}
