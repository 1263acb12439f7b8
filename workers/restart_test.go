package workers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// The server restarts in the middle of runs. The worker or its successor continues, and the conversation
// equals that of an undisturbed run.
func TestServerRestart(t *testing.T) {
	random := seedtest.Rand(t)
	w := newEnv(t)
	w.maxDelta = 1
	undisturbed := execute("undisturbed", "talker", "Talk!")
	w.play(undisturbed, mixedAgent(5, &effectCounter{}), nil)
	want := historyOf(w.Snapshot(undisturbed.Session))
	for range 3 {
		c := execute(uniqueName("r"), "talker", "Talk!")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		reached, n := make(chan struct{}), 1+random.IntN(120)
		watch := w.Server.Conn(t)
		sub, err := watch.Subscribe("tr.chunks.*."+c.Session.Tenant+"."+c.Session.Root+".>", func(m *nats.Msg) {
			ended := strings.HasSuffix(m.Subject, "."+c.Session.ID) && chunk.Type(m.Header.Get("ce-type")).Terminal()
			if n--; n == 0 || n > 0 && ended { // there may be fewer messages than that
				n = 0
				close(reached)
			}
		})
		if err := errors.Join(err, watch.Flush()); err != nil {
			t.Fatal(err)
		}
		p := w.serve(w.worker(mixedAgent(5, &effectCounter{})))
		w.Request(c)
		var users sync.WaitGroup
		users.Go(func() { w.answerRequests(ctx, c.Session, c.AgentType) })
		<-reached
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		w.Server.Restart(t)
		if err := w.awaitOver(ctx, c.Session); err != nil {
			t.Fatalf("%v\n%s", err, transcript(w.Snapshot(c.Session)))
		}
		users.Wait()
		cancel()
		p.Stop()
		got := childNames.ReplaceAllString(strings.ReplaceAll(historyOf(w.Snapshot(c.Session)), c.Session.ID, "undisturbed"), "sub-")
		if got != childNames.ReplaceAllString(want, "sub-") {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
