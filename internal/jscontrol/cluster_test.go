package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/wait"
)

// clusterConfig has timeouts that are longer than the loss of a leader on a busy machine. A fifth of RetryTimeout is the time of an attempt: so long a request
// waits that is lost with a leader.
var clusterConfig = QueueConfig{RetryTimeout: 20 * time.Second, AckWait: 2 * time.Second}

// Three servers. In each round forty clients request a run at once for each of eight sessions, while the leader of the queue steps down or is killed. One of
// them is accepted, the errors of the others name that one, and the worker gets it.
func TestRequestsAtOnceOnACluster(t *testing.T) {
	t.Parallel()
	const rounds, sessions, requesters = 7, 8, 40
	cluster := streamtest.StartCluster(t)
	var queues []*Queue
	for range 4 {
		queues = append(queues, newQueue(t, cluster.JetStream(t), clusterConfig))
	}
	var handled sync.Map
	var gate atomic.Pointer[chan struct{}]
	closed := make(chan struct{})
	gate.Store(&closed)
	close(closed)
	w := serve(t, queues[0], func(ctx context.Context, c control.Command) error {
		handled.Store(c.ID(), true)
		select {
		case <-*gate.Load():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	for round := range rounds {
		open := make(chan struct{})
		gate.Store(&open)
		var asking sync.WaitGroup
		var accepted, refused [sessions]sync.Map
		for i := range sessions * requesters {
			asking.Go(func() {
				s := i % sessions
				c := execute(fmt.Sprint("s", s), fmt.Sprintf("%d-%d", round, i))
				err := queues[i%len(queues)].Request(t.Context(), c, 0)
				busy, isBusy := errors.AsType[*control.BusyError](err)
				switch {
				case err == nil:
					accepted[s].Store(c.RunID, true)
				case isBusy:
					refused[s].Store(busy.Command.RunID, true)
				default:
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		killed := disturb(t, cluster, round)
		asking.Wait()
		for s := range sessions {
			won, named := keys(&accepted[s]), keys(&refused[s])
			if len(won) != 1 || len(named) != 1 || won[0] != named[0] {
				t.Errorf("round %d, session %d: accepted %v, the errors name %v", round, s, won, named)
			}
		}
		close(open)
		if killed >= 0 {
			cluster.Restart(t, killed)
		}
		for s := range sessions {
			natstest.Eventually(t, "the session to be free", func(ctx context.Context) error {
				c, _, err := queues[1].Pending(ctx, chunk.RootSession("acme", fmt.Sprint("s", s)), "support")
				if errors.Is(err, control.ErrNoCommand) {
					return nil
				}
				return fmt.Errorf("%s: %w", c.RunID, err)
			})
			for _, run := range keys(&accepted[s]) {
				if _, ok := handled.Load(execute(fmt.Sprint("s", s), run).ID()); !ok {
					t.Errorf("round %d: run %s was accepted and lost", round, run)
				}
			}
		}
	}
	w.stop(t)
	if n := len(keys(&handled)); n != rounds*sessions {
		t.Errorf("%d commands handled, want %d", n, rounds*sessions)
	}
}

// disturb makes the leader of the queue fail in one of three ways and returns the killed node, or -1.
func disturb(t *testing.T, cluster *natstest.Cluster, round int) int {
	t.Helper()
	switch round % 3 {
	case 1:
		cluster.StepDown(t, "TR_COMMANDS")
	case 2:
		leader := cluster.Leader(t, "TR_COMMANDS")
		cluster.Kill(t, leader)
		return leader
	}
	return -1
}

func keys(m *sync.Map) []string {
	var all []string
	m.Range(func(key, _ any) bool { all = append(all, fmt.Sprint(key)); return true })
	return all
}

// Three servers, workers, clients that repeat their requests, and leaders that step down repeatedly. No session has a second run before the first is
// acknowledged, and every accepted run is handled.
func TestRequestsWhileLeadersChange(t *testing.T) {
	t.Parallel()
	const sessions, requesters = 3, 12
	seed := seedtest.Seed(t)
	cluster := streamtest.StartCluster(t)
	queues := []*Queue{newQueue(t, cluster.JetStream(t), clusterConfig), newQueue(t, cluster.JetStream(t), clusterConfig)}
	var runs ledger
	handle := func(ctx context.Context, c control.Command) error {
		runs.begin(c)
		if err := wait.Sleep(ctx, rand.N(60*time.Millisecond)); err != nil {
			return err
		}
		runs.finish(c)
		return nil
	}
	workers := []*worker{serve(t, queues[0], handle), serve(t, queues[1], handle)}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var asking sync.WaitGroup
	for i := range requesters {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		asking.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c := execute(fmt.Sprint("s", rng.IntN(sessions)), fmt.Sprintf("%d-%d", i, n))
				switch err := queues[i%2].Request(t.Context(), c, 0); {
				case err == nil:
					runs.accept(c)
				case !errors.Is(err, control.ErrBusy):
					t.Error(err)
				}
			}
		})
	}
	conn := cluster.JetStream(t).Conn()
	for changes := 0; ctx.Err() == nil && (changes < 30 || runs.count() < enough); changes++ {
		// There may be no leader, and a leader that stepped down may not respond: both are allowed.
		_, _ = conn.Request("$JS.API.STREAM.LEADER.STEPDOWN.TR_COMMANDS", nil, time.Second)
		_ = wait.Sleep(ctx, rand.N(600*time.Millisecond))
	}
	cancel()
	asking.Wait()
	js := cluster.JetStream(t)
	natstest.Eventually(t, "the queue to be empty", func(ctx context.Context) error { return empty(ctx, js, "TR_COMMANDS") })
	for _, w := range workers {
		w.stop(t)
	}
	runs.check(t)
}

func empty(ctx context.Context, js jetstream.JetStream, name string) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	if n := stream.CachedInfo().State.Msgs; n != 0 {
		return fmt.Errorf("%d messages in %s", n, name)
	}
	return nil
}

// enough is the number of runs for a result. While leaders change they are few on a slow machine.
const enough = 10

// ledger records all runs and checks the invariants.
type ledger struct {
	mu       sync.Mutex
	accepted map[string]bool
	finished map[string]bool
	open     map[chunk.Session]map[string]bool
	wrong    []string
}

func (l *ledger) accept(c control.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepted == nil {
		l.accepted = map[string]bool{}
	}
	l.accepted[c.ID()] = true
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

func (l *ledger) begin(c control.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open, l.finished = map[chunk.Session]map[string]bool{}, map[string]bool{}
	}
	if l.open[c.Session] == nil {
		l.open[c.Session] = map[string]bool{}
	}
	for other := range l.open[c.Session] {
		if other != c.ID() {
			l.wrong = append(l.wrong, fmt.Sprintf("%s begins before %s has finished", c.ID(), other))
		}
	}
	if !l.finished[c.ID()] {
		l.open[c.Session][c.ID()] = true
	}
}

func (l *ledger) finish(c control.Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished[c.ID()] = true
	delete(l.open[c.Session], c.ID())
}

func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
	for id := range l.accepted {
		if !l.finished[id] {
			t.Errorf("%s was accepted and lost", id)
		}
	}
	for id := range l.finished {
		if !l.accepted[id] {
			t.Errorf("%s was refused and done", id)
		}
	}
	if len(l.accepted) < enough {
		t.Errorf("only %d runs: nothing was proven", len(l.accepted))
	}
	t.Logf("%d runs", len(l.accepted))
}
