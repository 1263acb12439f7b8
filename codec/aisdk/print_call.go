package aisdk

import (
	"bytes"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/internal/turn"
)

// call is what was written of a call. The client must answer the calls in steps.questions, which have their outcomes there until the next step.
type call struct {
	id         string // in the message
	client     bool   // the browser runs it
	ended      bool   // it has its outcome
	question   bool   // the client must answer it
	part       chunk.Part
	approved   []byte        // version 6: the frame that shows it approved, its input again
	again      []byte        // of a question: its latest frame, nil while it is open
	answeredAt chunk.Ordinal // record of that
}

var (
	emptyInput = []byte("{}")
	null       = []byte("null")
)

// callOf returns what was written of a call.
func callOf(c *turn.Call) *call {
	kept, isNew := turn.Kept[call](&c.Kept)
	if isNew {
		kept.id, kept.client = c.ID, c.Client
	}
	return kept
}

// triggersAutoPost reports whether an answered call makes the client post although another call is open: a call of the browser, and an approved call
// without an outcome.
func (c *call) triggersAutoPost() bool { return c.again != nil && (c.client || !c.ended) }

// unanswered reports whether the client has not answered a call.
func (c *call) unanswered() bool { return c.again == nil }

// setMembers sets what a record that begins the call says about its part.
func (c *call) setMembers(it *turn.Item, delegated bool) {
	if it.Rec.Type == chunk.TypeToolEnd || it.Rec.Type == chunk.TypeToolOutputError || it.Rec.Type == chunk.TypeToolApprovalResponse {
		return
	}
	part := it.Part()
	c.part.Static = c.part.Static || part.Static && !delegated && it.Text("toolName") != ""
	replace(&c.part.Title, part.Title)
	replace(&c.part.ToolMetadata, part.ToolMetadata)
	replace(&c.part.ProviderMetadata, part.ProviderMetadata)
}

// replace replaces a member that a record has. The record is gone when it is written.
func replace(to *chunk.Value, v chunk.Value) {
	if v != nil {
		*to = slices.Clone(v)
	}
}

// rememberFrame stores the last frame as the latest of a call that the client must answer.
func (c *call) rememberFrame(f *turn.Frames) {
	if c.question {
		c.again = bytes.Clone(f.Last())
	}
}

// call writes an event of a call.
func (p *printer) call(f *turn.Frames, e *turn.Event) {
	c := callOf(e.Call)
	switch e.Kind {
	case turn.InputOpen:
		if e.Again {
			if e.Call.Streaming {
				inputStart(f, e.Call, c, e.Call.Name)
			}
			return
		}
		p.beginCall(f, e, c)
		inputStart(f, e.Call, c, e.Item.Content("toolName"))
	case turn.InputDelta:
		p.markVisible(e)
		if of := (turn.PieceOf{Part: e.Call}); !f.Grow(e.Text, of) {
			f.Open("tool-input-delta")
			f.Content("toolCallId", e.Call.Shown)
			f.Piece("inputTextDelta", e.Text, of)
		}
	case turn.Started:
		c.setMembers(e.Item, e.Call.Delegated)
	case turn.Input:
		p.input(f, e, c)
	case turn.Ask:
		p.ask(f, e, c)
	case turn.Decision:
		p.decision(f, e, c)
	case turn.Outcome:
		p.outcome(f, e, c)
	}
}

// beginCall is called before the arguments of a call are written.
func (p *printer) beginCall(f *turn.Frames, e *turn.Event, c *call) {
	if e.Call.BeginsWith(e.Item) {
		if !p.steps.begun && !p.steps.open && slices.ContainsFunc(p.steps.questions, (*call).triggersAutoPost) {
			p.startStep(f, e) // if this is a question too, the client would post the old answer again
		}
		p.beginPart(f, e)
		if it := e.Item; !it.By.Own() && it.Rec.Type == chunk.TypeToolApprovalRequest && !it.Is("isAutomatic") {
			p.separateStep(f, e)
		}
	}
	c.setMembers(e.Item, e.Call.Delegated)
	p.markVisible(e)
}

func inputStart(f *turn.Frames, c *turn.Call, written *call, tool []byte) {
	f.Open("tool-input-start")
	f.Content("toolCallId", c.Shown)
	f.Content("toolName", tool)
	dynamic(f, written)
	optional(f, "title", written.part.Title)
	f.Shut()
}

func dynamic(f *turn.Frames, c *call) {
	f.Flag("dynamic", !c.part.Static)
	f.Flag("providerExecuted", !c.client)
}

// input writes the input of a call once: a second time the client would run its tool again. Users must see what they approve, also if the call began with another
// input. The SDK's validation of a history rejects an outcome without input, see package fold.
func (p *printer) input(f *turn.Frames, e *turn.Event, c *call) {
	if e.Unasked && !e.Call.BeginsWith(e.Item) && e.Item.Get("error") != nil {
		return // the outcome of an input that streams
	}
	c.client = c.client && !e.Unasked // too late for the browser
	p.beginCall(f, e, c)
	if !e.Again && e.Call.Delegated {
		e.Call.Mark[0] = p.steps.number
	}
	if e.Item.Rec.Type == chunk.TypeToolInputError {
		return // its own frame has the input
	}
	if !e.Again && c.client {
		c.question = true
		p.steps.questions = append(p.steps.questions, c)
	}
	input := e.Value
	if e.Unasked {
		input = emptyInput
	}
	inputAvailable(f, e, c, input)
}

func inputAvailable(f *turn.Frames, e *turn.Event, c *call, input []byte) {
	f.Open("tool-input-available")
	f.Content("toolCallId", e.Call.Shown)
	f.Raw("toolName", e.Item.Get("toolName"))
	sanitized(f, "input", input)
	dynamic(f, c)
	optional(f, "title", c.part.Title)
	optional(f, "toolMetadata", c.part.ToolMetadata)
	optional(f, "providerMetadata", c.part.ProviderMetadata)
	f.Shut()
}

// ask writes a request to the user. A request that a rule answers is not shown: clients of version 6 would still ask. Nor does a replay show one that is answered.
func (p *printer) ask(f *turn.Frames, e *turn.Event, c *call) {
	c.setMembers(e.Item, e.Call.Delegated)
	c.question, c.again = true, nil
	p.steps.questions = append(p.steps.questions, c)
	if p.opt.Major < 7 {
		var frames turn.Frames
		frames.Begin(nil, chunk.Cursor{})
		inputAvailable(&frames, e, c, e.Item.OrNull("input"))
		c.approved = frames.End()
		if e.Answered {
			return
		}
	}
	p.markVisible(e)
	f.Open("tool-approval-request")
	f.Content("approvalId", approvalID(e.Item))
	f.Content("toolCallId", e.Call.Shown)
	f.Shut()
}

// approvalID returns the id of an approval as the content of a JSON string.
func approvalID(it *turn.Item) []byte { return rawjson.AppendEscaped(nil, it.Text("approvalId")) }

// decision writes a decision. Version 6 has no chunk for it: the output of the tool, or the denial, updates its part.
func (p *printer) decision(f *turn.Frames, e *turn.Event, c *call) {
	p.markVisible(e)
	asked := e.Call.ApprovalID
	if p.opt.Major >= 7 && asked != nil && string(rawjson.Unescaped(asked)) == e.Item.Text("approvalId") {
		f.Open("tool-approval-response")
		f.Content("approvalId", approvalID(e.Item))
		f.Raw("approved", e.Item.Get("approved"))
		pass(f, e.Item, "reason")
		f.Shut()
		c.rememberFrame(f)
	}
	if e.Item.Is("approved") {
		c.answeredAt = e.Item.Rec.Ordinal
		if c.approved != nil && !c.client {
			c.again = c.approved
		}
	}
}

// outcome writes the outcome of a call.
func (p *printer) outcome(f *turn.Frames, e *turn.Event, c *call) {
	p.markVisible(e)
	c.ended, c.answeredAt = true, e.Item.Rec.Ordinal
	it, part := e.Item, e.Item.Part()
	switch {
	case e.Denied:
		f.Open("tool-output-denied")
		f.Content("toolCallId", e.Call.Shown)
	case it.Rec.Type == chunk.TypeToolInputError:
		c.setMembers(it, e.Call.Delegated)
		f.Open("tool-input-error")
		f.Content("toolCallId", e.Call.Shown)
		f.Raw("toolName", it.Get("toolName"))
		sanitized(f, "input", it.Get("partialInput")) // the client rejects the chunk without it
		f.Raw("errorText", e.Failure)
		f.Flag("dynamic", !c.part.Static)
		optional(f, "toolMetadata", part.ToolMetadata)
		optional(f, "providerMetadata", part.ProviderMetadata)
		// This includes tools of the browser: it does not run this call, and a step that ends with it must not look answered by the browser.
		f.Flag("providerExecuted", true)
	default:
		if e.Failure != nil {
			f.Open("tool-output-error")
			f.Content("toolCallId", e.Call.Shown)
			f.Raw("errorText", e.Failure)
		} else {
			f.Open("tool-output-available")
			f.Content("toolCallId", e.Call.Shown)
			sanitized(f, "output", e.Value)
		}
		f.Flag("dynamic", !c.part.Static)
		f.Flag("providerExecuted", it.Rec.Type == chunk.TypeToolOutputError || it.Is("providerExecuted")) // for client tools too
		optional(f, "toolMetadata", part.ToolMetadata)
		optional(f, "providerMetadata", part.ProviderMetadata)
	}
	f.Shut()
	c.rememberFrame(f)
}

// preliminary writes an output that a later one replaces. The snapshot does not have it, nor does a replay.
func (p *printer) preliminary(f *turn.Frames, e *turn.Event) {
	c, output := e.Turn.OpenCall(turn.CallKey{Agent: e.Agent.Session, ID: e.Item.Text("data", "toolCallId")}), e.Item.Get("data", "output")
	if c == nil || !c.Sent || c.ApprovalID != nil || output == nil || e.Turn.Replays() {
		return
	}
	f.Open("tool-output-available")
	f.Content("toolCallId", c.Shown)
	sanitized(f, "output", output)
	f.Flag("dynamic", !callOf(c).part.Static)
	f.Flag("preliminary", true)
	f.Shut()
}
