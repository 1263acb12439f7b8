package openai

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/workers"
)

// Agent answers turns with a model. Any number of runs may use it at once. It
// keeps nothing between two steps.
type Agent struct {
	cfg   Config
	wire  wire
	tools []*tool
}

var _ workers.Agent = (*Agent)(nil)

// New checks a configuration. It asks the endpoint nothing.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	tools, err := toolsOf(cfg)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	a := &Agent{cfg: cfg, tools: tools}
	if cfg.API == Responses {
		a.wire = newResponsesWire(cfg.Model, a.options())
	} else {
		a.wire = newChatWire(cfg.Model, a.options())
	}
	return a, nil
}

// Answer goes from step to step until the model has nothing more to do.
func (a *Agent) Answer(ctx context.Context, t *workers.Turn) error {
	for {
		if a.cfg.MaxSteps > 0 && t.Steps() >= a.cfg.MaxSteps {
			return stepLimit(a.cfg.MaxSteps)
		}
		if over, err := a.step(ctx, t); err != nil || over {
			return err
		}
	}
}

// step does one step, in as many attempts as it takes.
func (a *Agent) step(ctx context.Context, t *workers.Turn) (over bool, err error) {
	tries := &attempts{retry: a.cfg.Retry}
	for {
		err = t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if granted := s.Granted(); len(granted) > 0 {
				over = false
				s.Finish(finishCalls)
				return a.runAll(ctx, t, s, granted)
			}
			var err error
			over, err = a.think(ctx, t, s, tries)
			return err
		})
		if !errors.Is(err, errSpoken) {
			return over, err
		}
	}
}

// think asks the model, and does what it says. Over reports that it was the last
// step.
func (a *Agent) think(ctx context.Context, t *workers.Turn, s *workers.Step, tries *attempts) (over bool, err error) {
	q := question{system: a.cfg.System, said: entriesOf(t.Messages()), tools: a.tools, must: a.cfg.Output != nil}
	var spent tokens
	for reminders := 0; ; reminders++ {
		p, end, err := a.ask(ctx, s, q, tries)
		if err != nil {
			return false, err
		}
		if spent.add(end.spent); spent.known {
			s.Usage(spent.usage())
		}
		s.Finish(end.finish)
		again, over, err := a.act(ctx, t, s, p, end)
		if err != nil || again == nil {
			return over, err
		}
		if reminders == maxReminders {
			return false, &workers.Error{Message: "the model ended without the answer that it was to give", Code: workers.CodeInvalidTool}
		}
		q.said = append(slices.Clip(q.said), again...)
	}
}

// maxReminders is how often a model is reminded in one step of the output that it
// owes.
const maxReminders = 2

// act does what an answer asks for. If that was not the output that it should
// have been, again is what the model hears before it is asked once more.
func (a *Agent) act(ctx context.Context, t *workers.Turn, s *workers.Step, p *speaker, end ending) (again []entry, over bool, err error) {
	if i := slices.IndexFunc(p.calls, func(c *call) bool { return c.name == finishTool && a.find(finishTool) != nil }); i >= 0 {
		return a.finish(ctx, s, p, p.calls[i])
	}
	if len(p.calls) > 0 {
		return nil, false, a.actOn(ctx, t, s, p.calls, p)
	}
	switch {
	case a.cfg.Output != nil && end.finish != finishFiltered:
		return []entry{{role: model, text: p.words.String()}, {role: person, text: "Give your final answer by calling " + finishTool + "."}}, false, nil
	case !p.said && end.finish == finishFiltered, a.cfg.Output != nil:
		return nil, false, (&failure{code: CodeContentFiltered, cause: errFiltered}).told()
	}
	s.Final()
	return nil, true, nil
}

// finish ends the run with the arguments of a call of __finish__. Its siblings
// are not run (helix.md, RL-15).
func (a *Agent) finish(ctx context.Context, s *workers.Step, p *speaker, last *call) (again []entry, over bool, err error) {
	output, _, bad := a.find(finishTool).read(last.args.String())
	for i, c := range p.calls {
		if c.name == finishTool {
			continue
		}
		text := "not run: the answer was finished in the same step"
		if bad != nil {
			text = "not run: " + finishTool + " is to be called alone"
		}
		if err := p.did(p.tell(p.calls[i]).Reject(ctx, text, nil)); err != nil {
			return nil, false, err
		}
	}
	if bad != nil {
		e := entry{role: model, text: p.words.String(), calls: []said{{id: p.idOf(last), name: finishTool, args: last.args.String()}}}
		return []entry{e, {role: outcome, call: p.idOf(last), text: "error: " + bad.Error()}}, false, nil //nolint:nilerr // the model hears of it
	}
	s.Finish(finishStop)
	return nil, true, s.Output(ctx, output)
}

// actOn says what becomes of each call, and runs those that are ours.
func (a *Agent) actOn(ctx context.Context, t *workers.Turn, s *workers.Step, calls []*call, p *speaker) error {
	var run []*workers.Call
	for _, c := range calls {
		ours, err := a.decide(ctx, c, p)
		if err != nil {
			return err
		}
		if ours {
			run = append(run, p.tell(c))
		}
	}
	return a.runAll(ctx, t, s, run)
}

// decide says who does a call. Ours reports that it is to be run here, and now.
func (a *Agent) decide(ctx context.Context, c *call, p *speaker) (ours bool, err error) {
	told := p.tell(c)
	t := a.find(c.name)
	if t == nil {
		return false, p.did(told.Reject(ctx, fmt.Sprintf("there is no tool %.80q", c.name), nil))
	}
	input, partial, bad := t.read(c.args.String())
	if bad != nil {
		return false, p.did(told.Reject(ctx, bad.Error(), partial))
	}
	var deadline time.Time
	if t.Deadline > 0 {
		deadline = time.Now().Add(t.Deadline)
	}
	switch {
	case t.kind == browsers:
		return false, p.did(told.AskClient(ctx, input, deadline))
	case t.kind == child:
		return false, p.did(told.Delegate(ctx, input))
	case t.Approve != nil && t.Approve(input):
		return false, p.did(told.AskApproval(ctx, input, deadline))
	}
	return true, p.did(told.Start(ctx, input))
}

// runAll runs calls side by side and says what came of them.
func (a *Agent) runAll(ctx context.Context, t *workers.Turn, s *workers.Step, calls []*workers.Call) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.cfg.Parallel)
	for _, c := range calls {
		group.Go(func() error {
			tool := a.find(c.Name())
			if tool == nil || tool.kind != ours {
				// It was allowed when the agent still had it.
				return c.Fail(ctx, fmt.Errorf("there is no tool %.80q any more", c.Name()))
			}
			result, err := a.run(ctx, tool, Call{ID: c.ID(), Key: c.IdempotencyKey(), Input: c.Input(), Turn: t, Step: s})
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx) // the run is stopped; the tool has noticed, or was too quick
			case err != nil:
				return c.Fail(ctx, err)
			}
			return c.End(ctx, result)
		})
	}
	return group.Wait()
}

// browsers reports whether the browser runs a tool.
func (a *Agent) browsers(name string) bool {
	t := a.find(name)
	return t != nil && t.kind == browsers
}

func (a *Agent) find(name string) *tool {
	for _, t := range a.tools {
		if t.Name == name {
			return t
		}
	}
	return nil
}
