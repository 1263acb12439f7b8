package workers

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// A worker dies while it ends the turn that waits, before it opens the next one:
// after each message that it writes. The next worker finds a run open that is not
// its command's, and must not wait for it.
func TestKilledWhileItConcludes(t *testing.T) {
	var ran atomic.Int64
	want := ""
	for n := range 9 { // 0: nobody is killed
		w := newWorld(t)
		agents := map[string]Agent{"asking": asking(0, &ran)}
		c := execute("s", "asking", "Hello?")
		first := w.serve(w.worker(agents))
		w.request(c)
		w.awaitStatus(c.Session, fold.Paused)
		first.end()

		next := c
		next.RunID, next.Input = "r2", []chunk.InputMessage{{Content: "Never mind."}}
		second := w.worker(agents)
		dead := w.killAfter(second, n)
		if err := w.queue.Request(t.Context(), next, w.revision(c)); err != nil {
			t.Fatal(err)
		}
		w.serve(second)
		if n > 0 {
			<-dead
			w.serve(w.worker(agents))
		}
		snap := w.await(c.Session, "the second question", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Paused })
		got := story(snap)
		if n == 0 {
			want = got
			if !strings.Contains(want, "nobody answered the call") {
				t.Fatalf("the undisturbed one says\n%s", want)
			}
		}
		if got != want {
			t.Errorf("killed after %d messages: got\n%s\nwant\n%s", n, got, want)
		}
		ends := strings.Count(types(w.bodies(c.Session)), "stream_end")
		if ends != 1 {
			t.Errorf("killed after %d messages: %d ends of the first turn", n, ends)
		}
	}
}

// killAfter ends a worker's connection when the log has n more messages, and
// closes what it returns; never for 0.
func (w *world) killAfter(p *process, n int) <-chan struct{} {
	w.t.Helper()
	dead := make(chan struct{})
	if n == 0 {
		return dead
	}
	watch := w.srv.Conn(w.t)
	_, err := watch.Subscribe("tr.chunks.>", func(*nats.Msg) {
		if n--; n == 0 {
			p.kill()
			close(dead)
		}
	})
	if err == nil {
		err = watch.Flush()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return dead
}
