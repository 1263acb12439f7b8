package openai

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// An answer is streamed with its reasoning and usage. A null error in every piece is ignored.
func TestAnswer(t *testing.T) {
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) { checkAnswer(newEnv(t), api, false) })
		t.Run(string(api)+" with nulls", func(t *testing.T) { checkAnswer(newEnv(t), api, true) })
	}
}

func checkAnswer(w *env, api API, nulls bool) {
	t := w.t
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
		r := openaitest.StreamReply(openaitest.Think("They "), openaitest.Think("greet."), openaitest.Text("Hel"), openaitest.Text("lo, wörld"))
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
	for _, b := range w.Bodies(s) {
		if b, ok := b.(chunk.StepEnd); ok && (b.FinishReason == nil || *b.FinishReason != "stop") {
			t.Errorf("finish %+v", b)
		}
	}
	// The next turn has the history of the first one.
	w.askIn(s, "clerk", "r2", "And?")
	w.Await(s, "the second turn", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
	var history []string
	for _, m := range end.Requests()[1].Messages {
		history = append(history, m.Role+" "+m.Text)
	}
	w.want(strings.Join(history, "|"), "user Hi|assistant Hello, wörld|user And?", "history")
}
