package dialect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// Builder collects the chunks that a Translator returns for an event. Its agents write them.
type Builder struct {
	Out   []chunk.Chunk // of the current event so far
	Rests Rests

	prefix string
}

// NewBuilder returns the Builder of a run and its agent. prefix begins the names of the custom events that hold events of the dialect.
func NewBuilder(prefix string, r codec.Run) (*Builder, Agent) {
	b := &Builder{prefix: prefix}
	return b, Agent{Session: r.Session, Type: cmp.Or(r.AgentType, "agent"), Step: r.Step, builder: b}
}

// Take returns the chunks so far, and begins the next event.
func (b *Builder) Take() []chunk.Chunk {
	out := b.Out
	b.Out = nil
	return out
}

// Valid removes the invalid chunks from an index on, and reports whether there were none.
func (b *Builder) Valid(from int) bool {
	n := len(b.Out)
	valid := slices.DeleteFunc(b.Out[from:], func(c chunk.Chunk) bool { return c.ValidateUnstored() != nil })
	b.Out = b.Out[:from+len(valid)]
	return len(b.Out) == n
}

// Agent is the agent of a run, or a sub-agent: what its chunks have in common, and how far it is.
type Agent struct {
	Session, Type string
	Step          int64
	Paused        bool // stream_paused was written
	Ended         bool // stream_end or stream_failed was written

	// Of a sub-agent: its parent, the call that started it, "" for none, and its output, which is its result.
	Parent *Agent
	CallID string
	Texts  []string

	builder *Builder
}

// Child returns a sub-agent that a call of a has started, "" for none. It reports false if the log cannot have the sub-agent: its session has
// an invalid id, or is that of a or of an agent above it. Begin writes its start.
func (a *Agent) Child(session, agentType, callID string) (Agent, bool) {
	for up := a; up != nil; up = up.Parent {
		if up.Session == session {
			return Agent{}, false
		}
	}
	c := Agent{Session: session, Type: agentType, Parent: a, CallID: callID, builder: a.builder}
	return c, subjects.CheckID("session", session) == nil && a.chunk(c.start()).Validate() == nil
}

func (a *Agent) start() chunk.Body {
	return chunk.SubagentStart{SubAgentType: a.Type, SubSessionID: a.Session, CallID: a.CallID}
}

// Begin writes the start of a sub-agent.
func (a *Agent) Begin() { a.Parent.Emit(a.start()) }

func (a *Agent) chunk(b chunk.Body, extra ...chunk.Member) chunk.Chunk {
	return chunk.Chunk{AgentID: a.Session, AgentType: a.Type, Step: a.Step, Body: b, Extra: extra}
}

// Emit writes a chunk.
func (a *Agent) Emit(b chunk.Body, extra ...chunk.Member) {
	a.builder.Out = append(a.builder.Out, a.chunk(b, extra...))
}

// EmitValid writes a chunk unless it is invalid, and reports whether it is valid.
func (a *Agent) EmitValid(b chunk.Body, extra ...chunk.Member) bool {
	c := a.chunk(b, extra...)
	if c.ValidateUnstored() != nil {
		return false
	}
	a.builder.Out = append(a.builder.Out, c)
	return true
}

// NextStep begins a step, whose id may be nil.
func (a *Agent) NextStep(id *string) {
	a.Step++
	a.Emit(chunk.StepStart{StepID: id})
}

// Text writes a piece of text, which is output of the agent if it is a sub-agent.
func (a *Agent) Text(piece string, extra ...chunk.Member) {
	switch n := len(a.Texts); {
	case a.Parent == nil:
	case n > 0 && strings.HasPrefix(piece, "\xed"): // it may be the second half of a split character
		a.Texts[n-1] = chunk.Concat(a.Texts[n-1], piece)
	default:
		a.Texts = append(a.Texts, piece)
	}
	a.Emit(chunk.TextDelta{Delta: piece}, extra...)
}

// Keep writes an event that has no counterpart.
func (a *Agent) Keep(kind string, event chunk.Value) {
	if strings.ContainsFunc(kind, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		kind = "unknown"
	}
	a.Emit(chunk.Custom{EventName: a.builder.prefix + kind, Data: event})
}

// KeepRest writes the rest of an event after its chunks, which begin at an index, but before the end of a step or a run. nil is no rest.
func (a *Agent) KeepRest(from int, rest chunk.Value) {
	if rest == nil {
		return
	}
	out := a.builder.Out
	at := len(out)
	if i := slices.IndexFunc(out[from:], ends); i >= 0 {
		at = from + i
	}
	a.builder.Out = slices.Insert(out, at, a.chunk(chunk.Custom{EventName: a.builder.prefix + RestEvent, Data: rest}))
}

// AttachRest keeps the rest of an event, whose chunks begin at an index, as a member of the last of them, or else like KeepRest. A rest that has nothing but the type of
// the event is not kept.
func (a *Agent) AttachRest(from int, member string, rest chunk.Value) {
	hasMore := false
	for name := range rawjson.Members(rest) {
		hasMore = hasMore || !name.Is("type")
	}
	if !hasMore {
		return
	}
	if n := len(a.builder.Out); n > from {
		c := a.builder.Out[n-1]
		attached := slices.ContainsFunc(c.Extra, func(m chunk.Member) bool { return m.Name == member })
		c.Extra = append(slices.Clip(c.Extra), chunk.Member{Name: member, Value: rest})
		if !attached && c.ValidateUnstored() == nil {
			a.builder.Out[n-1] = c
			return
		}
	}
	a.KeepRest(from, rest)
}

// KeepCall keeps what no chunk can have of a call.
func (a *Agent) KeepCall(id, name string, input chunk.Value) {
	o := rawjson.Begin(nil)
	o.Raw("id", Quote(id))
	o.Raw("name", Quote(name))
	o.Raw("input", OrNull(input))
	a.Keep("call", o.End())
}

// ends reports whether a chunk ends a step or a run.
func ends(c chunk.Chunk) bool {
	switch c.Type() {
	case chunk.TypeStepEnd, chunk.TypeError, chunk.TypeRunPaused, chunk.TypeRunInterrupted, chunk.TypeSubagentEnd,
		chunk.TypeStreamPaused, chunk.TypeStreamEnd, chunk.TypeStreamFailed:
		return true
	}
	return false
}

// EndStep ends a step that a model has answered.
func (a *Agent) EndStep(reason string, usage *chunk.Usage, model chunk.Model) {
	end := chunk.StepEnd{FinishReason: &reason, Usage: usage}
	model.AddTo(&end)
	if !a.EmitValid(end) { // a count that is not a number of tokens
		end.Usage = nil
		a.EmitValid(end)
	}
}

// PauseFor writes that the run of the agent waits for a call of a tool.
func (a *Agent) PauseFor(runID, reason, tool, callID string) {
	a.EmitValid(chunk.RunPaused{RunID: runID, Reason: reason, PendingToolName: &tool, PendingToolCallID: &callID})
	a.Pause(reason)
}

// Pause writes that the agent waits.
func (a *Agent) Pause(reason string) {
	a.Paused = true
	a.Emit(chunk.StreamPaused{Reason: &reason})
}

// Resume continues a paused agent, because another response has begun, and reports whether it was paused.
func (a *Agent) Resume() bool {
	if !a.Paused {
		return false
	}
	a.Paused = false
	a.Emit(chunk.StreamActive{})
	return true
}

// End ends the agent: with a failure, or with its final output, if they are not nil. The parent of a sub-agent gets the failure, the result, or if that is nil the
// output of the sub-agent.
func (a *Agent) End(f *chunk.ErrorDetail, output, result chunk.Value) {
	a.Ended = true
	switch {
	case f != nil:
		a.Emit(chunk.StreamFailed{Error: f.Message, ErrorDetail: new(*f)})
		result = append(append(chunk.Value(`{"error":`), Quote(f.Message)...), '}')
	case output != nil:
		a.Emit(chunk.StreamEnd{StreamID: a.Session, FinalOutput: &output})
	default:
		a.Emit(chunk.StreamEnd{StreamID: a.Session})
	}
	if a.Parent == nil {
		return
	}
	if result == nil {
		result = Quote(strings.Join(a.Texts, ""))
	}
	a.Parent.EmitValid(chunk.SubagentEnd{SubAgentType: a.Type, SubSessionID: a.Session, CallID: a.CallID, Result: result})
	a.Texts = nil
}

// ProviderFailure returns a failure of the endpoint of a model.
func ProviderFailure(message, code string, retryable bool) *chunk.ErrorDetail {
	return &chunk.ErrorDetail{Message: message, Code: &code, Category: new("provider"), Retryable: &retryable}
}

// Quote returns the JSON of a string.
func Quote(s string) chunk.Value {
	v, _ := rawjson.AppendQuotedChunk(nil, s)
	return v
}

// Arguments returns the input of a call as an object.
func Arguments(input chunk.Value) chunk.Value {
	switch {
	case input.IsNull():
		return chunk.Value(`{}`)
	case rawjson.Kind(input) == '{':
		return input
	}
	return append(append(chunk.Value(`{"value":`), input...), '}')
}

// Finish reasons.
const (
	ReasonStop      = "stop"
	ReasonToolCalls = "tool-calls"
	ReasonError     = "error"
	ReasonOther     = "other"
)

// FinishReason returns why a step ended, as the log has it: other if it does not have the reason of a dialect.
func FinishReason(reason string) (_ string, known bool) {
	if slices.Contains([]string{ReasonStop, "length", ReasonToolCalls, "content-filter", ReasonError}, reason) {
		return reason, true
	}
	return ReasonOther, false
}
