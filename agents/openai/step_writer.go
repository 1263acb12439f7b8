package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/workers"
)

// stepWriter writes the response of one attempt to a step.
type stepWriter struct {
	step          *workers.Step
	runsInBrowser func(tool string) bool
	endpoint      string  // see endpointOf
	calls         []*call // in the order of their first piece

	answer    strings.Builder // the text, for a reminder
	reasoning strings.Builder // likewise
	emitted   bool            // output was written
	nothing   bool            // no event was read
	err       error           // write error of the step
}

// call is one call of the model.
type call struct {
	*openaistream.Call

	stepCall *workers.Call // nil until it is written
}

// newStepWriter returns a writer to s. runsInBrowser must be known at the first piece of the arguments.
func newStepWriter(s *workers.Step, runsInBrowser func(tool string) bool, endpoint string) *stepWriter {
	return &stepWriter{step: s, runsInBrowser: runsInBrowser, endpoint: endpoint}
}

func (p *stepWriter) text(ctx context.Context, piece string, extra []chunk.Member) error {
	if piece == "" && extra == nil {
		return nil
	}
	p.answer.WriteString(piece)
	return p.record(p.step.Emit(ctx, chunk.TextDelta{Delta: piece}, extra...))
}

func (p *stepWriter) think(ctx context.Context, b chunk.Thinking, extra []chunk.Member) error {
	if b.Content == "" && !b.IsComplete {
		return nil
	}
	p.reasoning.WriteString(b.Content)
	err := p.step.Emit(ctx, b, extra...)
	if errors.Is(err, chunk.ErrInvalid) && extra != nil { // the state is too large for a chunk
		err = p.step.Emit(ctx, b)
	}
	return p.record(err)
}

// other writes a source, an image or an event. It alone is not an answer, and an invalid one is left out.
func (p *stepWriter) other(ctx context.Context, b chunk.Body) error {
	if _, ok := b.(chunk.Custom); ok {
		emitted := p.emitted
		defer func() { p.emitted = emitted }()
	}
	err := p.step.Emit(ctx, b)
	if errors.Is(err, chunk.ErrInvalid) {
		return nil // no other part of the response depends on it
	}
	return p.record(err)
}

// callDone writes a call that the endpoint has run. Its outcome is not known.
func (p *stepWriter) callDone(ctx context.Context, c *call) error {
	if !c.Provider {
		return nil
	}
	p.calls = slices.DeleteFunc(p.calls, func(o *call) bool { return o == c })
	input := chunk.Value(c.Arguments())
	if rawjson.Kind(input) != '{' || !json.Valid(input) {
		return p.other(ctx, openaistream.Custom("call", input))
	}
	return p.record(p.provided(ctx, c.stepCall, p.idOf(c), nameOf(c), input, nil))
}

// serverCall writes a call of an MCP server, which the endpoint has made.
func (p *stepWriter) serverCall(ctx context.Context, item chunk.Value) error {
	start, end := openaistream.ServerCallOf(item)
	return p.record(p.provided(ctx, nil, start.ToolCallID, start.ToolName, start.Arguments, &end))
}

// provided writes a call of the endpoint, with its outcome if it has one.
func (p *stepWriter) provided(ctx context.Context, c *workers.Call, id, name string, input chunk.Value, end *chunk.ToolEnd) error {
	if c == nil {
		c = p.step.Tool(id, name)
	}
	c.SetExtra(chunk.RunBy(true))
	if err := c.Start(ctx, input); err != nil {
		return err
	}
	c.SetExtra()
	switch {
	case end == nil:
		return c.EndUnknown()
	case end.Error != nil:
		return c.Fail(ctx, &workers.Error{Message: *end.Error, Code: workers.CodeToolFailed})
	}
	return c.End(ctx, end.Result)
}

// call returns the call of a stream.
func (p *stepWriter) call(in *openaistream.Call) *call {
	for _, c := range p.calls {
		if c.Call == in {
			return c
		}
	}
	c := &call{Call: in}
	p.calls = append(p.calls, c)
	return c
}

// writeArgs writes a piece of a call's arguments.
func (p *stepWriter) writeArgs(ctx context.Context, c *call, piece string) error {
	if c.Name == finishTool {
		return nil
	}
	return p.record(p.toStepCall(c).Args(ctx, piece))
}

// toStepCall returns the step's call for c, which it creates if necessary.
func (p *stepWriter) toStepCall(c *call) *workers.Call {
	if c.stepCall == nil {
		create := p.step.Tool
		if p.runsInBrowser(c.Name) {
			create = p.step.ClientTool
		}
		c.stepCall = create(p.idOf(c), nameOf(c))
		c.stepCall.SetExtra(p.extra(c.State)...)
	}
	return c.stepCall
}

var callID = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// idOf returns the model's id of a call, or a generated one if the id is missing or invalid.
func (p *stepWriter) idOf(c *call) string {
	if callID.MatchString(c.ID) {
		return c.ID
	}
	return fmt.Sprintf("call_%d_%d", p.step.Number(), c.Index)
}

// nameOf returns the tool name of a call, or "unknown" if it is invalid.
func nameOf(c *call) string {
	if toolName.MatchString(c.Name) {
		return c.Name
	}
	return "unknown"
}

// record records the first error.
func (p *stepWriter) record(err error) error {
	p.emitted = true
	if err != nil && p.err == nil {
		p.err = err
	}
	return err
}
