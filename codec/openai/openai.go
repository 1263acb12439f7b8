package openai

import (
	"cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/openaistream"
)

// translator translates the responses of a model to the requests of one run. It is not safe for concurrent use.
type translator struct {
	b        *dialect.Builder
	agent    dialect.Agent
	runID    string
	reader   *openaistream.Reader // of the current response, nil between two
	content  bool                 // the response has text or a call
	open     []openCall           // without an outcome, that the client may run
	rejected bool                 // a call has invalid arguments

	// Of the events of the Agents SDK.
	sdk     bool              // it has sent one, so it runs its tools
	twice   bool              // it is that for TypeScript, see openaistream.Reader
	fresh   bool              // it has said that a response starts: the first event of the endpoint follows
	calls   map[string]string // the tools of the calls so far
	waiting []openCall        // for an approval
	rests   dialect.Rests
}

type openCall struct{ id, name string }

// New returns a Translator of a run; its Session is required. The AgentType defaults to "agent". The RunID is for run_paused, and may be empty.
func New(cfg codec.Run) codec.Translator {
	b, agent := dialect.NewBuilder("", cfg)
	return &translator{b: b, agent: agent, runID: cfg.RunID, calls: map[string]string{}}
}

// Translate translates the data of one server-sent event, or an event of the Agents SDK, JSON in UTF-8. The text [DONE], which ends a stream, may be passed too: without it, a response of a server
// that names no finish reason is taken for one that broke off. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON
// object; then nothing has changed.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	if kind, o := agentsEvent(raw); o != nil {
		t.sdk = true
		t.agentsEvent(kind, o)
	} else if err := t.response(raw); err != nil {
		return nil, err
	}
	return t.b.Take(), nil
}

func (t *translator) newReader() *openaistream.Reader {
	return &openaistream.Reader{Step: t.agent.Step + 1, Twice: t.twice}
}

// response translates an event of an endpoint.
func (t *translator) response(raw []byte) error {
	r := t.reader
	switch {
	case r == nil:
		r = t.newReader()
	case !t.fresh && r.Begins(raw):
		t.finishStep(r)
		r = t.newReader()
	}
	events, err := r.Read(raw)
	if err != nil {
		t.b.Out = nil // Begins is false for such data
		return &chunk.FieldError{Want: "an event of OpenAI's API, a JSON object", Got: "something else"}
	}
	t.fresh = false
	if r != t.reader {
		t.reader = r
		t.begin()
	}
	t.read(events)
	return nil
}

// End returns the chunks for the end of a response: the run ended, failed, or pauses. Call it when the response is over. A run pauses if the model has called tools
// of the request, because no response has their results: the client that reads the session may run them, or the agent, which asks the model again. A later response
// continues the run. The Agents SDK runs its tools: a run with its events pauses only for approvals. If a response stopped without a reason, it was interrupted and the run
// failed.
func (t *translator) End() []chunk.Chunk {
	r := t.reader
	t.reader = nil
	switch {
	case r == nil && (t.agent.Paused || t.agent.Ended):
		return nil
	case r == nil && t.sdk: // it ends with the outcome of a tool
		r = &openaistream.Reader{Finish: openaistream.FinishStop}
	case r == nil: // an empty response
		r = &openaistream.Reader{}
	default:
		t.finishStep(r)
	}
	t.conclude(r)
	return t.b.Take()
}

// begin begins a step: a response is one step.
func (t *translator) begin() {
	t.agent.Resume()
	t.content, t.rejected, t.open = false, false, nil
	t.agent.NextStep(nil)
}

func (t *translator) finishStep(r *openaistream.Reader) {
	t.read(r.Close())
	var usage *chunk.Usage
	if r.Usage != nil {
		usage = r.Usage.Chunk()
	}
	t.agent.EndStep(cmp.Or(r.Finish, dialect.ReasonError), usage, chunk.Model{Name: r.Model})
}

// pausedForCalls is the reason of a pause, as for calls of the browser in package workers.
const pausedForCalls = "suspended_client_tool"

// conclude ends or pauses the run after the response in r.
func (t *translator) conclude(r *openaistream.Reader) {
	switch {
	case t.agent.Ended:
	case r.Failure != nil:
		code, final := r.Failure.Classify(0)
		t.fail(openaistream.UserMessage(code), code, openaistream.Temporary(code) && !final)
	case r.Finish == "":
		t.fail("the model's response broke off", openaistream.CodeUnavailable, true)
	case len(t.waiting) > 0:
		t.pause("tool_approval", t.waiting[0])
	case len(t.open) > 0 && !t.sdk:
		t.pause(pausedForCalls, t.open[0])
	case r.Finish == openaistream.FinishFiltered && !t.content:
		t.fail(openaistream.UserMessage(openaistream.CodeContentFiltered), openaistream.CodeContentFiltered, false)
	case r.Finish == openaistream.FinishCalls && t.rejected && !t.sdk:
		t.fail("the model called its tools with invalid arguments", "validation_error", true)
	default:
		t.agent.End(nil, nil, nil)
	}
}

func (t *translator) pause(reason string, c openCall) {
	t.agent.PauseFor(t.runID, reason, c.name, c.id)
}

func (t *translator) fail(message, code string, retryable bool) {
	t.agent.End(dialect.ProviderFailure(message, code, retryable), nil, nil)
}

func (t *translator) translate(e openaistream.Event) {
	extra := openaistream.Extra(e.State)
	switch e.Kind {
	case openaistream.Text:
		t.content = true
		t.agent.EmitValid(chunk.TextDelta{Delta: e.Text}, extra...)
	case openaistream.Reasoning:
		t.agent.EmitValid(chunk.Thinking{Content: e.Text}, extra...)
	case openaistream.ReasoningEnd:
		t.agent.EmitValid(chunk.Thinking{IsComplete: true}, extra...)
	case openaistream.Arguments:
		t.arguments(e.Call, e.Text)
	case openaistream.CallDone:
		t.callDone(e.Call)
	case openaistream.ServerCall:
		t.serverCall(e.Value)
	default:
		if _, ok := e.Body.(chunk.File); ok {
			t.content = true
		}
		t.agent.EmitValid(e.Body)
	}
}
