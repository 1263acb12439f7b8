package mastra

import (
	"cmp"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/turn"
)

// stepTotal is what finish needs of a step that has ended.
type stepTotal struct {
	at     chunk.Ordinal // of its step_end
	reason string        // "" for none
	usage  turn.Usage
}

// flushStep writes the step-start that waits for the record after it.
func (p *printer) flushStep(sp *speaker) {
	if sp.pending != nil {
		sp.pending = nil
		p.beginStep(sp)
	}
}

func (p *printer) stepStart(it *turn.Item, sp *speaker) {
	if it.Get("stepId") == nil {
		p.beginStep(sp)
		return
	}
	p.finishStep(sp, dialect.ReasonOther, turn.Usage{})
	sp.pending = new(it.Text("stepId"))
}

func (p *printer) beginStep(sp *speaker) {
	if sp.network {
		return
	}
	p.finishStep(sp, dialect.ReasonOther, turn.Usage{})
	sp.stepping = true
	p.open(sp, "step-start")
	if sp.agent.Own() {
		p.f.String("messageId", p.message) // without it the client's message has no id
	}
	p.f.Raw("request", []byte("{}"))
	p.f.Raw("warnings", []byte("[]"))
	p.shut(sp)
}

func (p *printer) stepEnd(it *turn.Item, sp *speaker) {
	total := stepTotal{at: it.Rec.Ordinal, reason: it.Text("finishReason")}
	total.usage.Add(it.Get("usage"))
	if total.reason != "" || total.usage != (turn.Usage{}) {
		sp.steps = append(sp.steps, total)
	}
	if sp.workStep != "" && it.Text("stepId") == sp.workStep {
		sp.workStep = "" // the chunk of the workflow before it is its end
		return
	}
	p.finishStep(sp, cmp.Or(total.reason, dialect.ReasonStop), total.usage)
}

// finishStep writes the end of the open step.
func (p *printer) finishStep(sp *speaker, reason string, usage turn.Usage) {
	if !sp.stepping {
		return
	}
	sp.stepping = false
	f := p.f
	p.open(sp, "step-finish")
	if sp.agent.Own() {
		f.String("messageId", p.message)
	}
	f.Nest("stepResult")
	f.String("reason", reason)
	f.Bool("isContinued", reason == dialect.ReasonToolCalls && sp.agent.OpenCalls == 0)
	f.Close()
	p.usage(usage)
	p.shut(sp)
}

// usage writes the members output and metadata of the end of a step or a run, which clients read without looking whether there are any.
func (p *printer) usage(u turn.Usage) {
	f := p.f
	f.Nest("output")
	f.Nest("usage")
	f.Number("inputTokens", u.Input)
	f.Number("outputTokens", u.Output)
	f.Number("totalTokens", u.Input+u.Output)
	f.Int("cachedInputTokens", u.Cached)
	f.Int("cacheCreationInputTokens", u.CacheWrite)
	f.Close()
	f.Close()
	f.Raw("metadata", []byte("{}"))
}

// total returns the usage of all steps.
func (sp *speaker) total() (u turn.Usage) {
	for _, s := range sp.steps {
		u.Input += s.usage.Input
		u.Output += s.usage.Output
		u.Cached += s.usage.Cached
		u.CacheWrite += s.usage.CacheWrite
	}
	return u
}

// reason returns the finish reason of the last step that gave one.
func (sp *speaker) reason() string {
	for _, s := range slices.Backward(sp.steps) {
		if s.reason != "" {
			return s.reason
		}
	}
	return dialect.ReasonStop
}
