package httpagent

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// approvalEvent is the custom event with the endpoint's id of an approval, behind the name of the dialect. The log has an id of its own for the approval, and the
// endpoint wants its own.
const approvalEvent = ".approval"

// aguiBody returns a RunAgentInput. The client's own one, which POST /api/agui keeps in the metadata of the message, has the tools that the client runs, the context
// and the state.
func aguiBody(t *workers.Turn) any {
	history, client := t.Messages(), clientInput(t)
	req := agui.RunRequest{
		ThreadID: t.Session().ID, RunID: t.RunID(), ParentRunID: client.ParentRunID, History: history, State: t.State(),
		Tools: client.Tools, Context: client.Context, ForwardedProps: t.Params(),
	}
	if state := newState(t, client); state != nil {
		req.State = state
	}
	if req.ForwardedProps.IsNull() {
		req.ForwardedProps = client.ForwardedProps
	}
	if n := len(history); n > 0 {
		req.Resume = resumedInterrupts(history[n-1])
	}
	return json.RawMessage(agui.AppendRunInput(nil, req))
}

// clientInput returns what the client of the turn has sent besides messages: the member "agui" in the metadata of its last message. It is zero if there is none, or an
// invalid one: chats may send any metadata.
func clientInput(t *workers.Turn) agui.RunInput {
	input := t.Input()
	if len(input) == 0 || input[len(input)-1].Metadata == nil {
		return agui.RunInput{}
	}
	sent := rawjson.Get(*input[len(input)-1].Metadata, dialect.AGUI)
	if rawjson.Kind(sent) != '{' {
		return agui.RunInput{}
	}
	o := rawjson.Begin(nil)
	o.String("threadId", t.Session().ID)
	o.String("runId", t.RunID())
	o.Raw("messages", []byte("[]"))
	for _, name := range []string{"parentRunId", "tools", "context", "state", "forwardedProps"} {
		o.Raw(name, rawjson.Get(sent, name))
	}
	in, err := agui.ParseRunInput(o.End())
	if err != nil {
		return agui.RunInput{}
	}
	return in
}

// newState returns the state with which the client has begun the turn, nil for none: that of the log may have changed since.
func newState(t *workers.Turn, client agui.RunInput) chunk.Value {
	if t.Steps() > 0 || rawjson.Kind(client.State) != '{' {
		return nil
	}
	return client.State
}

// takeState stores the state of the client before the agent changes it: the agent may send a patch of it, which must apply.
func (a *Agent) takeState(ctx context.Context, t *workers.Turn, s *workers.Step) error {
	if a.cfg.Dialect != AGUI {
		return nil
	}
	state := newState(t, clientInput(t))
	if state == nil {
		return nil
	}
	err := s.SetState(ctx, state)
	if errors.Is(err, chunk.ErrInvalid) {
		a.cfg.Log.WarnContext(ctx, "state of the client not stored", "session", t.Session().String(), "run", t.RunID(), "error", err)
		return nil
	}
	return err
}

// resumedInterrupts returns the answers to the interrupts of the last step.
func resumedInterrupts(m fold.Message) []agui.Answer {
	interrupts := make(map[string]string) // of approvals, by call
	for _, p := range m.Parts {
		if p.Data != nil && p.Data.Name == dialect.AGUI+approvalEvent {
			call, _ := rawjson.Text(rawjson.Get(p.Data.Value, "toolCallId")).Unquote()             // it was written by approvalOf
			interrupts[call], _ = rawjson.Text(rawjson.Get(p.Data.Value, "interruptId")).Unquote() // likewise
		}
	}
	var list []agui.Answer
	for _, c := range m.Calls() {
		approval := interrupts[c.ID]
		switch {
		case c.Name == agui.InterruptTool:
			list = append(list, agui.Answer{InterruptID: c.ID, Cancelled: c.State != fold.CallDone, Payload: c.Output})
		case approval == "":
		case c.State == fold.CallApproved:
			list = append(list, agui.Answer{InterruptID: approval, Payload: chunk.Value(`{"approved":true}`)})
		case c.State == fold.CallDenied:
			o := rawjson.Begin(nil)
			o.Bool("approved", false)
			if c.Approval != nil {
				o.Maybe("reason", c.Approval.Reason)
			}
			list = append(list, agui.Answer{InterruptID: approval, Payload: o.End()})
		case c.State == fold.CallFailed: // no user has decided in time
			list = append(list, agui.Answer{InterruptID: approval, Cancelled: true})
		}
	}
	return list
}

// approvalOf returns the event that keeps the endpoint's id of an approval.
func approvalOf(name, callID, interruptID string) chunk.Custom {
	o := rawjson.Begin(nil)
	o.String("toolCallId", callID)
	o.String("interruptId", interruptID)
	return chunk.Custom{EventName: name + approvalEvent, Data: o.End()}
}
