package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// Agents returns the demo agent and its sub-agents by agent type. pace makes the pauses between chunks.
func Agents(pace Pace) map[string]workers.Agent {
	agents := map[string]workers.Agent{script.AgentType: player{pace: pace, choose: chooseScenario}}
	for _, agentType := range script.SubAgentTypes() {
		agents[agentType] = player{pace: pace, choose: chooseSubAgent}
	}
	return agents
}

// player plays the script that choose returns for a turn. An error of choose is shown to users.
type player struct {
	pace   Pace
	choose func(t *workers.Turn, info script.RunInfo) (script.Agent, error)
}

// Answer plays the steps that are not committed.
func (p player) Answer(ctx context.Context, t *workers.Turn) error {
	agent, err := p.choose(t, script.RunInfo{Session: t.Session(), Turn: turnOf(t), RunID: t.RunID()})
	if err != nil {
		return &workers.Error{Message: err.Error(), Code: workers.CodeInvalidTool}
	}
	for n := t.Steps(); n < len(agent.Steps); n++ {
		if err := p.step(ctx, t, agent, n); err != nil {
			return err
		}
	}
	return nil
}

// errDiscarded fails the first attempt of a step that shows a retry.
var errDiscarded = errors.New("attempt discarded by the script")

func (p player) step(ctx context.Context, t *workers.Turn, agent script.Agent, n int) error {
	step := agent.Steps[n]
	if len(step.Discarded) > 0 {
		err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if err := p.play(ctx, s, step.Discarded); err != nil {
				return err
			}
			return errDiscarded
		})
		if !errors.Is(err, errDiscarded) {
			return err
		}
	}
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		if err := p.play(ctx, s, step.Acts); err != nil {
			return err
		}
		model := chunk.Model{Name: "demo-model", Provider: "tailrace"}
		if err := errors.Join(s.Usage(step.Usage), s.SetFinishReason(step.FinishReason), s.Model(model)); err != nil {
			return err
		}
		if n == len(agent.Steps)-1 {
			return s.Output(ctx, json.RawMessage(agent.Output))
		}
		return nil
	})
}

func (p player) play(ctx context.Context, s *workers.Step, acts []script.Action) error {
	for _, c := range s.ApprovedCalls() {
		if err := c.End(ctx, map[string]bool{"done": true}); err != nil {
			return err
		}
	}
	for _, act := range acts {
		if err := p.pace(ctx, act.After); err != nil {
			return err
		}
		for _, c := range act.Ask {
			if err := s.Tool(c.ID, workers.SubagentTool(c.AgentType)).Delegate(ctx, json.RawMessage(c.Input)); err != nil {
				return err
			}
		}
		if c := act.Approve; c != nil {
			if err := s.Tool(c.ID, c.Tool).AskApproval(ctx, c.Input, time.Time{}); err != nil {
				return err
			}
		}
		if act.Say == nil {
			continue
		}
		if err := s.Emit(ctx, act.Say); err != nil {
			return err
		}
	}
	return nil
}

// turnOf identifies the turn by its user message. A suspended turn continues under another run id.
func turnOf(t *workers.Turn) string {
	turn := ""
	for _, m := range t.Messages() {
		if m.Role == fold.User {
			turn = m.ID()
		}
	}
	return turn
}

// params are the parameters of a run.
type params struct {
	Scenario *string `json:"scenario"`        // of the root agent; nil selects it by the last message
	Topic    string  `json:"topic,omitempty"` // of a sub-agent
}

func readParams(text chunk.Value) (params, error) {
	var p params
	if !text.IsNull() && json.Unmarshal(text, &p) != nil {
		return p, errors.New(`invalid params, want null or an object such as {"scenario":"tour"}`)
	}
	return p, nil
}

func chooseScenario(t *workers.Turn, info script.RunInfo) (script.Agent, error) {
	scenario, err := scenarioOf(t.Params(), t.Input())
	if err != nil {
		return script.Agent{}, err
	}
	return scenario.Agent(info), nil
}

// scenarioOf returns the scenario that the params name, or the one that the last message mentions.
func scenarioOf(text chunk.Value, input []chunk.InputMessage) (script.Scenario, error) {
	p, err := readParams(text)
	if err != nil {
		return script.Scenario{}, err
	}
	if p.Scenario == nil {
		return mentioned(input), nil
	}
	scenario, ok := script.Find(*p.Scenario)
	if !ok {
		return script.Scenario{}, fmt.Errorf("unknown scenario %.40q", *p.Scenario)
	}
	return scenario, nil
}

// mentioned returns the scenario whose prompt the last message is, or the first one whose name is in it, or else the first of all.
func mentioned(input []chunk.InputMessage) script.Scenario {
	all := script.Scenarios()
	if n := len(input); n > 0 {
		if i := slices.IndexFunc(all, func(s script.Scenario) bool { return s.Prompt == input[n-1].Content }); i >= 0 {
			return all[i]
		}
		for word := range strings.FieldsSeq(strings.ToLower(input[n-1].Content)) {
			if scenario, ok := script.Find(strings.Trim(word, ".,:;!?\"'`")); ok {
				return scenario
			}
		}
	}
	return all[0]
}

func chooseSubAgent(t *workers.Turn, info script.RunInfo) (script.Agent, error) {
	p, err := readParams(t.Params())
	if err != nil {
		return script.Agent{}, err
	}
	return script.SubAgent(t.AgentType(), p.Topic, info)
}

// Pace blocks for d, or until ctx ends, and then returns its error. It may be called concurrently.
type Pace func(ctx context.Context, d time.Duration) error

// ScaledPace returns a Pace that multiplies every pause by factor: 1 is the pace of a model, 2 is half as
// fast, 0 does not wait.
func ScaledPace(factor float64) Pace {
	return func(ctx context.Context, d time.Duration) error {
		return wait.Sleep(ctx, time.Duration(factor*float64(d)))
	}
}
