package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tailrace/tailrace/internal/openaitest"
	"github.com/tailrace/tailrace/internal/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// play is a conversation that is drawn by chance: what the model says in each step
// is a function of the seed and the step, so that it is the same however often it
// is asked.
type play struct {
	seed  uint64
	steps int

	mu    sync.Mutex
	chaos *rand.Rand // guarded by mu
	asked map[int]int
}

const syllables = "ab cd éf \u4e16 \U0001F600 \n \" \\ \u2028 {} "

// line is what the model says in a step.
func (p *play) line(step int) (words []openaitest.Word, said string, calls []asks) {
	r := rand.New(rand.NewPCG(p.seed, uint64(step)))
	var b strings.Builder
	for range 1 + r.IntN(30) {
		all := []rune(syllables)
		b.WriteRune(all[r.IntN(len(all))])
	}
	said = fmt.Sprintf("<%d:%s>", step, b.String())
	for range r.IntN(3) {
		words = append(words, think("hm "))
	}
	words = append(words, openaitest.Texts(r, said)...)
	if step < p.steps-1 {
		for i := range 1 + r.IntN(3) {
			calls = append(calls, asks{ID: fmt.Sprintf("c%d_%d", step, i), Name: "look_up", Args: fmt.Sprintf(`{"id":"%d.%d é"}`, step, i), Pieces: 1 + r.IntN(6)})
		}
		words = append(words, openaitest.Calls(calls))
	}
	return words, said, calls
}

// reply is what the endpoint does in its turn, which may be to fail.
func (p *play) reply(r openaitest.Request) openaitest.Reply {
	step := 0
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			step++
		}
	}
	words, _, _ := p.line(step)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[step]++
	if p.asked[step] > 3 || p.chaos.IntN(3) > 0 {
		return openaitest.Reply{Words: words, CRLF: p.chaos.IntN(2) == 0}
	}
	at := p.chaos.IntN(len(words) + 1)
	bad := []openaitest.Word{
		openaitest.Cut{}, openaitest.End{}, openaitest.Break{Message: "overloaded", Code: "server_overloaded"}, openaitest.Failed{Message: "failed", Code: "server_error"},
		openaitest.Raw("data: {\"id\":\"half\n\n"),
	}[p.chaos.IntN(5)]
	if p.chaos.IntN(4) == 0 {
		return openaitest.Busy(0.001)
	}
	return openaitest.Say(append(append([]openaitest.Word(nil), words[:at]...), bad)...)
}

// Whatever the endpoint does between, whoever of two workers does the work, and
// however its bytes are split: what is left is what the model says, once.
func TestAnyStream(t *testing.T) {
	random := seedtest.Rand(t)
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex
			plays := map[string]*play{} // by the question
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				mu.Lock()
				p := plays[r.Messages[0].Text]
				mu.Unlock()
				return p.reply(r)
			})
			end.Split(rand.New(rand.NewPCG(random.Uint64(), 0)))
			agent := w.agent(end, api, with(made("look_up", func(_ context.Context, c Call) (any, error) { return c.Input, nil })))
			agents := map[string]workers.Agent{"clerk": agent}
			dying := w.serve(agents)
			w.serve(agents)
			for n := range 24 {
				p := &play{seed: random.Uint64(), steps: 1 + random.IntN(4), chaos: rand.New(rand.NewPCG(random.Uint64(), 0)), asked: map[int]int{}}
				question := fmt.Sprintf("%s %d", api, n)
				mu.Lock()
				plays[question] = p
				mu.Unlock()
				s := w.ask("clerk", question)
				if n == 8 {
					dying.kill()
				}
				snap := w.ended(s)
				p.judge(w, snap)
			}
		})
	}
}

func (p *play) judge(w *world, snap fold.Snapshot) {
	w.t.Helper()
	var want strings.Builder
	for step := range p.steps {
		_, said, calls := p.line(step)
		want.WriteString(said)
		for _, c := range calls {
			if n := strings.Count(told(snap), `"toolCallId":"`+c.ID+`"`); n != 1 {
				w.t.Errorf("call %s is there %d times", c.ID, n)
			}
		}
	}
	w.want(answered(snap), want.String(), fmt.Sprintf("text of seed %d", p.seed))
	if strings.Count(told(snap), `"state":"output-available"`) != strings.Count(told(snap), `"toolCallId"`) {
		w.t.Errorf("a call has no output: %s", told(snap))
	}
}
