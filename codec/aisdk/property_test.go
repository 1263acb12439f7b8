package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

func (a *generator) options() Options {
	return Options{
		Major: []int{0, 7}[a.pick("major", 2)], SubAgents: []SubAgentContent{Drop, Drop, Inline, Data}[a.pick("content", 4)],
		ClientTool: isClientTool,
	}
}

// live returns a client that reads from the start: it posts when calls are pending, and gets the next response.
func live(t *rapid.T, opt Options, recs []chunk.Record) *client {
	m, c := New("msg-1", opt), newClient(opt.Major)
	for _, rec := range recs {
		if m.Done() {
			m.Continue()
			c.open()
		}
		show(t, c, m.Append(nil, rec))
		if m.Done() != c.ended {
			t.Fatalf("done %v, the client got the end: %v", m.Done(), c.ended)
		}
	}
	return c
}

func show(t *rapid.T, c *client, frames []byte) {
	t.Helper()
	if err := c.read(frames); err != nil {
		t.Fatalf("%v\nthe record's frames:\n%s\nthe message so far:\n%s", err, frames, c)
	}
}

// String returns the log for an error.
func (a *generator) String() string {
	var b strings.Builder
	for _, rec := range a.log {
		fmt.Fprintf(&b, "%d %s/%d %s\n", rec.Seq, rec.Session.ID, rec.Ordinal, rec.Data)
	}
	return b.String()
}

func (c *client) String() string {
	var b strings.Builder
	for _, p := range c.parts {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// replayed returns a client that connects after n records.
func replayed(t *rapid.T, opt Options, recs []chunk.Record, n int) *client {
	m, c := New("msg-1", opt), newClient(opt.Major)
	show(t, c, m.Replay(nil, recs[:n]))
	for _, rec := range recs[n:] {
		if m.Done() { // the response has ended; the client posts again
			m.Continue()
			c.open()
		}
		show(t, c, m.Append(nil, rec))
	}
	return c
}

// TestEveryClientBuilds checks that a client accepts all frames, whenever it connects and whatever the worker writes.
func TestEveryClientBuilds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		live(t, opt, a.log)
		replayed(t, opt, a.log, rapid.IntRange(0, len(a.log)).Draw(t, "cut"))
	})
}

// TestClientPostsOnce: a client with the predicates of the SDK posts when all calls have answers, and then not again, for any end of the answer. Otherwise it
// would post indefinitely.
func TestClientPostsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		m, c := New("msg-1", opt), newClient(opt.Major)
		for _, rec := range a.log {
			if m.Done() {
				asks := c.asks() && opt.SubAgents != Inline
				c.answers()
				if asks && !c.posts() {
					t.Fatalf("all calls have answers, and the client does not post, before %s:\n%s\nof %s", rec.Type, c, a)
				}
				m.Continue()
				c.open()
			}
			show(t, c, m.Append(nil, rec))
			if m.Done() && c.posts() {
				t.Fatalf("posts again after %s:\n%s\nof %s", rec.Type, c, a)
			}
		}
	})
}

// respelled returns the record with escapes in the names of members, and white space after them.
func respelled(rec chunk.Record) chunk.Record {
	if rec.Type == chunk.TypeCustom {
		return rec // its data has members with the same names, and is copied to the output
	}
	for _, name := range []string{
		"type", "agentId", "step", "delta", "content", "isComplete", "toolCallId", "toolName", "arguments", "result", "error", "errorDetail", "approvalId",
		"eventName", "subSessionId", "callId", "usage", "inputTokens", "finishReason", "runId", "mode", "removed",
	} {
		rec.Data = bytes.ReplaceAll(rec.Data, []byte(`"`+name+`":`), fmt.Appendf(nil, "\"\\u%04x%s\"\t: ", name[0], name[1:]))
	}
	return rec
}

// TestSpellingChangesNothing checks that the frames do not depend on the spelling of a record's JSON.
func TestSpellingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		if opt.SubAgents == Data {
			opt.SubAgents = Drop // with this option records are copied to the output
		}
		plain, odd := New("msg-1", opt), New("msg-1", opt)
		for _, rec := range a.log {
			want := plain.Append(nil, rec)
			if got := odd.Append(nil, respelled(rec)); !bytes.Equal(got, want) {
				t.Fatalf("%s\n got %s\nwant %s", rec.Data, got, want)
			}
		}
	})
}

// TestTailIsTheSame: a client that resumes at any cursor gets the same bytes as other clients get after it.
func TestTailIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		m := New("msg-1", opt)
		var frames []string
		for _, rec := range a.log {
			frames = append(frames, string(m.Append(nil, rec)))
		}
		for cut := 1; cut <= len(a.log); cut++ {
			m := New("msg-1", opt)
			for _, rec := range a.log[:cut] {
				m.Advance(rec)
			}
			for i, rec := range a.log[cut:] {
				if got := string(m.Append(nil, rec)); got != frames[cut+i] {
					t.Fatalf("cut at %d, record %d:\n got %q\nwant %q", cut, cut+i, got, frames[cut+i])
				}
			}
		}
	})
}

// TestCutBetweenFrames: a cursor is the end of a record, so a connection that breaks between any two frames is resumed without loss and duplicates. Frames
// after the last cursor are sent again; a client that has shown them must not resume there, and servers write all frames of a record at once.
func TestCutBetweenFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		m, whole := New("msg-1", opt), newClient(opt.Major)
		var frames []byte
		for i := 0; i < len(a.log) && !m.Done(); i++ {
			frames = m.Append(frames, a.log[i])
		}
		show(t, whole, frames)
		events := strings.SplitAfter(string(frames), "\n\n")
		events = events[:len(events)-1]
		n := rapid.IntRange(0, len(events)).Draw(t, "events")
		for n > 0 && !strings.HasPrefix(events[n-1], "id: ") {
			n--
		}
		c := newClient(opt.Major)
		show(t, c, []byte(strings.Join(events[:n], "")))
		m = New("msg-1", opt)
		for _, rec := range a.log {
			if before(rec.Seq, c.lastID) {
				m.Advance(rec)
				continue
			}
			if m.Done() {
				break
			}
			show(t, c, m.Append(nil, rec))
		}
		if got, want := c.String(), whole.String(); got != want {
			t.Fatalf("resumed after %q:\n%s\nwant:\n%s", c.lastID, got, want)
		}
	})
}

// before reports whether a record is at or before the cursor of a client.
func before(seq chunk.Seq, cursor string) bool {
	at, ok := chunk.ParseCursor(cursor)
	return ok && seq <= at.Seq
}

// TestReplayBuildsTheSame checks that a replay builds the same message as the live stream.
func TestReplayBuildsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		now := live(t, opt, a.log)
		later := replayed(t, opt, a.log, rapid.IntRange(0, len(a.log)).Draw(t, "cut"))
		if now.reload || later.reload {
			return // the client must send its request again
		}
		if got, want := comparableText(a, later.parts, opt), comparableText(a, now.parts, opt); got != want {
			t.Fatalf("replayed:\n%s\nwant as live:\n%s\nof %s", got, want, a)
		}
	})
}

// TestTailBuildsTheSame checks that a client that resumes at a cursor builds the same message as one without an interruption.
func TestTailBuildsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		cut := rapid.IntRange(1, len(a.log)).Draw(t, "cut")
		seen, m, c := New("msg-1", opt), New("msg-1", opt), newClient(opt.Major)
		for _, rec := range a.log[:cut] {
			if c.ended {
				c.open()
			}
			show(t, c, seen.Append(nil, rec))
			m.Advance(rec)
		}
		if c.ended {
			c.open()
		}
		show(t, c, m.Replay(nil, a.log[cut:]))
		whole := live(t, opt, a.log)
		if whole.reload || c.reload {
			return // the client must reload
		}
		if got, want := comparableText(a, c.parts, opt), comparableText(a, whole.parts, opt); got != want {
			t.Fatalf("after %d:\n%s\nwant:\n%s\nof %s", cut, got, want, a)
		}
	})
}

// TestTextEndsBeforeStep: a client has a text that is open, the record that ended it was removed, and a question of a sub-agent begins a step. The text ends before
// that step: clients of version 6 discard open texts at finish-step, and fail at a later text-end.
func TestTextEndsBeforeStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.start("execute", chunk.InputMessage{Content: "hello"})
		a.step = 1
		a.write(chunk.StepStart{})
		a.write(chunk.ToolStart{ToolCallID: "c1", ToolName: "subagent__x", Arguments: chunk.Value(`{}`)})
		a.write(chunk.SubagentStart{SubSessionID: "k1", SubAgentType: "x", CallID: "c1"})
		a.write(chunk.TextDelta{Delta: "between "})
		cut := len(a.log)
		ended := a.write(chunk.File{URL: "https://example.org/a.png", MediaType: "image/png"})
		a.writeAs("k1", chunk.ToolApprovalRequest{ToolCallID: "q1", ToolName: "delete", ApprovalID: "a1", Input: chunk.Value(`{}`)})
		a.write(chunk.Truncated{Removed: []chunk.OrdinalRange{{First: int64(ended.Ordinal), Last: int64(ended.Ordinal)}}})
		for _, major := range []int{6, 7} {
			opt := Options{Major: major, SubAgents: Inline}
			m, c := New("msg-1", opt), newClient(major)
			for _, rec := range a.log[:cut] {
				show(t, c, m.Append(nil, rec))
			}
			show(t, c, m.Replay(nil, a.log[cut:]))
		}
	})
}

// TestReplayInPieces checks that a replay of records that are not kept, and whose frames are sent whenever they are complete, has the same bytes.
func TestReplayInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.turn()
		opt := a.options()
		cut := rapid.IntRange(0, len(a.log)).Draw(t, "cut")
		whole, m := New("msg-1", opt), New("msg-1", opt)
		for _, rec := range a.log[:cut] {
			whole.Advance(rec)
			m.Advance(rec)
		}
		want := whole.Replay(nil, a.log[cut:])
		var shared []byte // as the buffer of a reader: the next record overwrites it
		each := func(do func(rec chunk.Record, shown bool) bool) {
			for _, rec := range a.log[cut:] {
				shared = append(shared[:0], rec.Data...)
				rec.Data = shared
				do(rec, true)
			}
			clear(shared)
		}
		r := m.BeginReplay()
		for rec := range each {
			r.FindRemoved(rec)
		}
		var got []byte
		rest := r.Write(nil, each, func(frames []byte) []byte {
			got = append(got, frames...)
			return frames[:0]
		})
		got = append(got, rest...)
		if !bytes.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s\nof %s", got, want, a)
		}
		if g, w := string(m.Finish(nil)), string(whole.Finish(nil)); g != w {
			t.Fatalf("then got %s, want %s", g, w)
		}
	})
}

// TestSnapshotHasTheSame checks that a client builds the message of the snapshot.
func TestSnapshotHasTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.plain = rapid.Bool().Draw(t, "plain")
		a.turn()
		opt := Options{Major: []int{0, 7}[a.pick("major", 2)], ClientTool: isClientTool}
		want := comparableText(a, snapshotParts(t, a.log), opt)
		if c := live(t, opt, a.log); !c.reload {
			if got := comparableText(a, withoutChildCalls(c.parts), opt); got != want {
				t.Fatalf("live:\n%s\nsnapshot:\n%s", got, want)
			}
		}
		if got := comparableText(a, withoutChildCalls(replayed(t, opt, a.log, len(a.log)).parts), opt); got != want {
			t.Fatalf("replayed:\n%s\nsnapshot:\n%s", got, want)
		}
	})
}

// withoutChildCalls returns the parts without the pending calls of sub-agents, which are in the snapshots of the sub-agents' sessions, and without steps that
// were started for them.
func withoutChildCalls(parts []*uiPart) []*uiPart {
	theirs := func(p *uiPart) bool { return strings.HasPrefix(p.member["toolCallId"], `"k`) }
	var kept []*uiPart
	for i, p := range parts {
		apart := p.typ == "step-start" && i+1 < len(parts) && theirs(parts[i+1])
		if !apart && !theirs(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// comparableText returns the message without the members that a client of version 6, or any client, does not get. doc.go lists them.
func comparableText(a *generator, parts []*uiPart, opt Options) string {
	var lines []string
	for _, p := range parts {
		if a.stepless && p.typ == "step-start" {
			continue // the message writer adds it after a pending call, so that the client does not post again
		}
		q := &uiPart{typ: p.typ, member: map[string]string{}}
		for name, v := range p.member {
			switch {
			case strings.HasPrefix(name, "approval") && opt.Major < 7:
			case name == "state" && v == `"approval-responded"` && opt.Major < 7:
				q.member[name] = `"input-available"`
			case name == "state" && v == `"approval-requested"` && opt.Major < 7:
				q.member[name] = `"input-available"`
			case name == "filename" && p.typ == "file":
			case name == "providerExecuted" && strings.Contains(p.member["state"], `"input-`):
			case name == "rawInput":
			default:
				q.member[name] = v
			}
		}
		line := q.String()
		if n := len(lines); n > 0 && line == "step-start" && lines[n-1] == line {
			continue
		}
		lines = append(lines, line)
	}
	if n := len(lines); n > 0 && lines[n-1] == "step-start" {
		lines = lines[:n-1]
	}
	return strings.Join(lines, "\n")
}

// snapshotParts returns the parts of the answer in the snapshot of a log of one turn.
func snapshotParts(t *rapid.T, log []chunk.Record) []*uiPart {
	t.Helper()
	return lastAnswer(t, log, "msg-1")
}

// lastAnswer returns the parts of the answer that the snapshot of a log ends with.
func lastAnswer(t *rapid.T, log []chunk.Record, id string) []*uiPart {
	t.Helper()
	removed := New(id, Options{}).BeginReplay()
	for _, rec := range log {
		removed.FindRemoved(rec)
	}
	got, raws, err := answerParts(log, func(i int) bool { return removed.replay.IsRemoved(&log[i]) })
	if err != nil {
		t.Fatal(err)
	}
	if got != "" && got != id {
		t.Fatalf("the answer is %s", got)
	}
	var parts []*uiPart
	for _, raw := range raws {
		parts = append(parts, partOf(t, raw))
	}
	return parts
}

// TestStreamIDIsReused: a turn does not depend on the structured data of the previous turn. The snapshot contains that turn, and the stream does not; both have
// the same parts.
func TestStreamIDIsReused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newGenerator(t)
		a.plain = true
		a.start("execute", chunk.InputMessage{Content: "hello"})
		for range 1 + a.pick("before", 6) {
			a.structured()
		}
		for id := range 3 { // an incomplete value continues in the next turn, see doc.go
			a.write(chunk.Custom{EventName: structured.PieceEvent, Data: chunk.Value(fmt.Sprintf(`{"type":"structured-data","streamId":"d%d","dataType":"t","kind":"final","data":0}`, id))})
		}
		a.write(chunk.StreamEnd{StreamID: "s1"})
		second := len(a.log)
		a.epoch, a.run = a.epoch+1, a.run+1
		a.start("execute", chunk.InputMessage{Content: "again"})
		for range 1 + a.pick("now", 8) {
			a.structured()
		}
		c := newClient(0)
		m := New("msg-3", Options{})
		for _, rec := range a.log[second:] {
			show(t, c, m.Append(nil, rec))
		}
		if got, want := comparableText(a, c.parts, Options{}), comparableText(a, lastAnswer(t, a.log, "msg-3"), Options{}); got != want {
			t.Fatalf("stream:\n%s\nsnapshot:\n%s\nof %s", got, want, a)
		}
	})
}

// partOf reads a part of a snapshot.
func partOf(t *rapid.T, raw []byte) *uiPart {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	p := &uiPart{member: map[string]string{}}
	for name, v := range m {
		switch name {
		case "type":
			p.typ = strings.Trim(string(v), `"`)
		case "approval":
			var in map[string]json.RawMessage
			if err := json.Unmarshal(v, &in); err != nil {
				t.Fatal(err)
			}
			for name, v := range in {
				p.set("approval."+name, v)
			}
		default:
			p.set(name, v)
		}
	}
	return p
}
