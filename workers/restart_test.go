package workers

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
)

// The server is restarted in the middle of runs. Whatever a worker was at, it or
// its successor goes on, and the conversation is that of an undisturbed run.
func TestTheServerRestarts(t *testing.T) {
	random := seeded(t)
	w := newWorld(t)
	w.maxDelta = 1
	calm := execute("calm", "talker", "Talk!")
	w.play(calm, talker(5, &effects{}), nil)
	want := story(w.snapshot(calm.Session))
	for range 3 {
		c := execute(fresh("r"), "talker", "Talk!")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		reached, n := make(chan struct{}), 1+random.IntN(120)
		sub, err := w.srv.Conn(t).Subscribe("tr.chunks.*."+c.Session.Tenant+"."+c.Session.Root+".>", func(m *nats.Msg) {
			over := strings.HasSuffix(m.Subject, "."+c.Session.ID) && chunk.Type(m.Header.Get("ce-type")).Terminal()
			if n--; n == 0 || n > 0 && over { // there may be fewer messages than that
				n = 0
				close(reached)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		p := w.serve(w.worker(talker(5, &effects{})))
		w.request(c)
		var people sync.WaitGroup
		people.Go(func() { w.person(ctx, c.Session, c.AgentType) })
		<-reached
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		w.srv.Restart(t)
		if err := w.awaitOver(ctx, c.Session); err != nil {
			t.Fatalf("%v\n%s", err, told(w.snapshot(c.Session)))
		}
		people.Wait()
		cancel()
		p.end()
		got := childNames.ReplaceAllString(strings.ReplaceAll(story(w.snapshot(c.Session)), c.Session.ID, "calm"), "sub-")
		if got != childNames.ReplaceAllString(want, "sub-") {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
