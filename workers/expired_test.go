package workers

import (
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// A run is suspended for longer than the retention of the log: only the snapshot remains. The run continues
// under the next ordinals, with the history and without the parameters, unless the command contains them.
func TestResumeAfterLogExpiry(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "asking", "Hello?")
	var ran atomic.Int64
	w.serve(w.worker(map[string]Agent{"asking": askingAgent(0, &ran)}))
	w.Request(c)
	before := w.AwaitStatus(c.Session, fold.Paused)
	js := w.Server.JetStream(t)
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := projector.Rebuild(t.Context(), store, w.Log, c.Session); err != nil {
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
	err = w.Queue.Request(t.Context(), control.Command{
		Kind: control.Resume, Session: c.Session, AgentType: "asking", RunID: control.ResumeRunID("r1"), Resumes: "r1",
	}, w.revision(c))
	if err != nil {
		t.Fatal(err)
	}
	snap := w.AwaitStatus(c.Session, fold.Ended)
	want := `user: Hello?
assistant: Let me ask.
assistant: location({"exact":true}) output-available "Bremen"
assistant: payment({"euro":5}) output-available "paid {\"euro\":5}"
assistant: location output-available, payment approval-responded null Hello?`
	if got := transcript(snap); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if snap.Position.Ordinal <= before.Position.Ordinal || snap.Epoch <= before.Epoch || snap.Faults.Lost > 0 {
		t.Errorf("position %+v epoch %d, after %+v epoch %d; faults %+v", snap.Position, snap.Epoch, before.Position, before.Epoch, snap.Faults)
	}
}
