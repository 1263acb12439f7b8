package openai

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailrace/tailrace/workers"
)

// speaker says to a step what an attempt hears from the model. The calls are keyed
// by their place in the stream.
type speaker struct {
	step     *workers.Step
	browsers func(tool string) bool
	calls    []*call // in the order in which they began
	now      map[int64]*call

	words strings.Builder // the text, for the model to be reminded of
	said  bool            // people have been shown something
	err   error           // why the step can say no more; what went wrong is not the model's
}

// call is one call that the model makes.
type call struct {
	id, name string
	args     strings.Builder
	told     *workers.Call // nil while nobody was told of it
}

// newSpeaker speaks in a step. What browsers reports is for a page to run, which
// must hear so with the first piece of the arguments.
func newSpeaker(s *workers.Step, browsers func(tool string) bool) *speaker {
	return &speaker{step: s, browsers: browsers, now: map[int64]*call{}}
}

func (p *speaker) text(ctx context.Context, piece string) error {
	if piece == "" {
		return nil
	}
	p.words.WriteString(piece)
	return p.did(p.step.Text(ctx, piece))
}

func (p *speaker) think(ctx context.Context, piece string) error {
	if piece == "" {
		return nil
	}
	return p.did(p.step.Think(ctx, piece))
}

// thought ends a block of reasoning.
func (p *speaker) thought(ctx context.Context) error { return p.did(p.step.Thought(ctx, "")) }

// call hears of the call at a place. It may be told of again, whole or in part. A
// place that gets another id and a name has another call: some servers give all
// calls the same place.
func (p *speaker) call(place int64, id, name string) *call {
	c := p.now[place]
	if c == nil || id != "" && c.id != "" && id != c.id && name != "" {
		c = &call{}
		p.calls, p.now[place] = append(p.calls, c), c
	}
	if c.id == "" {
		c.id = id
	}
	if c.name == "" {
		c.name = name
	}
	return c
}

// more hears a piece of a call's arguments, which people see at once.
func (p *speaker) more(ctx context.Context, c *call, piece string) error {
	if piece == "" || c.args.Len() > maxValue {
		return nil // more than a tool takes is not even kept
	}
	c.args.WriteString(piece)
	if c.name == "" || c.name == finishTool {
		return nil
	}
	if c.told == nil {
		piece = c.args.String() // all that came before the name did
	}
	return p.did(p.tell(c).Args(ctx, piece))
}

// whole hears all arguments of a call, of which a part may have been told.
func (p *speaker) whole(ctx context.Context, c *call, args string) error {
	rest, ok := strings.CutPrefix(args, c.args.String())
	if !ok {
		// What is said at the end counts: the call is begun with it.
		c.args.Reset()
		c.args.WriteString(args)
		return nil
	}
	return p.more(ctx, c, rest)
}

// tell is the call as the step has it.
func (p *speaker) tell(c *call) *workers.Call {
	if c.told == nil {
		begin := p.step.Tool
		if p.browsers(c.name) {
			begin = p.step.ClientTool
		}
		c.told = begin(p.idOf(c), nameOf(c))
	}
	return c.told
}

var callID = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// idOf is the model's id of a call, or one of ours for a server that has none, or
// an odd one.
func (p *speaker) idOf(c *call) string {
	if callID.MatchString(c.id) {
		return c.id
	}
	n := 0
	for n < len(p.calls) && p.calls[n] != c {
		n++
	}
	return fmt.Sprintf("call_%d_%d", p.step.Number(), n)
}

// nameOf is what the model calls the tool, as the log takes it. There is no tool
// of another name.
func nameOf(c *call) string {
	if toolName.MatchString(c.name) {
		return c.name
	}
	return "unknown"
}

// did keeps the error of a word.
func (p *speaker) did(err error) error {
	p.said = true
	if err != nil && p.err == nil {
		p.err = err
	}
	return err
}
