package httpagent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/workers"
)

// writeChunk writes a chunk that does not begin or end a step.
func (w *stepWriter) writeChunk(ctx context.Context, c chunk.Chunk) error {
	if c.AgentID != w.session {
		return w.writeSubagent(ctx, c)
	}
	switch b := c.Body.(type) {
	case chunk.StepEnd:
		return w.stepEnd(b)
	case chunk.Error:
		if !b.Recoverable {
			w.problem = &b
			return nil
		}
		return w.emit(ctx, b)
	case chunk.Custom:
		return w.writeCustom(ctx, c, b)
	case chunk.RunInterrupted:
		w.aborted = true
		return nil
	case chunk.SubagentStart, chunk.SubagentEnd:
		return w.writeSubagent(ctx, c)
	case chunk.ToolArgStreamStart, chunk.ToolArgStreamDelta, chunk.ToolArgStreamEnd, chunk.ToolStart, chunk.ToolInputError,
		chunk.ToolEnd, chunk.ToolOutputError, chunk.ToolApprovalRequest, chunk.ToolApprovalResponse:
		return w.writeCall(ctx, c)
	}
	if c.Type().Control() || w.isOwnedBySDK(c.Type()) {
		return nil // the SDK writes these
	}
	return w.emit(ctx, c.Body, c.Extra...)
}

// writeCustom writes an event.
func (w *stepWriter) writeCustom(ctx context.Context, c chunk.Chunk, b chunk.Custom) error {
	switch b.EventName {
	case resetStep:
		return errStepReset
	case chunk.MetadataEvent:
		return w.step.Emit(ctx, b, c.Extra...) // it belongs to the step that follows
	case chunk.PreliminaryEvent:
		id, _ := rawjson.Text(rawjson.Get(b.Data, "toolCallId")).Unquote() // it was translated
		known := w.calls[id]
		if known == nil || !known.started || known.done || known.ID() != id {
			return nil // readers could not find the call
		}
	}
	return w.emit(ctx, b, c.Extra...)
}

// isOwnedBySDK reports whether Step.Emit rejects chunks of a type.
func (w *stepWriter) isOwnedBySDK(t chunk.Type) bool {
	return t == chunk.TypeCheckpointCreated || t == chunk.TypeStepCommitted || t == chunk.TypeStepDiscarded
}

func (w *stepWriter) emit(ctx context.Context, b chunk.Body, extra ...chunk.Member) error {
	w.written = true
	return w.step.Emit(ctx, b, extra...)
}

// writeSubagent carries a chunk of a sub-agent that the endpoint runs, whose session no worker has.
func (w *stepWriter) writeSubagent(ctx context.Context, c chunk.Chunk) error {
	text, err := c.AppendJSON(nil)
	if err != nil {
		return err
	}
	return w.emit(ctx, chunk.Custom{EventName: w.dialect + ".subagent-chunk", Data: text})
}

func (w *stepWriter) stepEnd(b chunk.StepEnd) error {
	for _, m := range []struct {
		to   *string
		from *string
	}{{&w.model.Name, b.Model}, {&w.model.Requested, b.RequestModel}, {&w.model.Provider, b.Provider}} {
		if m.from != nil {
			*m.to = *m.from
		}
	}
	errs := []error{w.step.Model(w.model)}
	if b.Usage != nil {
		errs = append(errs, w.step.Usage(*b.Usage))
	}
	if b.FinishReason != nil {
		errs = append(errs, w.step.SetFinishReason(*b.FinishReason))
	}
	return errors.Join(errs...)
}

// writeCall writes a chunk of a tool call.
func (w *stepWriter) writeCall(ctx context.Context, whole chunk.Chunk) error {
	switch b := whole.Body.(type) {
	case chunk.ToolArgStreamStart:
		w.call(b.ToolCallID, b.ToolName).begin(whole.Extra)
	case chunk.ToolArgStreamDelta:
		if c := w.calls[b.ToolCallID]; c != nil && !c.isSubagent() {
			return c.Args(ctx, b.Delta)
		}
	case chunk.ToolStart:
		c := w.call(b.ToolCallID, b.ToolName)
		c.begin(whole.Extra)
		return w.start(ctx, c, b.Arguments)
	case chunk.ToolInputError:
		c := w.call(b.ToolCallID, b.ToolName)
		c.SetExtra(whole.Extra...)
		c.done = true
		var partial any
		if b.PartialInput != nil {
			partial = *b.PartialInput
		}
		return c.Reject(ctx, b.Error, partial)
	case chunk.ToolEnd:
		if b.Error != nil {
			return w.failCall(ctx, b.ToolCallID, *b.Error, workers.CodeToolFailed, whole.Extra...)
		}
		return w.complete(ctx, b.ToolCallID, func(c *workers.Call) error {
			c.SetExtra(whole.Extra...)
			return c.End(ctx, b.Result)
		})
	case chunk.ToolOutputError:
		return w.failCall(ctx, b.ToolCallID, b.Error, workers.CodeToolFailed)
	case chunk.ToolApprovalRequest:
		if b.IsAutomatic == nil || !*b.IsAutomatic {
			c := w.call(b.ToolCallID, b.ToolName)
			if w.dialect == AGUI || w.dialect == Mastra {
				if err := w.emit(ctx, approvalOf(w.dialect, c.ID(), b.ApprovalID)); err != nil {
					return err
				}
			}
			return w.askApproval(ctx, c, b.Input)
		}
	case chunk.ToolApprovalResponse:
		if !b.Approved { // of a call of this response: a rule of the endpoint has denied it. The log has the decisions of users
			return w.complete(ctx, b.ToolCallID, func(c *workers.Call) error { return c.Deny(ctx, b.ApprovalID, b.Reason) })
		}
	}
	return nil
}

// call returns the call with the endpoint's id, a new one if there is none.
func (w *stepWriter) call(id, name string) *call {
	c := w.calls[id]
	if c == nil {
		c = &call{Call: w.step.ClientTool(id, name), name: name}
		w.calls[id] = c
		w.order = append(w.order, c)
		w.written = true
	}
	return c
}

// begin sets the additional members of the chunks that begin the call.
func (c *call) begin(extra []chunk.Member) {
	c.SetExtra(extra...)
	c.provider = chunk.RunByProvider(extra)
}

func (c *call) isSubagent() bool { return strings.HasPrefix(c.name, subagentPrefix) }

// start writes the input of a call. That of a sub-agent's call waits for its outcome, or for the end of the response: then the call is delegated.
func (w *stepWriter) start(ctx context.Context, c *call, input chunk.Value) error {
	if c.isSubagent() {
		c.input = input
		return nil
	}
	if err := c.Start(ctx, input); err != nil {
		return err
	}
	c.started = true
	return nil
}

// complete writes the outcome of a call of this step, or of an approved one. The outcome of another call is ignored: the log has it.
func (w *stepWriter) complete(ctx context.Context, id string, write func(*workers.Call) error) error {
	if c := w.approved[id]; c != nil {
		delete(w.approved, id)
		w.written = true
		return write(c)
	}
	c := w.calls[id]
	if c == nil || c.done {
		return nil
	}
	if !c.started {
		input := c.input
		if input == nil {
			input = chunk.Value(`{}`)
		}
		if err := c.Start(ctx, input); err != nil {
			return err
		}
	}
	c.done, c.input = true, nil
	return write(c.Call)
}

func (w *stepWriter) failCall(ctx context.Context, id, text, code string, extra ...chunk.Member) error {
	return w.complete(ctx, id, func(c *workers.Call) error {
		c.SetExtra(extra...)
		return c.Fail(ctx, &workers.Error{Message: text, Code: code})
	})
}

// askApproval suspends the run at the end of the response.
func (w *stepWriter) askApproval(ctx context.Context, c *call, input chunk.Value) error {
	if c.done {
		return fmt.Errorf("approval of call %q: %w: it has an outcome", c.ID(), chunk.ErrInvalid)
	}
	c.done = true
	if c.started {
		return c.AwaitApproval(ctx, w.until())
	}
	return c.AskApproval(ctx, input, w.until())
}

// failApproved ends the approved calls whose outcome the endpoint did not report. Without an outcome the step could not be committed.
func (w *stepWriter) failApproved(ctx context.Context) error {
	for id := range w.approved {
		if err := w.failCall(ctx, id, userMessages[CodeNoOutcome], CodeNoOutcome); err != nil {
			return err
		}
	}
	return nil
}
