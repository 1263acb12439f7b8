package script

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// pen writes the steps of one agent.
type pen struct {
	agent Agent
	rng   *rand.Rand
	rate  float64 // tokens per second
	calls int
	said  int // chunks of the step so far
	open  Step
	pause time.Duration // before the next act, on top of its own
}

// newPen starts an agent. Its rhythm is drawn from the run, so that it is a
// different one each time, and the same one for a second worker.
func newPen(env Env, agentType string, rate float64) *pen {
	seed := env.digest("rhythm", agentType)
	return &pen{
		agent: Agent{Env: env, Type: agentType},
		rng:   rand.New(rand.NewChaCha8([32]byte([]byte(seed)[:32]))),
		rate:  rate,
	}
}

// done ends the last step and gives the agent away.
func (p *pen) done(output any) Agent {
	p.step("stop")
	p.agent.Output = value(output)
	return p.agent
}

// step ends the step that is being written, if it holds anything.
func (p *pen) step(finishReason string) {
	if len(p.open.Acts) == 0 {
		return
	}
	p.open.FinishReason = finishReason
	p.open.Usage = chunk.Usage{
		InputTokens:  number(180 + 90*len(p.agent.Steps)),
		OutputTokens: number(p.said),
		CachedTokens: new(number(90 * len(p.agent.Steps))),
	}
	p.agent.Steps = append(p.agent.Steps, p.open)
	p.open, p.said = Step{}, 0
}

// number of the step that is being written.
func (p *pen) number() int { return len(p.agent.Steps) + 1 }

// wait is a pause before whatever comes next.
func (p *pen) wait(d time.Duration) { p.pause += d }

func (p *pen) act(a Act) {
	a.After += p.pause
	p.pause = 0
	p.open.Acts = append(p.open.Acts, a)
}

// say is one chunk at the pace of a model.
func (p *pen) say(body chunk.Body) {
	p.said++
	p.act(Act{After: p.beat(), Say: body})
}

// fact is one chunk without a pause: what a program says, not a model.
func (p *pen) fact(body chunk.Body) { p.act(Act{Say: body}) }

// beat is the pause before a token: one over the rate, give or take 60 %.
func (p *pen) beat() time.Duration {
	return time.Duration(float64(time.Second) / p.rate * (0.4 + 1.2*p.rng.Float64()))
}

// text streams a text of this package, or the string itself.
func (p *pen) text(s string) {
	for _, token := range p.tokens(s) {
		p.say(chunk.TextDelta{Delta: token})
	}
}

// halves says a character beyond the basic plane the way a careless producer
// does: cut in two between its surrogates.
func (p *pen) halves(r rune) {
	high, low := surrogates(r)
	p.say(chunk.TextDelta{Delta: high})
	p.say(chunk.TextDelta{Delta: low})
}

// thought streams one block of reasoning; its last piece closes the block.
func (p *pen) thought(s string) {
	tokens := p.tokens(s)
	for i, token := range tokens {
		p.say(chunk.Thinking{Content: token, IsComplete: i == len(tokens)-1})
	}
}

// call makes a tool call id. The run is part of it, so that ids do not repeat
// over the turns of a session.
func (p *pen) call() string {
	p.calls++
	return fmt.Sprintf("call-%s-%d", p.agent.digest("calls")[:6], p.calls)
}

// tool calls a tool with arguments that come at once.
func (p *pen) tool(name string, args any) string {
	id := p.call()
	p.say(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: value(args)})
	return id
}

// streamedTool calls a tool with arguments that come piece by piece.
func (p *pen) streamedTool(name string, args any) string {
	id := p.call()
	p.say(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
	for _, token := range p.tokens(string(value(args))) {
		p.say(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: token})
	}
	p.fact(chunk.ToolArgStreamEnd{ToolCallID: id})
	p.fact(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: value(args)})
	return id
}

// result ends a call well.
func (p *pen) result(id, name string, result any) {
	p.fact(chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: value(result), ProviderExecuted: new(true)})
}

// failure ends a call badly.
func (p *pen) failure(id, name, message, code string) {
	p.fact(chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: &message, ErrorCode: &code, ProviderExecuted: new(true)})
}

// state changes the session's state.
func (p *pen) state(ops ...chunk.PatchOp) { p.say(chunk.StatePatch{Patches: ops}) }

// custom is an event of the application.
func (p *pen) custom(name string, data any) {
	p.fact(chunk.Custom{EventName: name, Data: value(data)})
}

func put(op, path string, v any) chunk.PatchOp {
	return chunk.PatchOp{Op: op, Path: path, Value: new(value(v))}
}

func number(n int) chunk.Number { return chunk.Number(strconv.Itoa(n)) }

// value is the JSON of v. What scripts hold can always be encoded.
func value(v any) chunk.Value {
	if v == nil {
		return chunk.Value("null")
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("script: %v", err))
	}
	return data
}
