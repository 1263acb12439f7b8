package mastra

import (
	"strconv"

	"github.com/tailrace/tailrace/internal/turn"
)

// text writes an event of a text. In a response that continues, only that of the session's agent begins again.
func (p *printer) text(e *turn.Event, sp *speaker) {
	kind := e.Agent.Block.Kind
	switch {
	case e.Again && (!sp.agent.Own() || sp.network || sp.workflow):
	case e.Kind == turn.BlockOpen:
		if !e.Again {
			sp.blockAt = append(sp.blockAt, e.Item.Rec.Ordinal)
		}
		p.openBlock(sp, kind, "-start")
		p.shut(sp)
	case e.Kind == turn.BlockDelta:
		p.openBlock(sp, kind, "-delta")
		p.f.Content("text", e.Text)
		p.shut(sp)
	case !sp.routes(kind):
		p.openBlock(sp, kind, "-end")
		p.shut(sp)
	}
}

// openBlock begins a chunk of the open text. Its id is its number among the texts of the agent in the turn.
func (p *printer) openBlock(sp *speaker, kind turn.BlockKind, what string) {
	if sp.routes(kind) {
		p.open(sp, "routing-agent-text"+what)
		if what == "-start" {
			p.runID(sp)
		}
		return
	}
	name := "text"
	if kind == turn.ReasoningBlock {
		name = "reasoning"
	}
	p.open(sp, name+what)
	p.f.Dst = append(strconv.AppendInt(append(p.f.Dst, `"id":"block-`...), int64(len(sp.blockAt)), 10), '"')
}

// routes reports whether a text of an agent is one of a network, which has chunks of its own for it, without an end.
func (sp *speaker) routes(kind turn.BlockKind) bool { return sp.network && kind == turn.TextBlock }
