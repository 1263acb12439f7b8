package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// randomModel is a random conversation. The response of each step is a function of the seed and the step, and
// thus the same in every attempt.
type randomModel struct {
	seed  uint64
	steps int

	mu       sync.Mutex
	chaos    *rand.Rand // guarded by mu
	attempts map[int]int
}

const syllables = "ab cd éf \u4e16 \U0001F600 \n \" \\ \u2028 {} "

// line returns the response of a step.
func (p *randomModel) line(step int) (events []openaitest.Event, text string, calls []toolCall) {
	r := rand.New(rand.NewPCG(p.seed, uint64(step)))
	var b strings.Builder
	for range 1 + r.IntN(30) {
		all := []rune(syllables)
		b.WriteRune(all[r.IntN(len(all))])
	}
	text = fmt.Sprintf("<%d:%s>", step, b.String())
	for range r.IntN(3) {
		events = append(events, think("hm "))
	}
	events = append(events, openaitest.Texts(r, text)...)
	if step < p.steps-1 {
		for i := range 1 + r.IntN(3) {
			calls = append(calls, toolCall{ID: fmt.Sprintf("c%d_%d", step, i), Name: "look_up", Args: fmt.Sprintf(`{"id":"%d.%d é"}`, step, i), Pieces: 1 + r.IntN(6)})
		}
		events = append(events, openaitest.Calls(calls))
	}
	return events, text, calls
}

// reply returns the next response of the endpoint, which may be a failure.
func (p *randomModel) reply(r openaitest.Request) openaitest.Reply {
	step := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			step++
		}
	}
	events, _, _ := p.line(step)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[step]++
	if p.attempts[step] > 3 || p.chaos.IntN(3) > 0 {
		return openaitest.Reply{Events: events, CRLF: p.chaos.IntN(2) == 0}
	}
	at := p.chaos.IntN(len(events) + 1)
	failure := []openaitest.Event{
		openaitest.CloseConnection{}, openaitest.EndStream{}, openaitest.StreamError{Message: "overloaded", Code: "server_overloaded"}, openaitest.Failed{Message: "failed", Code: "server_error"},
		openaitest.Raw("data: {\"id\":\"half\n\n"),
	}[p.chaos.IntN(5)]
	if p.chaos.IntN(4) == 0 {
		return openaitest.Busy(0.001)
	}
	return openaitest.StreamReply(append(append([]openaitest.Event(nil), events[:at]...), failure)...)
}

// With random failures, two workers and random splits of the stream, the result contains the responses of the
// model exactly once.
func TestGeneratedStreams(t *testing.T) {
	random := seedtest.Rand(t)
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newEnv(t)
			var mu sync.Mutex
			plays := map[string]*randomModel{} // by the user message
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				mu.Lock()
				p := plays[r.Messages[0].Text]
				mu.Unlock()
				return p.reply(r)
			})
			end.Split(rand.New(rand.NewPCG(random.Uint64(), 0)))
			agent := w.agent(end, api, with(newTool("look_up", func(_ context.Context, c Call) (any, error) { return c.Input, nil })))
			agents := map[string]workers.Agent{"clerk": agent}
			dying := w.serve(agents)
			w.serve(agents)
			for n := range 24 {
				p := &randomModel{seed: random.Uint64(), steps: 1 + random.IntN(4), chaos: rand.New(rand.NewPCG(random.Uint64(), 0)), attempts: map[int]int{}}
				question := fmt.Sprintf("%s %d", api, n)
				mu.Lock()
				plays[question] = p
				mu.Unlock()
				s := w.ask("clerk", question)
				if n == 8 {
					dying.Kill()
				}
				snap := w.ended(s)
				p.check(w, snap)
			}
		})
	}
}

func (p *randomModel) check(w *env, snap fold.Snapshot) {
	w.t.Helper()
	var want strings.Builder
	for step := range p.steps {
		_, text, calls := p.line(step)
		want.WriteString(text)
		for _, c := range calls {
			if n := strings.Count(stack.Conversation(snap), `"toolCallId":"`+c.ID+`"`); n != 1 {
				w.t.Errorf("call %s found %d times", c.ID, n)
			}
		}
	}
	w.want(answered(snap), want.String(), fmt.Sprintf("text of seed %d", p.seed))
	if strings.Count(stack.Conversation(snap), `"state":"output-available"`) != strings.Count(stack.Conversation(snap), `"toolCallId"`) {
		w.t.Errorf("call without output: %s", stack.Conversation(snap))
	}
}
