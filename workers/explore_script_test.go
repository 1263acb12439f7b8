package workers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace/tailrace/projector/fold"
)

// scripted is what an agent asks for in one step.
type scripted struct {
	clients   int      // questions to a browser
	approvals int      // questions to a person
	timed     int      // questions to a browser that have a deadline
	agents    []string // sub-agents
}

// A plot is what agents do, by their types: step after step, and at the end a word.
// The conversation is with "root".
type plot map[string][]scripted

func asks(n int) []scripted {
	steps := make([]scripted, n)
	for i := range steps {
		steps[i].clients = 1
	}
	return steps
}

var plots = map[string]plot{
	"chain":     {"root": asks(3)},
	"long":      {"root": asks(fold.MaxPast + 2)},
	"parallel":  {"root": {{clients: 2, approvals: 2}, {approvals: 1}}},
	"ask+call":  {"root": {{clients: 1}, {agents: []string{"leaf"}}, {clients: 1}}, "leaf": {}},
	"call+ask":  {"root": {{agents: []string{"asker"}}, {clients: 1}}, "asker": asks(1)},
	"beside":    {"root": {{clients: 1, approvals: 1, agents: []string{"asker"}}, {clients: 1}}, "asker": asks(1)},
	"many":      {"root": {{agents: []string{"leaf", "asker", "leaf"}}, {agents: []string{"asker", "leaf"}}}, "asker": asks(1), "leaf": {}},
	"deep":      {"root": {{clients: 1}, {agents: []string{"mid"}}}, "mid": {{clients: 1}, {agents: []string{"asker"}}, {clients: 1}}, "asker": asks(2)},
	"wide":      {"root": {{agents: []string{"mid", "mid"}}}, "mid": {{agents: []string{"asker", "leaf"}}}, "asker": asks(1), "leaf": {}},
	"deadline":  {"root": {{timed: 1}, {clients: 1, timed: 2}}},
	"late call": {"root": {{timed: 1, agents: []string{"timer"}}, {timed: 1}}, "timer": {{timed: 1}}},
}

// timed reports whether the clock may answer in a plot.
func (p plot) timed() bool {
	for _, steps := range p {
		for _, s := range steps {
			if s.timed > 0 {
				return true
			}
		}
	}
	return false
}

// deeds are side effects: what was done, and under which keys.
type deeds struct {
	mu   sync.Mutex
	keys map[string]map[string]bool
}

func (d *deeds) do(what, key string) {
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

// agents plays the plot. All that they know is in the turn. pause is called where
// an agent may be slow, or die.
func (p plot) agents(d *deeds, pause func(what string)) map[string]Agent {
	all := make(map[string]Agent)
	for name, steps := range p {
		all[name] = AgentFunc(func(ctx context.Context, t *Turn) error {
			for n := t.Steps(); ; n++ {
				err := t.Step(ctx, func(ctx context.Context, s *Step) error {
					pause(fmt.Sprintf("step %d", n+1))
					if n < len(steps) {
						return steps[n].play(ctx, t, s, d)
					}
					s.Final()
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

// act runs what was allowed, does something to the world, and says a word.
func act(ctx context.Context, t *Turn, s *Step, d *deeds) error {
	who := t.Input()[0].Content
	for _, call := range s.Granted() {
		d.do(who+" granted "+call.ID(), call.IdempotencyKey())
		if err := call.End(ctx, "ran"); err != nil {
			return err
		}
	}
	call := s.Tool("do", "effect")
	if err := call.Start(ctx, map[string]any{"n": s.Number()}); err != nil {
		return err
	}
	d.do(fmt.Sprint(who, " step ", s.Number()), call.IdempotencyKey())
	if err := call.End(ctx, s.Number()); err != nil {
		return err
	}
	return s.Text(ctx, fmt.Sprint(who, " says ", s.Number()))
}

func (p scripted) play(ctx context.Context, t *Turn, s *Step, d *deeds) error {
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
		// In the future of every test: the clock of the scheduler is another one.
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
