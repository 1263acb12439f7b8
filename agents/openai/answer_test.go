package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/openaitest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

func unmarshal(text []byte, v any) bool { return json.Unmarshal(text, v) == nil }

// An answer is streamed, with its reasoning, and counted. An error of null in each
// piece of it is none.
func TestAnAnswer(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) { anAnswer(newWorld(t), api, false) })
		t.Run(string(api)+" with nulls", func(t *testing.T) { anAnswer(newWorld(t), api, true) })
	}
}

func anAnswer(w *world, api API, nulls bool) {
	t := w.t
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
		r := openaitest.Say(openaitest.Think("They "), openaitest.Think("greet."), openaitest.Text("Hel"), openaitest.Text("lo, wörld"))
		r.Usage, r.Nulls = openaitest.Usage{In: 12, Out: 7, Cached: 4}, nulls
		return r
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, api)})
	s := w.ask("clerk", "Hi")
	snap := w.ended(s)
	w.want(answered(snap), "Hello, wörld", "text")
	w.want(partsText(snap, "reasoning"), "They greet.", "reasoning")
	if want := (fold.Usage{Input: 12, Output: 7, Cached: 4}); snap.Usage != want {
		t.Errorf("usage %+v, want %+v", snap.Usage, want)
	}
	req := end.Requests()[0]
	w.want(req.System, "You are a clerk.", "system prompt")
	w.want(req.Last().Text, "Hi", "question")
	for _, b := range w.bodies(s) {
		if b, ok := b.(chunk.StepEnd); ok && (b.FinishReason == nil || *b.FinishReason != "stop") {
			t.Errorf("finish %+v", b)
		}
	}
	// The next turn knows the one before.
	w.askIn(s, "clerk", "r2", "And?")
	w.await(s, "the second turn", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
	var said []string
	for _, m := range end.Requests()[1].Messages {
		said = append(said, m.Role+" "+m.Text)
	}
	w.want(strings.Join(said, "|"), "user Hi|assistant Hello, wörld|user And?", "history")
}
