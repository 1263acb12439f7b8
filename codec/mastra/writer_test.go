package mastra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/chunktest"
	"github.com/tailrace/tailrace/internal/turn"
)

// primed returns the frames of a new Writer for each record after the first n, which the client has.
func primed(messageID string, records []chunk.Record, n int) events {
	e := write(messageID, records)
	w := NewWriter(messageID)
	for _, rec := range records[:n] {
		w.Append(nil, rec)
	}
	for i := n; i < len(records); i++ {
		e.frames[i] = w.Append(nil, records[i])
	}
	return e
}

// TestPriming checks that a client that reconnects at any record gets the bytes that it would have got, also from a server that never got the records that a
// later one removed.
func TestPriming(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t)
		g.crashes = true
		g.turn()
		messageID := "msg-1"
		live := write(messageID, g.records)
		cut := g.pick("cut", len(g.records)+1)
		again := primed(messageID, g.records, cut)
		if !bytes.Equal(live.body(), again.body()) {
			t.Fatalf("cut at %d\n got %s\nwant %s", cut, again.body(), live.body())
		}
		resumed := NewWriter(messageID)
		for i, rec := range g.records {
			if i == cut {
				if first := string(resumed.Resume(nil)); i > 0 && !strings.HasPrefix(strings.TrimPrefix(first, "data: "), `{"type":"start"`) {
					t.Fatalf("another response begins with %q", first)
				}
			}
			if got := resumed.Append(nil, rec); i > 0 && !bytes.Equal(got, live.frames[i]) && !bytes.HasSuffix(live.frames[i], got) {
				t.Fatalf("resumed at %d, record %d\n got %s\nwant %s", cut, i, got, live.frames[i])
			}
		}
		late := write(messageID, g.survivors())
		whole := map[chunk.Seq][]byte{}
		for i, rec := range live.records {
			whole[rec.Seq] = live.frames[i]
		}
		var mark chunk.Seq
		for _, rec := range g.records {
			if rec.Type == chunk.TypeTruncated {
				mark = rec.Seq
			}
		}
		for i, rec := range late.records {
			if rec.Seq > mark && !bytes.Equal(late.frames[i], whole[rec.Seq]) {
				t.Fatalf("record %d %s\n got %s\nwant %s\n%s", rec.Seq, rec.Data, late.frames[i], whole[rec.Seq], g)
			}
		}
	})
}

// String returns the log.
func (g *generator) String() string {
	var b strings.Builder
	for _, rec := range g.records {
		fmt.Fprintf(&b, "%d %s/%d %s\n", rec.Seq, rec.Session.ID, rec.Ordinal, rec.Data)
	}
	return b.String()
}

// TestFraming checks that no client loses a chunk: each is a frame of one line, the cursor of a record follows its chunks in a frame of its own, and [DONE] is the
// last frame of a response.
func TestFraming(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t)
		g.crashes = true
		g.turn()
		w := NewWriter("msg-1")
		for _, rec := range g.records {
			before := w.Done()
			frames := string(w.Append(nil, rec))
			chunks, ends := chunksIn(t, []byte(frames))
			if ends != (w.Done() && !before) {
				t.Fatalf("done %v after %v, and the client got the end: %v", w.Done(), before, ends)
			}
			frames = strings.TrimSuffix(frames, "data: [DONE]\n\n")
			cursor := "id: " + rec.Cursor().String() + "\n\n"
			if (len(chunks) > 0 || ends) != strings.HasSuffix(frames, cursor) || strings.Count(frames, "\nid: ")+strings.Count(frames, "id: ") > 2 {
				t.Fatalf("the cursor %q is not the last frame of %q", cursor, frames)
			}
		}
	})
}

// TestClientRules checks what the client requires of the order of chunks (MF-4, MF-5): in each response, a piece of arguments or an outcome follows the
// start of the call, a delta or an end follows the start of its block, and a step has a message id.
func TestClientRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t)
		g.crashes = true
		g.turn()
		r := rules{calls: map[string]string{}, blocks: map[string]bool{}}
		for _, frames := range write("msg-1", g.records).frames {
			chunks, ends := chunksIn(t, frames)
			for _, raw := range chunks {
				if err := r.check(raw); err != nil {
					t.Fatalf("%v: %s\n%s", err, raw, g)
				}
			}
			if ends {
				clear(r.calls)
			}
		}
	})
}

type rules struct {
	calls  map[string]string // by agent and id: the last chunk of the call
	blocks map[string]bool
	begun  bool
}

func (r *rules) check(raw []byte) error {
	var c struct {
		Type    string         `json:"type"`
		RunID   string         `json:"runId"`
		Payload map[string]any `json:"payload"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // values have numbers of any size
	if err := d.Decode(&c); err != nil {
		return err
	}
	if !r.begun && c.Type != "start" {
		return fmt.Errorf("%s before start", c.Type)
	}
	r.begun = true
	if c.Type == "tool-output" {
		if inner, ok := c.Payload["output"].(map[string]any); ok && inner["from"] != nil {
			text, err := json.Marshal(inner)
			if err != nil {
				return err
			}
			return r.check(text)
		}
		return nil
	}
	agent := c.RunID
	if strings.HasPrefix(agent, "r") {
		agent = "root" // its runs are those of one agent
	}
	id := fmt.Sprintf("%s/%v", agent, c.Payload["toolCallId"])
	block := fmt.Sprintf("%s/%v", agent, c.Payload["id"])
	switch kind := c.Type; {
	case strings.HasSuffix(kind, "text-start"), strings.HasSuffix(kind, "reasoning-start"):
		r.blocks[block] = true
	case strings.HasPrefix(kind, "text-"), strings.HasPrefix(kind, "reasoning-"):
		if !r.blocks[block] {
			return fmt.Errorf("%s without a start", kind)
		}
		if strings.HasSuffix(kind, "-end") {
			delete(r.blocks, block)
		}
	case kind == "tool-call-delta", kind == "tool-call-input-streaming-end":
		if r.calls[id] != "tool-call-input-streaming-start" && r.calls[id] != "tool-call-delta" {
			return fmt.Errorf("%s after %q", kind, r.calls[id])
		}
	case kind == "tool-result", kind == "tool-error", kind == "tool-output-denied", kind == "tool-call-approval":
		if r.calls[id] != "tool-call" && r.calls[id] != "tool-call-approval" {
			return fmt.Errorf("%s after %q", kind, r.calls[id])
		}
	case kind == "step-start" && agent == "root":
		if c.Payload["messageId"] != "msg-1" {
			return fmt.Errorf("a step without the id of the message: %v", c.Payload)
		}
	}
	if strings.HasPrefix(c.Type, "tool-") {
		r.calls[id] = c.Type
	}
	return nil
}

// TestTranslatedAgain checks that Translate of what Write makes of a log has the texts, reasoning, calls, sub-agents and errors of the log.
func TestTranslatedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGenerator(t)
		g.value = g.value.Filter(func(v chunk.Value) bool { return json.Unmarshal(v, new(any)) == nil }) // the comparison has no larger numbers
		g.words = g.words.Filter(utf8.ValidString)                                                       // the halves of a surrogate pair in two blocks are one character if Write has no chunk between them
		g.turn()
		if last := g.records[len(g.records)-1]; last.Type != chunk.TypeStreamPaused && !last.Type.Terminal() {
			g.emit(root.ID, chunk.StreamEnd{StreamID: root.ID})
		}
		before := map[string][]chunk.Record{}
		for _, rec := range g.records {
			before[rec.Session.ID] = append(before[rec.Session.ID], rec)
		}
		e := write("msg-1", g.records)
		after := log(t, translate(t, e.recording(t)))
		sameContent(t, before, after)
	})
}

// responses writes a log and returns the types of the chunks of each response.
func responses(t *testing.T, bodies ...any) (out []string) {
	t.Helper()
	w := NewWriter("msg-1")
	last := map[string]chunk.Ordinal{}
	seq, session := chunk.Seq(0), root.ID
	var types []string
	for _, b := range bodies {
		if id, ok := b.(string); ok {
			session = id
			continue
		}
		body, _ := b.(chunk.Body)
		c := chunk.Chunk{AgentID: session, AgentType: "planner", Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := root
		if session != root.ID {
			s = root.Child(session)
		}
		seq++
		last[session]++
		chunks, ends := chunksIn(t, w.Append(nil, chunk.Record{Seq: seq, Session: s, Epoch: 1, Ordinal: last[session], Type: c.Type(), Data: data}))
		for _, c := range chunks {
			types = append(types, label(c))
		}
		if ends {
			out, types = append(out, strings.Join(types, " ")), nil
		}
	}
	if len(types) > 0 {
		out = append(out, strings.Join(types, " ")+" …")
	}
	return out
}

// TestWrittenResponses checks where responses end: at an end, and where the user or the client must act, but not where the agent waits for sub-agents.
func TestWrittenResponses(t *testing.T) {
	run := chunk.RunStarted{RunID: "r", Mode: "execute", Input: []chunk.InputMessage{{Content: "Hi"}}}
	again := chunk.RunStarted{RunID: "r2", Mode: "continue"}
	end := chunk.StreamEnd{StreamID: root.ID}
	call := func(name string) chunk.ToolStart {
		return chunk.ToolStart{ToolCallID: "c1", ToolName: name, Arguments: chunk.Value(`{"q":1}`)}
	}
	outcome := chunk.ToolEnd{ToolCallID: "c1", ToolName: "x", Result: chunk.Value(`1`), ProviderExecuted: &serverSide}
	request := chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "x", ApprovalID: "r::c1", Input: chunk.Value(`{"q":1}`)}
	ofClient := chunk.ToolEnd{ToolCallID: "c1", ToolName: "page", Result: chunk.Value(`1`)}
	suspended := chunk.Custom{EventName: "mastra.tool-call-suspended", Data: chunk.Value(`{"type":"tool-call-suspended","payload":{"toolCallId":"c1","suspendPayload":{}}}`)}
	removal := func(ordinal int64) chunk.Truncated {
		return chunk.Truncated{Removed: []chunk.OrdinalRange{{First: ordinal, Last: ordinal}}}
	}
	code := turn.CodeAborted
	for _, c := range []struct {
		name string
		log  []any
		want []string
	}{
		{"an approval", []any{run, chunk.StepStart{}, request, chunk.StreamPaused{}, again, chunk.ToolApprovalResponse{ToolCallID: "c1", ToolName: "x", ApprovalID: "r::c1", Approved: true}, outcome, chunk.StepEnd{}, end}, []string{
			"start step-start tool-call tool-call-approval",
			"data-tool-approval-response tool-call tool-result step-finish finish",
		}},
		{"a tool of the client", []any{run, chunk.StepStart{}, call("page"), chunk.StreamPaused{}, again, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page", Result: chunk.Value(`1`)}, chunk.StepStart{}, chunk.TextDelta{Delta: "x"}, end}, []string{
			"start step-start tool-call step-finish finish",
			"data-tool-result step-start text-start text-delta text-end step-finish finish",
		}},
		{"sub-agents of workers", []any{
			run, chunk.StepStart{}, call("subagent__x"), chunk.StepEnd{}, chunk.RunPaused{RunID: "r", Reason: "suspended_awaiting_children"}, chunk.StreamPaused{},
			chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c1"}, "k1",
			chunk.RunStarted{RunID: "k", Mode: "execute", Parent: &chunk.Parent{SessionID: root.ID, CallID: "c1"}}, chunk.TextDelta{Delta: "x"}, chunk.StreamEnd{StreamID: "k1"}, root.ID,
			again, chunk.SubagentEnd{SubAgentType: "x", SubSessionID: "k1", CallID: "c1", Result: chunk.Value(`1`)}, outcome, end,
		}, []string{
			"start step-start tool-call step-finish data-run-paused tool-output(start) tool-output(text-start) tool-output(text-delta) tool-output(text-end) tool-output(finish) tool-result finish",
		}},
		{"an approval of a sub-agent", []any{
			run, call("subagent__x"), chunk.StreamPaused{}, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c1"}, "k1",
			chunk.RunStarted{RunID: "k", Mode: "execute"}, request, chunk.StreamPaused{}, chunk.RunStarted{RunID: "k2", Mode: "continue"}, outcome, chunk.StreamEnd{StreamID: "k1"}, root.ID, again, outcome, end,
		}, []string{
			"start tool-call tool-output(start) tool-output(tool-call) tool-output(tool-call-approval)",
			"tool-output(tool-call) tool-output(tool-result) tool-output(finish) tool-call tool-result finish",
		}},
		{"a failure", []any{run, chunk.StepStart{}, chunk.Error{Error: "boom"}, chunk.StreamFailed{Error: "boom"}}, []string{"start step-start error step-finish finish"}},
		{"an error that is not the end", []any{run, chunk.Error{Error: "boom"}, chunk.TextDelta{Delta: "x"}, end}, []string{"start error text-start text-delta text-end finish"}},
		{"a guard", []any{run, chunk.StepStart{}, chunk.Error{Error: "no", Code: new("tripwire")}, chunk.StreamFailed{Error: "no"}}, []string{"start step-start tripwire"}},
		{"a stop", []any{run, chunk.StepStart{}, chunk.StreamFailed{Error: "stopped", ErrorDetail: &chunk.ErrorDetail{Message: "stopped", Code: &code}}}, []string{"start step-start abort finish"}},
		{"an interruption", []any{run, chunk.RunInterrupted{RunID: "r"}, end, chunk.RunResumed{RunID: "r", Mode: "continue"}, chunk.TextDelta{Delta: "x"}, end}, []string{
			"start data-run-interrupted abort finish", "data-run-resumed text-start text-delta text-end finish",
		}},
		{"an end while it waits", []any{run, request, chunk.StreamPaused{}, chunk.StreamFailed{Error: "too late"}}, []string{"start tool-call tool-call-approval", "error finish"}},
		{"another turn", []any{run, chunk.TextDelta{Delta: "x"}, chunk.RunStarted{RunID: "r3", Mode: "execute"}, chunk.TextDelta{Delta: "y"}}, []string{"start text-start text-delta text-end finish"}},
		{"a sub-agent whose start was removed", []any{run, call("x"), chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c1"}, removal(3), chunk.StreamPaused{}}, []string{
			"start tool-call tool-output(start) data-truncated finish",
		}},
		{"a request for data that was removed", []any{run, call("x"), suspended, removal(3), chunk.StreamPaused{}}, []string{"start tool-call tool-call-suspended data-truncated finish"}},
		{"a request for data that stays", []any{run, call("x"), suspended, chunk.TextDelta{Delta: "x"}, removal(4), chunk.StreamPaused{}}, []string{
			"start tool-call tool-call-suspended text-start text-delta text-end data-truncated",
		}},
		{"an outcome of the client that was removed", []any{run, call("page"), chunk.StreamPaused{}, again, ofClient, removal(5), ofClient}, []string{
			"start tool-call finish", "data-tool-result data-truncated data-tool-result …",
		}},
		{"a tool of the client whose call a sub-agent names", []any{
			run, chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "c1"}, call("page"), chunk.TextDelta{Delta: "x"}, chunk.ToolStart{ToolCallID: "c2", ToolName: "page", Arguments: chunk.Value(`{}`)}, chunk.StreamPaused{}, again, ofClient,
		}, []string{"start tool-output(start) tool-call text-start text-delta text-end tool-call finish", "data-tool-result …"}},
		{"an outcome that was removed", []any{run, call("x"), outcome, removal(3), outcome, end}, []string{"start tool-call tool-result data-truncated tool-result finish"}},
		{"a call that a user has approved", []any{run, request, chunk.ToolApprovalResponse{ToolCallID: "c1", ToolName: "x", ApprovalID: "r::c1", Approved: true}, chunk.StreamPaused{}}, []string{
			"start tool-call tool-call-approval data-tool-approval-response",
		}},
		{"no end", []any{run, chunk.TextDelta{Delta: "x"}}, []string{"start text-start text-delta …"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := responses(t, c.log...); !slices.Equal(got, c.want) {
				t.Errorf(" got %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestManyCalls checks that a turn of many steps keeps little of each call.
func TestManyCalls(t *testing.T) {
	w := NewWriter("")
	n := chunk.Ordinal(0)
	add := func(body chunk.Body) string {
		n++
		c := chunk.Chunk{AgentID: root.ID, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(w.Append(nil, chunk.Record{Seq: chunk.Seq(n), Session: root, Epoch: 1, Ordinal: n, Type: c.Type(), Data: data}))
	}
	outcome := func(i int) chunk.Body {
		return chunk.ToolEnd{ToolCallID: fmt.Sprint("c", i), ToolName: "x", Result: chunk.Value(`1`), ProviderExecuted: &serverSide}
	}
	add(chunk.RunStarted{RunID: "r", Mode: "execute"})
	for i := range 1000 {
		add(chunk.StepStart{})
		add(chunk.ToolStart{ToolCallID: fmt.Sprint("c", i), ToolName: "x", Arguments: chunk.Value(`{"q":1}`)})
		add(outcome(i))
	}
	if n := len(w.(*turn.Machine).OpenCalls()); n > 0 {
		t.Errorf("%d calls that are complete are kept", n)
	}
	if got := add(outcome(7)); got != "" {
		t.Errorf("the second outcome of a call is written: %s", got)
	}
	if got := add(chunk.ToolStart{ToolCallID: "c7", ToolName: "x", Arguments: chunk.Value(`{}`)}) + add(outcome(7)); strings.Count(got, "data: ") != 2 {
		t.Errorf("another call with the id of one is not written: %s", got)
	}
}

// TestEachChunk writes a record of each type, first visible and then hidden, and checks the frames.
func TestEachChunk(t *testing.T) {
	for _, sample := range chunktest.All() {
		w := NewWriter("m")
		c := sample.Chunk
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := chunk.Record{Seq: 7, Session: root, Epoch: 1, Ordinal: 1, Type: c.Type(), Data: data}
		chunksIn(t, w.Append(nil, rec))
		rec.Ordinal, rec.Seq = 2, 8
		chunksIn(t, w.Append(nil, rec))
		rec.Ordinal, rec.Seq = 3, 9
		if got, _ := chunksIn(t, w.Hide(nil, rec)); len(got) > 1 {
			t.Errorf("%s: the hidden record has the frames %s", c.Type(), got)
		}
	}
}

// TestSubAgentBeforeItsParent: nothing of the session's agent was written when the record of a sub-agent names it as its parent.
func TestSubAgentBeforeItsParent(t *testing.T) {
	root := chunk.RootSession("acme", "s1")
	child := root.Child("k1")
	body := chunk.RunStarted{RunID: "c", Epoch: 1, Mode: "execute", Parent: &chunk.Parent{SessionID: root.ID, CallID: "c1"}}
	c := chunk.Chunk{AgentID: child.ID, AgentType: "x", Timestamp: 1, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter("msg-1")
	malformed := chunk.Record{Seq: 1, Session: root, Epoch: 1, Ordinal: 1, Type: chunk.TypeRunStarted, Data: []byte("{")}
	if frames := w.Append(nil, malformed); len(frames) > 0 {
		t.Errorf("a malformed record has %s", frames)
	}
	frames := w.Append(nil, chunk.Record{Seq: 2, Session: child, Epoch: 1, Ordinal: 1, Type: c.Type(), Data: data})
	if !bytes.Contains(frames, []byte(`"toolName":"agent-x"`)) {
		t.Errorf("the start of the sub-agent is\n%s", frames)
	}
}
