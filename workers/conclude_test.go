package workers

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// A worker crashes while it concludes the suspended turn, before it starts the next one: after each message
// that it writes. The next worker finds a running run that does not belong to its command and must not wait
// for it.
func TestCrashWhileConcluding(t *testing.T) {
	var ran atomic.Int64
	want := ""
	for n := range 9 { // 0: no crash
		w := newEnv(t)
		agents := map[string]Agent{"asking": askingAgent(0, &ran)}
		c := execute("s", "asking", "Hello?")
		first := w.serve(w.worker(agents))
		w.Request(c)
		w.AwaitStatus(c.Session, fold.Paused)
		first.Stop()

		next := c
		next.RunID, next.Input = "r2", []chunk.InputMessage{{Content: "Never mind."}}
		second := w.worker(agents)
		killed := w.killAfter(second, n)
		if err := w.Queue.Request(t.Context(), next, w.revision(c)); err != nil {
			t.Fatal(err)
		}
		w.serve(second)
		if n > 0 {
			<-killed
			w.serve(w.worker(agents))
		}
		snap := w.Await(c.Session, "the second question", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Paused })
		got := historyOf(snap)
		if n == 0 {
			want = got
			if !strings.Contains(want, "no answer to the call") {
				t.Fatalf("without a crash: got\n%s", want)
			}
		}
		if got != want {
			t.Errorf("killed after %d messages: got\n%s\nwant\n%s", n, got, want)
		}
		ends := strings.Count(types(w.Bodies(c.Session)), "stream_end")
		if ends != 1 {
			t.Errorf("killed after %d messages: %d ends of the first turn", n, ends)
		}
	}
}

// killAfter closes a worker's connection after n more messages in the log, and then closes the channel; never
// for 0.
func (w *env) killAfter(p *process, n int) <-chan struct{} {
	w.t.Helper()
	killed := make(chan struct{})
	if n == 0 {
		return killed
	}
	watch := w.Server.Conn(w.t)
	_, err := watch.Subscribe("tr.chunks.>", func(*nats.Msg) {
		if n--; n == 0 {
			p.Kill()
			close(killed)
		}
	})
	if err == nil {
		err = watch.Flush()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return killed
}
