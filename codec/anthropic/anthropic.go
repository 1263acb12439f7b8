package anthropic

import (
	"cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// translator translates the events of one run, in all its responses. It is not safe for concurrent use.
type translator struct {
	b     *dialect.Builder
	root  *agent
	runID string
	sdk   bool // the events are of the Agent SDK, which runs its tools

	agents map[string]*agent // the sub-agents, by the call that started each
	calls  map[string]*call  // without a result

	// Of the present response.
	open     []*call // that the client may run
	rejected bool    // a call has invalid arguments
	over     bool    // the SDK has sent its result
	failure  *chunk.ErrorDetail
	reported string // the error of a message
	deferred *call  // waits for an approval
}

// New returns a Translator of a run; its Session is required. The AgentType defaults to "agent". The RunID is for run_paused, and may be empty.
func New(cfg codec.Run) codec.Translator {
	b, root := dialect.NewBuilder(keptPrefix, cfg)
	return &translator{b: b, root: &agent{Agent: root}, runID: cfg.RunID, agents: map[string]*agent{}, calls: map[string]*call{}}
}

// Translate translates one event or message, JSON in UTF-8. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON object
// with a type, or exceeds the limits of package chunk; then nothing has changed.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
	if err != nil {
		return nil, err
	}
	o := dialect.Read(whole)
	kind := o.Or("type", "")
	if kind == "" {
		return nil, &chunk.FieldError{Field: "type", Want: "the type of an event of Anthropic"}
	}
	t.root.Resume()
	switch kind {
	case "stream_event", "assistant", "user", "result", "system":
		t.sdk = true
	}
	a := t.agentOf(o)
	if s := o.Or("subtype", ""); kind == "system" && s != "" {
		kind = s
	}
	t.event(a, kind, o)
	return t.b.Take(), nil
}

// End returns the chunks for the end of a response: the run ended, failed, or pauses. Call it when the response is over. A run of the Messages API pauses if the model
// has called tools of the request, as in codec/openai; that of the SDK, which runs its tools, if a call was deferred. A response that stopped without a reason was
// interrupted, and the run failed.
func (t *translator) End() []chunk.Chunk {
	if t.root.Ended || t.root.Paused {
		return nil
	}
	t.closeChildren(t.root)
	t.finish(t.root)
	m := cmp.Or(t.root.m, &message{})
	switch {
	case t.failure != nil:
		t.root.End(t.failure, nil, nil)
	case t.deferred != nil:
		t.pause("tool_approval", t.deferred)
	case t.sdk && !t.over, !t.sdk && m.stop == "":
		t.fail(dialect.ProviderFailure("the model's response broke off", "provider_unavailable", true))
	case len(t.open) > 0:
		t.pause("suspended_client_tool", t.open[0])
	case !t.sdk && m.stop == finishFiltered && !m.content:
		t.fail(dialect.ProviderFailure("the answer was blocked by the provider's content filter", "provider_content_filtered", false))
	case !t.sdk && m.stop == dialect.ReasonToolCalls && t.rejected:
		t.fail(dialect.ProviderFailure("the model called its tools with invalid arguments", "validation_error", true))
	default:
		t.root.End(nil, nil, nil)
	}
	return t.b.Take()
}

func (t *translator) pause(reason string, c *call) {
	t.deferred, t.open = nil, nil
	t.root.PauseFor(t.runID, reason, c.name, c.id)
}

func (t *translator) fail(f *chunk.ErrorDetail) { t.root.End(f, nil, nil) }

// event translates an event of an agent, and keeps what was not read of it.
func (t *translator) event(a *agent, kind string, o *dialect.Object) {
	mark := len(t.b.Out)
	understood := t.translate(a, kind, o)
	a = a.live() // the event may have ended it
	if !t.b.Valid(mark) || !understood {
		a.Keep(kind, redact(dialect.Without(o.All(), 1, "uuid", "session_id")))
		return
	}
	a.AttachRest(mark, memberName, redact(t.b.Rests.Of(o, kind, leftOut)))
}

// translate writes the chunks of an event, or reports false: then it is kept whole.
func (t *translator) translate(a *agent, kind string, o *dialect.Object) bool {
	switch kind {
	case "message_start", "message":
		return t.messageStart(a, kind, o)
	case "content_block_start":
		return t.blockStart(a, o)
	case "content_block_delta":
		return t.delta(a, o)
	case "content_block_stop":
		if b := a.block(o); b != nil {
			t.closeBlock(a, b, false)
		}
	case "message_delta":
		t.messageDelta(a, o)
	case "message_stop":
		t.finish(a)
	case "error":
		return t.error(o)
	case "ping":
	default:
		return t.message(a, kind, o)
	}
	return true
}
