package kortyx

import (
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// translator translates the chunks of one run, in all its responses. It is not safe for concurrent use.
type translator struct {
	b       *dialect.Builder
	agent   dialect.Agent
	runID   string
	anyNode bool // the agentType is that of the node of a chunk

	started map[string]bool // calls whose tool_start was written
	text    textState

	done    bool    // a done was the last chunk that counts
	failure *string // text of the last error, nil for none
	waitFor string  // reason of the pause, "" if the run does not wait
}

// New returns a Translator of a run; its Session is required. The AgentType defaults to the workflow node that a chunk names, or the latest node, or "agent", and the RunID to the id in Kortyx's trace
// chunk. Kortyx has no steps, so all chunks have the one of the run.
func New(cfg codec.Run) codec.Translator {
	b, agent := dialect.NewBuilder(prefix, cfg)
	return &translator{b: b, agent: agent, runID: cfg.RunID, anyNode: cfg.AgentType == "", started: make(map[string]bool)}
}

// Translate translates one chunk, JSON in UTF-8. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON object
// with a type, or exceeds the limits of package chunk; then nothing has changed. Chunks after done are kept as they are, except for an error.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := open(raw)
	if err != nil {
		return nil, err
	}
	m := dialect.Read(whole)
	kind := m.Or("type", "")
	if kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of a Kortyx chunk"}
	}
	switch {
	case t.agent.Ended:
		return nil, nil
	case t.done && !t.agent.Paused && kind != "error": // of two ends the worse one counts
		if kind != "done" {
			t.keep(kind, whole)
		}
		return t.b.Take(), nil
	}
	if t.agent.Resume() { // another response has started
		t.done, t.waitFor = false, ""
	}
	if node := m.Or("node", ""); t.anyNode && node != "" {
		t.agent.Type = node
	}
	mark := len(t.b.Out)
	understood := t.translate(kind, m, whole)
	if !t.b.Valid(mark) || !understood {
		t.keep(kind, whole)
	} else if row := t.row(kind, m); row != "" {
		t.agent.KeepRest(mark, withoutToken(t.b.Rests.Of(m.Reset(), row, members)))
	}
	return t.b.Take(), nil
}

// End returns the chunks for the end of a response. A response that has a done has ended as its chunks say: it failed after an error, it waits after an
// interrupt, otherwise the run has ended. Without a done the response stopped before its end, and the run failed.
func (t *translator) End() []chunk.Chunk {
	switch {
	case t.agent.Ended || t.agent.Paused:
	case t.failure != nil:
		t.agent.End(&chunk.ErrorDetail{Message: *t.failure}, nil, nil)
	case !t.done:
		t.agent.End(&chunk.ErrorDetail{Message: "the stream of the agent broke off"}, nil, nil)
	case t.waitFor != "":
		t.agent.Pause(t.waitFor)
	default:
		t.agent.End(nil, nil, nil)
	}
	return t.b.Take()
}

// keep writes a chunk unchanged, except for its resume token.
func (t *translator) keep(kind string, whole chunk.Value) {
	switch kind {
	case structuredData:
		t.agent.Emit(chunk.Custom{EventName: kind, Data: whole})
	case invalidated:
		t.agent.Emit(chunk.Custom{EventName: kind, Data: withoutToken(whole)})
	default:
		t.agent.Keep(kind, withoutToken(whole))
	}
}

// translate writes the chunks for m, or reports false if it does not understand m.
func (t *translator) translate(kind string, m *dialect.Object, whole chunk.Value) bool {
	switch kind {
	case "session", "text-start", "text-end":
	case "trace":
		if run, ok := m.Text("runId"); ok && t.runID == "" {
			t.runID = run
		}
	case "text-delta":
		piece, ok := m.Text("delta")
		if !ok {
			return false
		}
		t.text.deltas = true
		t.writeText(t.text.separated(blockKey(m), piece))
	case "message":
		piece, ok := m.Text("content")
		if ok && !t.text.deltas {
			t.writeText(piece)
			t.text.written(piece)
		}
		return ok
	case structuredData:
		t.keep(structuredData, whole) // readers assemble it, see internal/structured
	case "checkpoint":
		return t.checkpoint(m)
	case "interrupt":
		t.interrupt(m, whole)
	case "error":
		text, ok := m.Text("message")
		if !ok || text == "" {
			text = "the agent failed without saying why"
		}
		t.failure = &text
		t.agent.Emit(chunk.Error{Error: text})
	case "done":
		t.done = true // its data is the internal state of the workflow
	default:
		return t.translateTool(kind, m)
	}
	return true
}

func (t *translator) writeText(piece string) {
	if piece != "" {
		t.agent.Emit(chunk.TextDelta{Delta: piece})
	}
}

func (t *translator) checkpoint(m *dialect.Object) bool {
	id, ok := m.Text("id")
	n, err := strconv.ParseInt(string(m.Peek("turnIndex")), 10, 64)
	if !ok || err != nil || n < 0 {
		return false
	}
	t.agent.Emit(chunk.CheckpointCreated{RunID: t.runID, CheckpointID: id, StepCount: n})
	return true
}

// interrupt handles a question to a user. The run waits at the end of the response.
func (t *translator) interrupt(m *dialect.Object, whole chunk.Value) {
	input := m.Object("input")
	id, ok := m.Text("id")
	if !ok || id == "" {
		id, _ = input.Text("id")
	}
	requestID := m.Or("requestId", "")
	meta := func(name string) chunk.Value { // the client prefers the outer one
		if v := m.Object("meta").Peek(name); v != nil {
			return v
		}
		return input.Object("meta").Peek(name)
	}
	callID, isApproval := strings.CutPrefix(id, approvalPrefix)
	tool, hasTool := dialect.Text(meta("tool"))
	if isApproval && hasTool && callID != "" && requestID != "" {
		if s, ok := dialect.Text(meta("toolCallId")); ok && s != "" {
			callID = s
		}
		t.waitFor = "tool_approval"
		t.agent.Emit(chunk.ToolApprovalRequest{ToolCallID: callID, ToolName: tool, ApprovalID: requestID, Input: dialect.Arguments(meta("input"))})
	} else {
		t.waitFor = "interrupt"
		t.keep("interrupt", whole) // before the pause, so that readers of the pause have the question
		t.agent.Emit(chunk.RunPaused{RunID: t.runID, Reason: t.waitFor})
	}
}

// serverSide marks outcomes that the client did not produce: Kortyx has no tools of the client.
var serverSide = true

// translateTool translates a chunk about a tool call.
func (t *translator) translateTool(kind string, m *dialect.Object) bool {
	id, known := m.Text("toolCallId")
	name, named := m.Text("tool")
	if !known || !named {
		return false
	}
	switch kind {
	case "tool-call-start":
		if t.started[id] {
			return true // a resumed run calls its tools again
		}
		t.started[id] = true
		t.agent.Emit(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: dialect.Arguments(m.Peek("input"))})
	case "tool-call-result":
		end := chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: m.Peek("structuredContent"), ProviderExecuted: &serverSide}
		if end.Result.IsNull() {
			end.Result = m.Peek("content")
		}
		if m.Flag("isError") {
			reason := contentText(m.Peek("content"))
			end.Error = &reason
		}
		t.agent.Emit(end)
	case "tool-call-error":
		reason, ok := m.Text("message")
		if !ok {
			return false
		}
		t.agent.Emit(chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: &reason, ProviderExecuted: &serverSide})
	default:
		return false
	}
	return true
}
