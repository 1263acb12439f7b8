package workers

import (
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
)

// A run waits for its answers for longer than the log remembers: what is left is
// the snapshot. It goes on all the same, under the next ordinals, with the
// history and without the parameters, unless the command brings them.
func TestTheLogHasForgotten(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "asking", "Hello?")
	var ran atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": asking(0, &ran)}))
	w.request(c)
	before := w.awaitStatus(c.Session, fold.Paused)
	js := w.srv.JetStream(t)
	store, err := kvstore.New(js, kvstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := projector.Rebuild(t.Context(), store, natssource.Log{Reader: w.log}, c.Session); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.answer(location(c))
	w.answer(payment(c, true, ""))
	err = w.queue.Request(t.Context(), commands.Command{
		Kind: commands.Resume, Session: c.Session, AgentType: "asking", RunID: commands.ResumeRunID("r1"), Resumes: "r1",
	}, w.revision(c))
	if err != nil {
		t.Fatal(err)
	}
	snap := w.awaitStatus(c.Session, fold.Ended)
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-available "paid {\"euro\":5}"
assistant: location output-available, payment approval-responded null Hello?`
	if got := told(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if snap.Position.Ordinal <= before.Position.Ordinal || snap.Epoch <= before.Epoch || snap.Faults.Lost > 0 {
		t.Errorf("position %+v epoch %d, after %+v epoch %d; faults %+v", snap.Position, snap.Epoch, before.Position, before.Epoch, snap.Faults)
	}
}
