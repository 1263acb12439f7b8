package openai

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailrace/tailrace/workers"
)

// stepWriter writes the response of one attempt to a step. Calls are keyed by their index in the stream.
type stepWriter struct {
	step          *workers.Step
	runsInBrowser func(tool string) bool
	calls         []*call // in the order of their first piece
	byIndex       map[int64]*call

	answer    strings.Builder // the text, for a reminder
	reasoning strings.Builder // likewise
	emitted   bool            // output was written
	err       error           // write error of the step
}

// call is one call of the model.
type call struct {
	id, name string
	args     strings.Builder
	stepCall *workers.Call // nil until it is written
}

// newStepWriter returns a writer to s. runsInBrowser must be known at the first piece of the arguments.
func newStepWriter(s *workers.Step, runsInBrowser func(tool string) bool) *stepWriter {
	return &stepWriter{step: s, runsInBrowser: runsInBrowser, byIndex: map[int64]*call{}}
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

// call returns the call at an index, with its id and name if they are known. An index with another id and a
// name is another call: some servers use one index for all calls.
func (p *stepWriter) call(index int64, id, name string) *call {
	c := p.byIndex[index]
	if c == nil || id != "" && c.id != "" && id != c.id && name != "" {
		c = &call{}
		p.calls, p.byIndex[index] = append(p.calls, c), c
	}
	if c.id == "" {
		c.id = id
	}
	if c.name == "" {
		c.name = name
	}
	return c
}

// addArgs writes a piece of a call's arguments.
func (p *stepWriter) addArgs(ctx context.Context, c *call, piece string) error {
	if piece == "" || c.args.Len() > maxValue {
		return nil // exceeds the limit of a tool
	}
	c.args.WriteString(piece)
	if c.name == "" || c.name == finishTool {
		return nil
	}
	if c.stepCall == nil {
		piece = c.args.String() // includes the pieces before the name
	}
	return p.record(p.toStepCall(c).Args(ctx, piece))
}

// completeArgs writes the complete arguments of a call, of which a prefix may be written already.
func (p *stepWriter) completeArgs(ctx context.Context, c *call, args string) error {
	rest, ok := strings.CutPrefix(args, c.args.String())
	if !ok {
		// The final arguments differ from the pieces; they are used for the call.
		c.args.Reset()
		c.args.WriteString(args)
		return nil
	}
	return p.addArgs(ctx, c, rest)
}

// toStepCall returns the step's call for c, which it creates if necessary.
func (p *stepWriter) toStepCall(c *call) *workers.Call {
	if c.stepCall == nil {
		create := p.step.Tool
		if p.runsInBrowser(c.name) {
			create = p.step.ClientTool
		}
		c.stepCall = create(p.idOf(c), nameOf(c))
	}
	return c.stepCall
}

var callID = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// idOf returns the model's id of a call, or a generated one if the id is missing or invalid.
func (p *stepWriter) idOf(c *call) string {
	if callID.MatchString(c.id) {
		return c.id
	}
	n := 0
	for n < len(p.calls) && p.calls[n] != c {
		n++
	}
	return fmt.Sprintf("call_%d_%d", p.step.Number(), n)
}

// nameOf returns the tool name of a call, or "unknown" if it is invalid.
func nameOf(c *call) string {
	if toolName.MatchString(c.name) {
		return c.name
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
