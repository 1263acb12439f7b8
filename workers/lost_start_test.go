package workers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// expire removes the first records of a session from the log, as its retention does. With stored, the projector has folded the session before.
func (w *env) expire(s chunk.Session, n int, stored bool) {
	w.t.Helper()
	js := w.Server.JetStream(w.t)
	if stored {
		store, err := jssnapshots.New(js, jssnapshots.Config{})
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := projector.Rebuild(w.t.Context(), store, w.Log, s); err != nil {
			w.t.Fatal(err)
		}
	}
	stream, err := js.Stream(w.t.Context(), "TR_CHUNKS_0")
	if err != nil {
		w.t.Fatal(err)
	}
	last := w.Records(s)[n-1].Seq
	if err := stream.Purge(w.t.Context(), jetstream.WithPurgeSequence(uint64(last)+1)); err != nil {
		w.t.Fatal(err)
	}
}

// The worker of a run has died, and the first records of the run have left the log, as many as possible each time. The run is taken over, stopped and ended,
// whether or not a snapshot has what was lost. Without a command the sweep ends it.
func TestRunWithoutItsFirstRecords(t *testing.T) {
	w := newEnv(t)
	crashed := func(w *env) control.Command {
		c := execute(uniqueName("s"), "two", "Hello?")
		w.crashIn(c, 2)
		return c
	}
	records := len(w.Records(crashed(w).Session))
	for _, stop := range []control.StopKind{"", control.StopInterrupt, control.StopAbort, "no command"} {
		for _, stored := range []bool{true, false} {
			for n := 1; n <= records; n++ {
				t.Run(fmt.Sprintf("%d records, stored %t, stop %q", n, stored, stop), func(t *testing.T) {
					w := &env{Stack: w.Stack, t: t}
					c := crashed(w)
					w.expire(c.Session, n, stored)
					want := fold.Failed
					switch stop {
					case "no command":
						if n == records && !stored {
							return // nothing is left of it
						}
						if ended, err := w.reaper(ReaperConfig{RunTimeout: 1}).Abandon(t.Context(), c.Session, false); !ended || err != nil {
							t.Errorf("ended %t, %v", ended, err)
						}
					default:
						if want = fold.Ended; stop == control.StopInterrupt {
							want = fold.Paused
						}
						if stop == control.StopAbort {
							want = fold.Failed
						}
						if stop != "" {
							w.stop(c.Session, c.RunID, stop)
						}
						p := w.worker(twoSteps(0, nil))
						p.cfg.MaxTakeovers = defaultMaxTakeovers
						if err := p.do(t.Context(), c); err != nil {
							t.Fatal(err)
						}
					}
					snap := w.Snapshot(c.Session)
					text := transcript(snap)
					if snap.Status != want || stored && !strings.HasPrefix(text, "user: Hello?\nassistant: Step 1. ") {
						t.Errorf("the session is %s, want %s\n%s", snap.Status, want, text)
					}
					if got := strings.Count(text, "Step 2. "); stop == "" && got != 1 {
						t.Errorf("step 2 is there %d times\n%s", got, text)
					}
				})
			}
		}
	}
}
