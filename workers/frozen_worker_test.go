package workers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// A frozen worker continues next to its successor: in the middle of a step, or between the load of the
// session and its first write. It is fenced, and none of its writes is stored.
func TestFrozenWorkerIsFenced(t *testing.T) {
	w := newEnv(t)
	for name, sleepIn := range map[string]int64{"in the first step": 1, "in the second step": 2} {
		t.Run(name, func(t *testing.T) {
			c := execute(uniqueName("s"), "talker", "Talk!")
			frozen, unfreeze := make(chan struct{}), make(chan struct{})
			var once sync.Once
			undisturbed := mixedAgent(2, &effectCounter{})
			worker := w.worker(map[string]Agent{"talker": AgentFunc(func(ctx context.Context, turn *Turn) error {
				for n := turn.Steps() + 1; n <= 2; n++ {
					err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
						if err := s.Text(ctx, "I am "); err != nil {
							return err
						}
						if int64(n) == sleepIn {
							once.Do(func() { close(frozen) })
							<-unfreeze
						}
						return s.Text(ctx, "still here.")
					})
					if err != nil {
						return err
					}
				}
				return nil
			})})
			woken := make(chan error, 1)
			go func() { woken <- worker.do(context.WithoutCancel(t.Context()), c) }()
			<-frozen
			if err := w.worker(undisturbed).do(t.Context(), c); err != nil {
				t.Fatalf("successor: %v", err)
			}
			before := len(w.Records(c.Session))
			close(unfreeze)
			if err := <-woken; !errors.Is(err, chunk.ErrFenced) {
				t.Errorf("frozen worker: %v, want ErrFenced", err)
			}
			if after := len(w.Records(c.Session)); after != before {
				t.Errorf("the session grew from %d to %d records", before, after)
			}
		})
	}
}

// delayedSnapshots is a reader that blocks before it returns a snapshot.
type delayedSnapshots struct {
	snapshotReader

	frozen   chan<- struct{}
	unfreeze <-chan struct{}
	once     *sync.Once
}

func (o delayedSnapshots) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := o.snapshotReader.Snapshot(ctx, s)
	o.once.Do(func() {
		o.frozen <- struct{}{}
		<-o.unfreeze
	})
	return snap, err
}

// The worker is frozen after it has loaded the session. The snapshot is outdated when it continues: it must
// not start an ended run again.
func TestStaleSnapshot(t *testing.T) {
	w := newEnv(t)
	for _, agents := range []map[string]Agent{mixedAgent(1, &effectCounter{}), mixedAgent(2, &effectCounter{})} {
		c := execute(uniqueName("s"), "talker", "Talk!")
		frozen, unfreeze := make(chan struct{}), make(chan struct{})
		worker := w.worker(agents)
		worker.reader = delayedSnapshots{worker.reader, frozen, unfreeze, new(sync.Once)}
		woken := make(chan error, 1)
		go func() { woken <- worker.do(context.WithoutCancel(t.Context()), c) }()
		<-frozen
		if err := w.worker(agents).do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		before := len(w.Records(c.Session))
		close(unfreeze)
		if err := <-woken; err != nil {
			t.Errorf("frozen worker: %v", err)
		}
		if after := len(w.Records(c.Session)); after != before {
			t.Errorf("the session grew from %d to %d records", before, after)
		}
	}
}

// Many workers get the same command concurrently. After a last delivery the log contains the run once.
func TestConcurrentDelivery(t *testing.T) {
	w := newEnv(t)
	want := ""
	for range 5 {
		c := execute("s", "talker", "Talk!")
		c.Session = chunk.RootSession(uniqueName("tenant"), "s")
		var all sync.WaitGroup
		for range 4 {
			p := w.worker(mixedAgent(1, &effectCounter{}))
			all.Go(func() {
				if err := p.do(context.WithoutCancel(t.Context()), c); err != nil && !errors.Is(err, chunk.ErrFenced) {
					t.Errorf("err = %v", err)
				}
			})
		}
		all.Wait()
		if err := w.worker(mixedAgent(1, &effectCounter{})).do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		got := historyOf(w.Snapshot(c.Session))
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// A worker that shuts down finishes its step, if it can, and returns the command; the next worker continues
// after that step. Nothing is rolled back.
func TestGracefulShutdown(t *testing.T) {
	w := newEnv(t)
	c := execute(uniqueName("s"), "slow", "Talk!")
	inStep, proceed := make(chan struct{}), make(chan struct{})
	agent := func(wait bool) map[string]Agent {
		return map[string]Agent{"slow": AgentFunc(func(ctx context.Context, turn *Turn) error {
			for n := turn.Steps() + 1; n <= 2; n++ {
				err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
					if wait {
						close(inStep)
						<-proceed
					}
					if n == 2 {
						s.MarkFinal()
					}
					return s.Text(ctx, "text ")
				})
				if err != nil {
					return err
				}
			}
			return nil
		})}
	}
	first := w.serve(w.worker(agent(true)))
	w.Request(c)
	<-inStep
	first.Cancel()
	close(proceed)
	first.Stop()
	snap := w.Snapshot(c.Session)
	if snap.Run.Status != fold.RunRunning || snap.Run.Step != 1 {
		t.Errorf("run %s at step %d, want running at 1", snap.Run.Status, snap.Run.Step)
	}
	begin := time.Now()
	w.serve(w.worker(agent(false)))
	w.AwaitStatus(c.Session, fold.Ended)
	t.Logf("taken over and finished in %s", time.Since(begin).Round(time.Millisecond))
	for _, b := range w.Bodies(c.Session) {
		if _, ok := b.(chunk.Truncated); ok {
			t.Error("committed step rolled back")
		}
	}
	if _, _, err := w.Queue.Pending(t.Context(), c.Session, "slow"); !errors.Is(err, control.ErrNoCommand) {
		w.Await(c.Session, "the queue to be empty", func(fold.Snapshot) bool {
			_, _, err := w.Queue.Pending(t.Context(), c.Session, "slow")
			return errors.Is(err, control.ErrNoCommand)
		})
	}
}
