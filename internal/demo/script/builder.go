package script

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/tailrace/tailrace/chunk"
)

// scriptBuilder builds the steps of one agent.
type scriptBuilder struct {
	agent Agent
	rng   *rand.Rand
	rate  float64 // tokens per second
	calls int
	count int // tokens of the step so far
	open  Step
	pause time.Duration // before the next action, in addition to its own
}

// newBuilder starts an agent. Its pauses are a function of the turn.
func newBuilder(info RunInfo, agentType string, rate float64) *scriptBuilder {
	seed := info.digest("rhythm", agentType)
	return &scriptBuilder{
		agent: Agent{RunInfo: info, Type: agentType},
		rng:   rand.New(rand.NewChaCha8([32]byte([]byte(seed)[:32]))),
		rate:  rate,
	}
}

// done ends the last step and returns the agent.
func (p *scriptBuilder) done(output any) Agent {
	p.step("stop")
	p.agent.Output = value(output)
	return p.agent
}

// step ends the current step, if it has an action.
func (p *scriptBuilder) step(finishReason string) {
	if len(p.open.Acts) == 0 {
		return
	}
	p.open.FinishReason = finishReason
	input, cached := 180+90*len(p.agent.Steps), 90*len(p.agent.Steps)
	p.open.Usage = chunk.Usage{
		InputTokens:  number(input),
		OutputTokens: number(p.count),
		CachedTokens: new(number(cached)),
		Cost:         new(fmt.Sprintf("0.%06d", input-cached+cached/10+5*p.count)), // 1, 0.10 and 5 dollars for a million tokens
	}
	p.agent.Steps = append(p.agent.Steps, p.open)
	p.open, p.count = Step{}, 0
}

// wait adds a pause before the next action.
func (p *scriptBuilder) wait(d time.Duration) { p.pause += d }

func (p *scriptBuilder) act(a Action) {
	a.After += p.pause
	p.pause = 0
	p.open.Acts = append(p.open.Acts, a)
}

// say adds a chunk with the pause of a token.
func (p *scriptBuilder) say(body chunk.Body) {
	p.count++
	p.act(Action{After: p.tokenDelay(), Say: body})
}

// chunk adds a chunk without a pause.
func (p *scriptBuilder) chunk(body chunk.Body) { p.act(Action{Say: body}) }

// tokenDelay returns the pause before a token: one over the rate, plus or minus 60 %.
func (p *scriptBuilder) tokenDelay() time.Duration {
	return time.Duration(float64(time.Second) / p.rate * (0.4 + 1.2*p.rng.Float64()))
}

// text streams a text.
func (p *scriptBuilder) text(s string) {
	for _, token := range p.tokens(s) {
		p.say(chunk.TextDelta{Delta: token})
	}
}

// halves streams a character beyond the basic plane as two unpaired surrogates, as some producers do.
func (p *scriptBuilder) halves(r rune) {
	for _, half := range utf16.Encode([]rune{r}) {
		p.say(chunk.TextDelta{Delta: wtf8(half)})
	}
}

// thought streams one block of reasoning; the last piece completes the block.
func (p *scriptBuilder) thought(s string) {
	tokens := p.tokens(s)
	for i, token := range tokens {
		p.say(chunk.Thinking{Content: token, IsComplete: i == len(tokens)-1})
	}
}

// call returns a new tool call id. It contains the turn, so that ids are unique in a session.
func (p *scriptBuilder) call() string {
	p.calls++
	return fmt.Sprintf("call-%s-%d", p.agent.digest("calls")[:6], p.calls)
}

// tool calls a tool with complete arguments.
func (p *scriptBuilder) tool(name string, args any) string {
	id := p.call()
	p.say(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: value(args)})
	return id
}

// streamedTool calls a tool with streamed arguments.
func (p *scriptBuilder) streamedTool(name string, args any) string {
	id := p.call()
	p.say(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: name})
	for _, token := range p.tokens(string(value(args))) {
		p.say(chunk.ToolArgStreamDelta{ToolCallID: id, Delta: token})
	}
	p.chunk(chunk.ToolArgStreamEnd{ToolCallID: id})
	p.chunk(chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: value(args)})
	return id
}

// result ends a call with a result.
func (p *scriptBuilder) result(id, name string, result any) {
	p.chunk(chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: value(result), ProviderExecuted: new(true)})
}

// failure ends a call with an error.
func (p *scriptBuilder) failure(id, name, message, code string) {
	p.chunk(chunk.ToolEnd{ToolCallID: id, ToolName: name, Error: &message, ErrorCode: &code, ProviderExecuted: new(true)})
}

// state patches the session's state.
func (p *scriptBuilder) state(ops ...chunk.PatchOp) { p.say(chunk.StatePatch{Patches: ops}) }

// custom adds an event of the application.
func (p *scriptBuilder) custom(name string, data any) {
	p.chunk(chunk.Custom{EventName: name, Data: value(data)})
}

func put(op, path string, v any) chunk.PatchOp {
	return chunk.PatchOp{Op: op, Path: path, Value: new(value(v))}
}

func number(n int) chunk.Number { return chunk.Number(strconv.Itoa(n)) }

// value returns the JSON of v. All values of scripts can be encoded.
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
