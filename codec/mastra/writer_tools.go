package mastra

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/turn"
)

// callOutput is what was written of a call.
type callOutput struct {
	input       []byte // to announce it again
	announcedAt chunk.Ordinal
	first       int  // the response in which its tool-call was first written, 0 for none
	announced   int  // the latest one
	streaming   int  // the response in which the start of its streamed arguments was written, 0 for none
	client      bool // a response ended so that the client runs it
}

// callOutputOf returns what was written of a call. One whose outcome was removed was written in some response.
func callOutputOf(c *turn.Call) *callOutput {
	o, ok := c.Kept.(*callOutput)
	if !ok {
		o = &callOutput{}
		if c.Mark != [2]uint64{} {
			o.first, o.announced = 1, 1
		}
		c.Kept, c.Mark[0] = o, 1
	}
	return o
}

// waits reports whether a call waits for the client, besides those that wait for an approval: for data, or to be run.
func (p *printer) waits(c *turn.Call) bool { return c.Suspended || waitsForClient(c) }

// waitsForClient reports whether a call that has no outcome where an answer waits is one that the client runs.
func waitsForClient(c *turn.Call) bool {
	return c.By.Own() && c.ApprovalID == nil && !c.Suspended && !c.Delegated && callOutputOf(c).announced > 0
}

// call writes an event of a call. The chunks of a network have the input and the outcome of its calls.
func (p *printer) call(e *turn.Event, sp *speaker) {
	it, c := e.Item, e.Call
	o, decides := callOutputOf(c), it != nil && it.Rec.Type == chunk.TypeToolApprovalResponse
	if sp.network && !decides {
		return
	}
	switch e.Kind {
	case turn.InputOpen:
		if !e.Again {
			p.streamStart(it, c)
		}
	case turn.InputDelta:
		p.inputDelta(e)
	case turn.InputClose:
		p.streamEnd(c)
	case turn.Input:
		if it.Rec.Type != chunk.TypeToolStart {
			p.announced(it, c, e.Value)
		} else if o.announced == 0 {
			p.announce(it, c, e.Value)
		}
	case turn.Ask:
		p.ask(it, c)
	case turn.Decision:
		if it.Is("approved") {
			p.approved(it, sp)
		}
	case turn.Outcome:
		p.outcome(it, sp, c)
	case turn.Late:
		switch {
		case it.HasCall() || p.late[c.Key] > 0:
		case decides && it.Is("approved"):
			p.approved(it, sp)
		default:
			if p.late == nil {
				p.late = make(map[turn.CallKey]chunk.Ordinal)
			}
			p.late[c.Key] = it.Rec.Ordinal
			p.outcome(it, sp, c)
		}
	}
}

// unknownTool is the name of the tool of a call whose first record does not have it.
var unknownTool = []byte("unknown")

// callHead writes the id of the call of a record and its tool.
func (p *printer) callHead(it *turn.Item, c *turn.Call) {
	p.f.Content("toolCallId", c.Local())
	if name := it.Get("toolName"); name != nil {
		p.f.Raw("toolName", name)
		return
	}
	name := c.Name
	if len(name) == 0 {
		name = unknownTool
	}
	p.f.Content("toolName", name)
}

func (p *printer) streamStart(it *turn.Item, c *turn.Call) {
	callOutputOf(c).streaming = p.response
	p.open(p.of(c.By), "tool-call-input-streaming-start")
	p.callHead(it, c)
	p.shut(p.of(c.By))
}

// inputDelta writes a piece of the arguments. The client stops its tools at a piece without a start in the response.
func (p *printer) inputDelta(e *turn.Event) {
	it, c, piece := e.Item, e.Call, e.Text
	o, sp := callOutputOf(c), p.of(c.By)
	if o.announced > 0 {
		return
	}
	if o.streaming != p.response {
		p.turn.CloseText(it)
		p.streamStart(it, c)
	}
	p.open(sp, "tool-call-delta")
	p.callHead(it, c)
	p.f.Content("argsTextDelta", piece)
	p.shut(sp)
}

func (p *printer) streamEnd(c *turn.Call) {
	o := callOutputOf(c)
	if o.streaming != p.response {
		return
	}
	o.streaming = 0
	p.open(p.of(c.By), "tool-call-input-streaming-end")
	p.f.Content("toolCallId", c.Local())
	p.shut(p.of(c.By))
}

// announce writes the call with its input. A call that has no outcome where a response ends is announced again before it has one.
func (p *printer) announce(it *turn.Item, c *turn.Call, input chunk.Value) {
	p.streamEnd(c)
	o, sp := callOutputOf(c), p.of(c.By)
	input = arguments(input)
	if len(o.input) == 0 {
		o.input = bytes.Clone(input)
	}
	o.announced, o.announcedAt = p.response, it.Rec.Ordinal
	o.first = cmp.Or(o.first, p.response)
	p.open(sp, "tool-call")
	p.callHead(it, c)
	p.f.Raw("args", input)
	p.shut(sp)
}

// announced announces a call unless it was announced in this response.
func (p *printer) announced(it *turn.Item, c *turn.Call, input chunk.Value) {
	o := callOutputOf(c)
	if o.announced == p.response {
		return
	}
	if o.input != nil {
		input = o.input
	}
	p.turn.CloseText(it)
	p.announce(it, c, input)
}

// outcome writes the outcome of a call. That of a call that the client ran after an earlier response is a notice. The client has it: Mastra's servers do not send it,
// and a call with that result would be run again at the end of this response, one without would stop the client's tools.
func (p *printer) outcome(it *turn.Item, sp *speaker, c *turn.Call) {
	o, denied := callOutputOf(c), it.Rec.Type == chunk.TypeToolApprovalResponse
	if !denied && o.client && o.announced != p.response && it.Rec.Type == chunk.TypeToolEnd && !it.Is("providerExecuted") {
		p.sendNotice(sp, "tool-result", func(f *turn.Frames) {
			p.callHead(it, c)
			f.Raw("result", it.OrNull("result"))
			f.Raw("error", it.Get("error"))
		})
		return
	}
	var input chunk.Value
	if it.Rec.Type == chunk.TypeToolInputError {
		input = it.Get("partialInput")
	}
	p.announced(it, c, input)
	switch {
	case denied:
		p.open(sp, "tool-output-denied")
		p.callHead(it, c)
		p.f.Nest("approval")
		p.f.Raw("id", it.Get("approvalId"))
		p.f.Bool("approved", false)
		p.f.Raw("reason", it.Get("reason"))
		p.f.Close()
	case it.Get("error") == nil:
		p.open(sp, "tool-result")
		p.callHead(it, c)
		p.f.Raw("result", it.OrNull("result"))
	default:
		p.open(sp, "tool-error")
		p.callHead(it, c)
		if input != nil {
			p.f.Raw("args", arguments(input))
		}
		p.f.Nest("error")
		p.f.Raw("message", it.Get("error"))
		p.f.Raw("code", it.Get("errorCode"))
		p.f.Close()
	}
	p.shut(sp)
}

// resumeSchema describes the answer to a request for approval.
const resumeSchema = `{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},"required":["approved"]}`

// ask writes a request to the user.
func (p *printer) ask(it *turn.Item, c *turn.Call) {
	input := it.Get("input")
	p.announced(it, c, input)
	sp := p.of(c.By)
	p.begin(sp, "tool-call-approval")
	p.approvalEnvelope(it, sp)
	p.f.Nest("payload")
	p.callHead(it, c)
	p.f.Raw("args", arguments(input))
	p.f.String("resumeSchema", resumeSchema)
	p.shut(sp)
}

// approvalEnvelope is envelope with the run that makes the client's id of the approval, run::call, that of the log.
func (p *printer) approvalEnvelope(it *turn.Item, sp *speaker) {
	run, ok := strings.CutSuffix(it.Text("approvalId"), "::"+it.Text("toolCallId"))
	if !ok || run == "" || !p.isOwn(sp) {
		p.envelope(sp)
		return
	}
	p.f.String("runId", run)
	p.f.Raw("from", []byte(`"AGENT"`))
}

// approved writes an approval, for which Mastra has no chunk.
func (p *printer) approved(it *turn.Item, sp *speaker) {
	p.sendNotice(sp, "tool-approval-response", func(f *turn.Frames) {
		for _, name := range []string{"toolCallId", "toolName", "approvalId", "approved", "reason"} {
			f.Raw(name, it.Get(name))
		}
	})
}
