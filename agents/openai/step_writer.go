package openai

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailrace/tailrace/internal/openaistream"
	"github.com/tailrace/tailrace/workers"
)

// stepWriter writes the response of one attempt to a step.
type stepWriter struct {
	step          *workers.Step
	runsInBrowser func(tool string) bool
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
func newStepWriter(s *workers.Step, runsInBrowser func(tool string) bool) *stepWriter {
	return &stepWriter{step: s, runsInBrowser: runsInBrowser}
}

func (p *stepWriter) text(ctx context.Context, piece string) error {
	if piece == "" {
		return nil
	}
	p.answer.WriteString(piece)
	return p.record(p.step.Text(ctx, piece))
}

func (p *stepWriter) think(ctx context.Context, piece string) error {
	if piece == "" {
		return nil
	}
	p.reasoning.WriteString(piece)
	return p.record(p.step.Think(ctx, piece))
}

// thought ends a block of reasoning.
func (p *stepWriter) thought(ctx context.Context) error { return p.record(p.step.EndThinking(ctx, "")) }

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
