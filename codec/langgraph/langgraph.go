package langgraph

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/dialect"
)

// translator translates the events of one run, in all its responses. It is not safe for concurrent use.
type translator struct {
	b     *dialect.Builder
	root  *agent
	runID string

	agents map[string]*agent // the sub-agents, by namespace
	nodes  map[string]*node  // that run and are no sub-agents, by namespace
	calls  map[string]*call  // without a result
	raised map[string]int    // how often each interrupt was raised

	// Of the present response.
	interrupts map[string]chunk.Value // that are in the log

	known   bool // the root graph has sent its lifecycle
	over    bool // and its end
	stopped bool // it was interrupted
	failure *chunk.ErrorDetail
	state   chunk.Value // the last values of the root graph
	waits   *waiting    // the first one, nil for none
}

// New returns a Translator of a run; its Session is required. The AgentType defaults to "agent". The RunID is for run_paused, and may be empty.
func New(cfg codec.Run) codec.Translator {
	b, root := dialect.NewBuilder(keptPrefix, cfg)
	return &translator{
		b: b, root: &agent{Agent: root}, runID: cfg.RunID,
		agents: map[string]*agent{}, nodes: map[string]*node{}, calls: map[string]*call{}, interrupts: map[string]chunk.Value{}, raised: map[string]int{},
	}
}

// Translate translates one event, JSON in UTF-8. The result may be empty, and belongs to the caller. The error is chunk.ErrInvalid: raw is not a JSON object with a
// method, or exceeds the limits of package chunk; then nothing has changed.
func (t *translator) Translate(raw []byte) ([]chunk.Chunk, error) {
	whole, err := dialect.CheckValue(raw)
	if err != nil {
		return nil, err
	}
	o := dialect.Read(whole)
	method := o.Or("method", "")
	switch {
	case o.Or("type", "") != "event":
		return nil, &chunk.FieldError{Field: "type", Want: "event, the type of the events of LangGraph"}
	case method == "":
		return nil, &chunk.FieldError{Field: "method", Want: "the method of an event of LangGraph"}
	}
	t.root.Resume()
	p := o.Object("params")
	a := t.agentOf(method, p)
	mark := len(t.b.Out)
	understood := t.event(a, method, p)
	a = a.live() // the event may have ended it
	if !t.b.Valid(mark) || !understood {
		kind, data := method, p.Get("data")
		switch event := dialect.Read(data).PeekText("event"); method {
		case "messages", "tools":
			kind = cmp.Or(event, kind)
		}
		a.Keep(kind, redact(dialect.OrNull(data)))
	}
	a.AttachRest(mark, memberName, redact(t.b.Rests.Of(o, method, leftOut)))
	return t.b.Take(), nil
}

// event writes the chunks of an event, or reports false: then its data is kept whole.
func (t *translator) event(a *agent, method string, p *dialect.Object) bool {
	d := p.Object("data")
	switch method {
	case "messages":
		return t.message(a, p, d)
	case "tools":
		return t.tool(a, p, d)
	case "lifecycle":
		return t.lifecycle(p, d)
	case "input.requested":
		return t.interrupt(d, either(d, "interrupt_id"), "payload")
	case "values":
		return t.values(a, p, d)
	case "updates":
		if d.PeekText("node") == interruptMember && t.interruptsOf(d, "values") {
			d.Text("node")
			return true
		}
		return t.interruptsOf(d, interruptMember)
	case "tasks":
		a.Keep(method, redact(dialect.Without(dialect.OrNull(p.Get("data")), 1, "input", "result")))
		return true
	}
	return t.custom(a, method, p, d)
}

// values keeps the state of the root graph for the end of the run.
func (t *translator) values(a *agent, p, d *dialect.Object) bool {
	understood := d.List(interruptMember) == nil || t.interruptsOf(d, interruptMember)
	state := p.Get("data")
	if understood && a == t.root && len(namespaceOf(p)) == 0 {
		if state = dialect.Without(dialect.OrNull(state), 1, interruptMember); string(state) != "{}" {
			t.state = slices.Clone(redact(state))
		}
	}
	return understood
}

// End returns the chunks for the end of a response: the run ended, failed, or pauses. Call it when the response is over. A run with an interrupt pauses. A response
// that stopped before the root graph ended was interrupted, and the run failed.
func (t *translator) End() []chunk.Chunk {
	if t.root.Ended || t.root.Paused {
		return nil
	}
	t.closeChildren(t.root)
	cut := !t.over && (t.known || t.root.m == nil && t.state == nil || t.root.m != nil && !t.root.m.ended)
	t.finish(t.root)
	switch {
	case t.failure != nil:
		t.root.End(t.failure, nil, nil)
	case t.waits != nil:
		w := t.waits
		t.root.PauseFor(t.runID, w.reason, w.name, w.id)
	case t.stopped:
		t.root.EmitValid(chunk.RunPaused{RunID: t.runID, Reason: "interrupted"})
		t.root.Pause("interrupted")
	case cut:
		t.root.End(dialect.ProviderFailure("the stream of the graph broke off", "provider_unavailable", true), nil, nil)
	default:
		if t.state != nil {
			t.root.EmitValid(chunk.Output{Output: t.state})
		}
		t.root.End(nil, nil, nil)
	}
	t.begin()
	return t.b.Take()
}

// begin begins a response.
func (t *translator) begin() {
	t.known, t.over, t.stopped, t.failure, t.state, t.waits = false, false, false, nil, nil, nil
	clear(t.nodes)
	clear(t.interrupts)
}
