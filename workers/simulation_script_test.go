package workers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace/tailrace/projector/fold"
)

// scripted is the output of an agent in one step.
type scripted struct {
	clients   int      // calls of a browser
	approvals int      // calls that a user must approve
	timed     int      // calls of a browser with a deadline
	agents    []string // sub-agents
}

// scenario lists the steps of agents by agent type, before a last step with text. The conversation is with
// "root".
type scenario map[string][]scripted

func askSteps(n int) []scripted {
	steps := make([]scripted, n)
	for i := range steps {
		steps[i].clients = 1
	}
	return steps
}

var scenarios = map[string]scenario{
	"chain":     {"root": askSteps(3)},
	"long":      {"root": askSteps(fold.MaxPastRuns + 2)},
	"parallel":  {"root": {{clients: 2, approvals: 2}, {approvals: 1}}},
	"ask+call":  {"root": {{clients: 1}, {agents: []string{"leaf"}}, {clients: 1}}, "leaf": {}},
	"call+ask":  {"root": {{agents: []string{"asker"}}, {clients: 1}}, "asker": askSteps(1)},
	"mixed":     {"root": {{clients: 1, approvals: 1, agents: []string{"asker"}}, {clients: 1}}, "asker": askSteps(1)},
	"many":      {"root": {{agents: []string{"leaf", "asker", "leaf"}}, {agents: []string{"asker", "leaf"}}}, "asker": askSteps(1), "leaf": {}},
	"deep":      {"root": {{clients: 1}, {agents: []string{"mid"}}}, "mid": {{clients: 1}, {agents: []string{"asker"}}, {clients: 1}}, "asker": askSteps(2)},
	"wide":      {"root": {{agents: []string{"mid", "mid"}}}, "mid": {{agents: []string{"asker", "leaf"}}}, "asker": askSteps(1), "leaf": {}},
	"deadline":  {"root": {{timed: 1}, {clients: 1, timed: 2}}},
	"late call": {"root": {{timed: 1, agents: []string{"timer"}}, {timed: 1}}, "timer": {{timed: 1}}},
}

// timed reports whether a deadline may pass in a scenario.
func (p scenario) timed() bool {
	for _, steps := range p {
		for _, s := range steps {
			if s.timed > 0 {
				return true
			}
		}
	}
	return false
}

// sideEffects records side effects and the idempotency keys that they were done under.
type sideEffects struct {
	mu   sync.Mutex
	keys map[string]map[string]bool
}

func (d *sideEffects) do(what, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = make(map[string]map[string]bool)
	}
	if d.keys[what] == nil {
		d.keys[what] = make(map[string]bool)
	}
	d.keys[what][key] = true
}

// agents returns agents for the scenario. All of their state is in the turn. pause is called where an agent
// may be slow or crash.
func (p scenario) agents(d *sideEffects, pause func(what string)) map[string]Agent {
	all := make(map[string]Agent)
	for name, steps := range p {
		all[name] = AgentFunc(func(ctx context.Context, t *Turn) error {
			for n := t.Steps(); ; n++ {
				if err := t.CheckMessages(ctx); err != nil {
					return err
				}
				err := t.Step(ctx, func(ctx context.Context, s *Step) error {
					pause(fmt.Sprintf("step %d", n+1))
					if n < len(steps) {
						return steps[n].play(ctx, t, s, d)
					}
					s.MarkFinal()
					return act(ctx, t, s, d)
				})
				if err != nil {
					return err
				}
			}
		})
	}
	return all
}

// act runs the approved calls, has a side effect and writes a text.
func act(ctx context.Context, t *Turn, s *Step, d *sideEffects) error {
	input := t.Input()[0].Content
	for _, call := range s.ApprovedCalls() {
		d.do(input+" approved "+call.ID(), call.IdempotencyKey())
		if err := call.End(ctx, "ran"); err != nil {
			return err
		}
	}
	call := s.Tool("do", "effect")
	if err := call.Start(ctx, map[string]any{"n": s.Number()}); err != nil {
		return err
	}
	d.do(fmt.Sprint(input, " step ", s.Number()), call.IdempotencyKey())
	if err := call.End(ctx, s.Number()); err != nil {
		return err
	}
	return s.Text(ctx, fmt.Sprint(input, " text ", s.Number()))
}

func (p scripted) play(ctx context.Context, t *Turn, s *Step, d *sideEffects) error {
	if err := act(ctx, t, s, d); err != nil {
		return err
	}
	in := map[string]any{"n": s.Number()}
	for range p.clients {
		if err := s.Tool("q", "ask").AskClient(ctx, in, time.Time{}); err != nil {
			return err
		}
	}
	for range p.approvals {
		if err := s.Tool("may", "permission").AskApproval(ctx, in, time.Time{}); err != nil {
			return err
		}
	}
	for i := range p.timed {
		// Later than every test: the scheduler has its own clock.
		at := time.Now().Add(time.Duration(i+1) * time.Hour)
		if err := s.Tool("t", "ask").AskClient(ctx, in, at); err != nil {
			return err
		}
	}
	for i, name := range p.agents {
		call := s.Tool(fmt.Sprint("a", i), SubagentTool(name))
		err := call.Delegate(ctx, map[string]any{"message": t.Input()[0].Content + "/" + call.ID()})
		if err != nil {
			return err
		}
	}
	return nil
}
