package kortyx

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
)

// Config configures the chunks of a run.
type Config struct {
	// Session is the id of the session of the run. Required.
	Session string

	// AgentType is the name of the agent's definition. Defaults to the workflow node that a chunk names, or the latest node, or "agent".
	AgentType string

	// RunID is the run of chunks that name one. Defaults to the id in Kortyx's trace chunk.
	RunID string

	// Step is the step that the run has reached. Kortyx has no steps, so all chunks have this one.
	Step int64
}

// Translator translates the chunks of one run, in all its responses. It is not safe for concurrent use.
type Translator struct {
	cfg  Config
	kind string // agentType of the chunk at hand
	out  []chunk.Chunk

	started map[string]bool // calls whose tool_start was written
	text    textState
	rests   dialect.Rests

	done    bool    // a done was the last chunk that counts
	failure *string // text of the last error, nil for none
	waitFor string  // reason of the pause, "" if the run does not wait
	paused  bool    // stream_paused was written
	ended   bool    // stream_end or stream_failed was written
}

// New creates a Translator.
func New(cfg Config) *Translator {
	return &Translator{cfg: cfg, kind: cmp.Or(cfg.AgentType, "agent"), started: make(map[string]bool)}
}

// Translate translates one chunk, JSON in UTF-8. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON object
// with a type, or exceeds the limits of package chunk; then nothing has changed. Chunks after done are kept as they are, except for an error.
func (t *Translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := open(raw)
	if err != nil {
		return nil, err
	}
	m := read(whole)
	kind, ok := m.text("type")
	if !ok || kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of a Kortyx chunk"}
	}
	switch {
	case t.ended:
		return nil, nil
	case t.done && !t.paused && kind != "error": // of two ends the worse one counts
		if kind != "done" {
			t.keep(kind, whole)
		}
		return t.take(), nil
	}
	t.resume()
	if node, ok := m.text("node"); ok && node != "" && t.cfg.AgentType == "" {
		t.kind = node
	}
	mark := len(t.out)
	understood := t.translate(kind, m, whole)
	valid := t.out[:mark]
	for _, c := range t.out[mark:] {
		if c.ValidateUnstored() != nil {
			understood = false
			continue
		}
		valid = append(valid, c)
	}
	t.out = valid
	if !understood {
		t.keep(kind, whole)
	} else if rest := t.rest(kind, m, whole); rest != nil {
		b := chunk.Custom{EventName: prefix + dialect.RestEvent, Data: withoutToken(rest)}
		t.out = dialect.Keep(t.out, mark, chunk.Chunk{AgentID: t.cfg.Session, AgentType: t.kind, Step: t.cfg.Step, Body: b})
	}
	return t.take(), nil
}

func (t *Translator) rest(kind string, m object, whole chunk.Value) chunk.Value {
	row := t.row(kind, m)
	if row == "" {
		return nil
	}
	return t.rests.Of(dialect.Read(whole), row, members)
}

// End returns the chunks for the end of a response. A response that has a done has ended as its chunks say: it failed after an error, it waits after an
// interrupt, otherwise the run has ended. Without a done the response stopped before its end, and the run failed.
func (t *Translator) End() []chunk.Chunk {
	if t.ended || t.paused {
		return nil
	}
	switch {
	case t.failure != nil:
		t.fail(*t.failure)
	case !t.done:
		t.fail("the stream of the agent broke off")
	case t.waitFor != "":
		t.paused = true
		t.emit(chunk.StreamPaused{Reason: &t.waitFor})
	default:
		t.ended = true
		t.emit(chunk.StreamEnd{StreamID: t.cfg.Session})
	}
	return t.take()
}

func (t *Translator) fail(text string) {
	t.ended = true
	t.emit(chunk.StreamFailed{Error: text, ErrorDetail: &chunk.ErrorDetail{Message: text}})
}

// resume reactivates a paused run: another response has started.
func (t *Translator) resume() {
	if !t.paused {
		return
	}
	t.paused, t.done, t.waitFor = false, false, ""
	t.emit(chunk.StreamActive{})
}

func (t *Translator) take() []chunk.Chunk {
	out := t.out
	t.out = nil
	return out
}

func (t *Translator) emit(b chunk.Body) {
	t.out = append(t.out, chunk.Chunk{AgentID: t.cfg.Session, AgentType: t.kind, Step: t.cfg.Step, Body: b})
}

// keep writes a chunk unchanged, except for its resume token.
func (t *Translator) keep(kind string, whole chunk.Value) {
	name := prefix + kind
	if kind == structuredData || kind == invalidated {
		name = kind
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		name = prefix + "unknown"
	}
	if kind != structuredData {
		whole = withoutToken(whole)
	}
	t.emit(chunk.Custom{EventName: name, Data: whole})
}

// translate writes the chunks for m, or reports false if it does not understand m.
func (t *Translator) translate(kind string, m object, whole chunk.Value) bool {
	switch kind {
	case "session", "text-start", "text-end":
	case "trace":
		if run, ok := m.text("runId"); ok && t.cfg.RunID == "" {
			t.cfg.RunID = run
		}
	case "text-delta":
		piece, ok := m.text("delta")
		if !ok {
			return false
		}
		t.text.deltas = true
		t.writeText(t.text.separated(blockKey(m), piece))
	case "message":
		piece, ok := m.text("content")
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
		text, ok := m.text("message")
		if !ok || text == "" {
			text = "the agent failed without saying why"
		}
		t.failure = &text
		t.emit(chunk.Error{Error: text})
	case "done":
		t.done = true // its data is the internal state of the workflow
	default:
		return t.translateTool(kind, m)
	}
	return true
}

func (t *Translator) writeText(piece string) {
	if piece != "" {
		t.emit(chunk.TextDelta{Delta: piece})
	}
}

func (t *Translator) checkpoint(m object) bool {
	id, ok := m.text("id")
	n, err := strconv.ParseInt(string(m["turnIndex"]), 10, 64)
	if !ok || err != nil || n < 0 {
		return false
	}
	t.emit(chunk.CheckpointCreated{RunID: t.cfg.RunID, CheckpointID: id, StepCount: n})
	return true
}

// interrupt handles a question to a user. The run waits at the end of the response.
func (t *Translator) interrupt(m object, whole chunk.Value) {
	input := m.object("input")
	id, ok := m.text("id")
	if !ok || id == "" {
		id, _ = input.text("id")
	}
	requestID := m.or("requestId", "")
	meta := func(name string) chunk.Value { // the client prefers the outer one
		if v := m.object("meta")[name]; v != nil {
			return v
		}
		return input.object("meta")[name]
	}
	callID, isApproval := strings.CutPrefix(id, approvalPrefix)
	tool, hasTool := text(meta("tool"))
	if isApproval && hasTool && callID != "" && requestID != "" {
		if s, ok := text(meta("toolCallId")); ok && s != "" {
			callID = s
		}
		t.waitFor = "tool_approval"
		t.emit(chunk.ToolApprovalRequest{ToolCallID: callID, ToolName: tool, ApprovalID: requestID, Input: arguments(meta("input"))})
	} else {
		t.waitFor = "interrupt"
		t.keep("interrupt", whole) // before the pause, so that readers of the pause have the question
		t.emit(chunk.RunPaused{RunID: t.cfg.RunID, Reason: t.waitFor})
	}
}

// serverSide marks outcomes that the client did not produce: Kortyx has no tools of the client.
var serverSide = true

// translateTool translates a chunk about a tool call.
func (t *Translator) translateTool(kind string, m object) bool {
	id, known := m.text("toolCallId")
	name, named := m.text("tool")
	if !known || !named {
		return false
	}
	switch kind {
	case "tool-call-start":
		if t.started[id] {
			return true // a resumed run calls its tools again
		}
		t.started[id] = true
		t.emit(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: arguments(m["input"])})
	case "tool-call-result":
		end := chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: m["structuredContent"], ProviderExecuted: &serverSide}
		if end.Result.IsNull() {
			end.Result = m["content"]
		}
		if m.flag("isError") {
			reason := contentText(m["content"])
			end.Error = &reason
		}
		t.emit(end)
	case "tool-call-error":
		reason, ok := m.text("message")
		if !ok {
			return false
		}
		t.emit(chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: &reason, ProviderExecuted: &serverSide})
	default:
		return false
	}
	return true
}
