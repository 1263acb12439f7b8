package mastra

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// callOutput is what was written of a call without an outcome.
type callOutput struct {
	input     []byte // of its first tool-call
	streaming int    // the response in which the start of its arguments was written, 0 for none, or if their end was
}

// Call.Mark, which is kept with the outcome, has twice the number of the response in which the tool-call of a call was written last, 0 for none, plus ranByClient, and
// the record that wrote it.
const ranByClient = 1 // a response ended so that the client runs the call

// announcedIn returns the response in which the tool-call of a call was written last, 0 for none.
func announcedIn(c *turn.Call) int { return int(c.Mark[0] / 2) }

func callOutputOf(c *turn.Call) *callOutput {
	o, _ := turn.Kept[callOutput](&c.Kept)
	return o
}

// removeOutput reverts what removed records wrote of a call. One whose arguments were not removed was announced in an earlier response, too.
func (p *printer) removeOutput(c *turn.Call, taken func(chunk.Ordinal) bool) {
	callOutputOf(c).streaming = 0
	switch {
	case !c.Sent:
		c.Kept, c.Mark = nil, [2]uint64{}
	case taken(chunk.Ordinal(c.Mark[1])):
		c.Mark = [2]uint64{2*uint64(p.response-1) | c.Mark[0]&ranByClient}
	}
}

// waitsForClient reports whether a call that has no outcome where an answer waits is one that the client runs: one of the session's agent that was written.
func (p *printer) waitsForClient(c *turn.Call) bool {
	return c.By.Own() && announcedIn(c) > 0 && p.turn.WaitsForClient(c)
}

// call writes an event of a call. The chunks of a network have the input and the outcome of its calls.
func (p *printer) call(e *turn.Event, sp *speaker) {
	it, c := e.Item, e.Call
	decides := it.Rec.Type == chunk.TypeToolApprovalResponse
	if sp.network && !decides {
		return
	}
	switch e.Kind {
	case turn.InputOpen:
		p.inputStart(it, sp, c)
	case turn.InputDelta:
		p.inputDelta(e, sp)
	case turn.InputClose:
		p.inputEnd(sp, c)
	case turn.Input:
		if it.Rec.Type != chunk.TypeToolStart || announcedIn(c) == 0 {
			p.announce(it, sp, c, e.Value)
		}
	case turn.Ask:
		p.ask(it, sp, c)
	case turn.Decision, turn.Outcome, turn.Late:
		switch approves := decides && it.Is("approved"); {
		case e.Kind == turn.Late && (it.HasCall() || p.late[c.Key] > 0):
		case approves:
			p.approved(it, sp)
		case e.Kind != turn.Decision:
			if e.Kind == turn.Late {
				p.late[c.Key] = it.Rec.Ordinal
			}
			p.outcome(it, sp, c)
		}
	}
}

// callHead writes the id of the call of a record and its tool.
func (p *printer) callHead(it *turn.Item, c *turn.Call) {
	p.f.Content("toolCallId", c.Local())
	if name := it.Get("toolName"); name != nil {
		p.f.Raw("toolName", name)
		return
	}
	p.f.Content("toolName", []byte(cmp.Or(string(c.Name), "unknown"))) // its first record may not have it
}

func (p *printer) inputStart(it *turn.Item, sp *speaker, c *turn.Call) {
	callOutputOf(c).streaming = p.response
	p.open(sp, "tool-call-input-streaming-start")
	p.callHead(it, c)
	p.shut(sp)
}

// inputDelta writes a piece of the arguments. The client stops its tools at a piece without a start in the response.
func (p *printer) inputDelta(e *turn.Event, sp *speaker) {
	it, c := e.Item, e.Call
	if announcedIn(c) > 0 {
		return
	}
	if callOutputOf(c).streaming != p.response {
		p.turn.CloseText(it)
		p.inputStart(it, sp, c)
	}
	p.open(sp, "tool-call-delta")
	p.callHead(it, c)
	p.f.Content("argsTextDelta", e.Text)
	p.shut(sp)
}

// inputEnd writes the end of arguments that stream in this response.
func (p *printer) inputEnd(sp *speaker, c *turn.Call) {
	o := callOutputOf(c)
	if o.streaming != p.response {
		return
	}
	o.streaming = 0
	p.open(sp, "tool-call-input-streaming-end")
	p.f.Content("toolCallId", c.Local())
	p.shut(sp)
}

// announce writes a call with its input unless this response has it. A call that has no outcome where a response ends is announced again before it has one.
func (p *printer) announce(it *turn.Item, sp *speaker, c *turn.Call, input chunk.Value) {
	if announcedIn(c) == p.response {
		return
	}
	p.turn.CloseText(it)
	p.inputEnd(sp, c)
	o := callOutputOf(c)
	if o.input == nil {
		o.input = bytes.Clone(arguments(input))
	}
	c.Mark = [2]uint64{2*uint64(p.response) | c.Mark[0]&ranByClient, uint64(it.Rec.Ordinal)}
	p.open(sp, "tool-call")
	p.callHead(it, c)
	p.f.Raw("args", o.input)
	p.shut(sp)
}

// outcome writes the outcome of a call. That of a call that the client ran after an earlier response is a notice. The client has it: Mastra's servers do not send it,
// and a call with that result would be run again at the end of this response, one without would stop the client's tools.
func (p *printer) outcome(it *turn.Item, sp *speaker, c *turn.Call) {
	denied, ran := it.Rec.Type == chunk.TypeToolApprovalResponse, c.Mark[0]&ranByClient != 0 && announcedIn(c) != p.response
	if ran && it.Rec.Type == chunk.TypeToolEnd && !it.Is("providerExecuted") {
		p.sendNotice(sp, "tool-result", func(o *rawjson.Object) {
			p.callHead(it, c)
			o.Raw("result", it.OrNull("result"))
			o.Raw("error", it.Get("error"))
		})
		return
	}
	var input chunk.Value
	if it.Rec.Type == chunk.TypeToolInputError {
		input = it.Get("partialInput")
	}
	p.announce(it, sp, c, input)
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
func (p *printer) ask(it *turn.Item, sp *speaker, c *turn.Call) {
	input := it.Get("input")
	p.announce(it, sp, c, input)
	p.begin(sp, "tool-call-approval")
	if run, ok := strings.CutSuffix(it.Text("approvalId"), "::"+it.Text("toolCallId")); ok && run != "" && sp.agent.Own() {
		p.f.String("runId", run) // the client makes the id of the approval from it and the id of the call
		p.f.Raw("from", []byte(`"AGENT"`))
	} else {
		p.envelope(sp)
	}
	p.f.Nest("payload")
	p.callHead(it, c)
	p.f.Raw("args", arguments(input))
	p.f.String("resumeSchema", resumeSchema)
	p.shut(sp)
}

// approved writes an approval, for which Mastra has no chunk.
func (p *printer) approved(it *turn.Item, sp *speaker) {
	p.sendNotice(sp, "tool-approval-response", func(o *rawjson.Object) {
		for _, name := range []string{"toolCallId", "toolName", "approvalId", "approved", "reason"} {
			o.Raw(name, it.Get(name))
		}
	})
}
