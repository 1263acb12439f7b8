package workers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/projector/fold"
)

// A worker that was only asleep wakes up beside its successor: in the middle of a
// step, or between its look at the session and its first word. It is fenced, and
// nothing of it lands.
func TestSleeperIsFenced(t *testing.T) {
	w := newWorld(t)
	for name, sleepIn := range map[string]int64{"in the first step": 1, "in the second step": 2} {
		t.Run(name, func(t *testing.T) {
			c := execute(fresh("s"), "talker", "Talk!")
			asleep, wake := make(chan struct{}), make(chan struct{})
			var once sync.Once
			calm := talker(2, &effects{})
			sleeper := w.worker(map[string]Agent{"talker": AgentFunc(func(ctx context.Context, turn *Turn) error {
				for n := turn.Steps() + 1; n <= 2; n++ {
					err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
						if err := s.Text(ctx, "I am "); err != nil {
							return err
						}
						if int64(n) == sleepIn {
							once.Do(func() { close(asleep) })
							<-wake
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
			go func() { woken <- sleeper.do(context.WithoutCancel(t.Context()), c) }()
			<-asleep
			if err := w.worker(calm).do(t.Context(), c); err != nil {
				t.Fatalf("the successor: %v", err)
			}
			before := len(w.records(c.Session))
			close(wake)
			if err := <-woken; !errors.Is(err, chunk.ErrFenced) {
				t.Errorf("the sleeper: %v, want ErrFenced", err)
			}
			if after := len(w.records(c.Session)); after != before {
				t.Errorf("the session grew from %d to %d records", before, after)
			}
		})
	}
}

// oversleep is a reader that sleeps between a look and its answer.
type oversleep struct {
	snapshots

	asleep chan<- struct{}
	wake   <-chan struct{}
	once   *sync.Once
}

func (o oversleep) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := o.snapshots.Snapshot(ctx, s)
	o.once.Do(func() {
		o.asleep <- struct{}{}
		<-o.wake
	})
	return snap, err
}

// The worker sleeps after it has looked, and what it saw is long over when it
// acts: it must not open an ended run again.
func TestALookIsOld(t *testing.T) {
	w := newWorld(t)
	for _, agents := range []map[string]Agent{talker(1, &effects{}), talker(2, &effects{})} {
		c := execute(fresh("s"), "talker", "Talk!")
		asleep, wake := make(chan struct{}), make(chan struct{})
		sleeper := w.worker(agents)
		sleeper.reader = oversleep{sleeper.reader, asleep, wake, new(sync.Once)}
		woken := make(chan error, 1)
		go func() { woken <- sleeper.do(context.WithoutCancel(t.Context()), c) }()
		<-asleep
		if err := w.worker(agents).do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		before := len(w.records(c.Session))
		close(wake)
		if err := <-woken; err != nil {
			t.Errorf("the sleeper: %v", err)
		}
		if after := len(w.records(c.Session)); after != before {
			t.Errorf("the session grew from %d to %d records", before, after)
		}
	}
}

// Many workers get the same command at the same time. Whoever tries again in the
// end, the story is told once.
func TestAllAtOnce(t *testing.T) {
	w := newWorld(t)
	want := ""
	for range 5 {
		c := execute("s", "talker", "Talk!")
		c.Session = chunk.RootSession(fresh("tenant"), "s")
		var all sync.WaitGroup
		for range 4 {
			p := w.worker(talker(1, &effects{}))
			all.Go(func() {
				if err := p.do(context.WithoutCancel(t.Context()), c); err != nil && !errors.Is(err, chunk.ErrFenced) {
					t.Errorf("err = %v", err)
				}
			})
		}
		all.Wait()
		if err := w.worker(talker(1, &effects{})).do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		got := story(w.snapshot(c.Session))
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// A worker that is told to stop finishes its step, if it can, and gives the
// command back; the next one goes on behind that step. Nothing is taken back.
func TestGracefulStop(t *testing.T) {
	w := newWorld(t)
	c := execute(fresh("s"), "slow", "Talk!")
	inStep, goOn := make(chan struct{}), make(chan struct{})
	agent := func(wait bool) map[string]Agent {
		return map[string]Agent{"slow": AgentFunc(func(ctx context.Context, turn *Turn) error {
			for n := turn.Steps() + 1; n <= 2; n++ {
				err := turn.Step(ctx, func(ctx context.Context, s *Step) error {
					if wait {
						close(inStep)
						<-goOn
					}
					if n == 2 {
						s.Final()
					}
					return s.Text(ctx, "word ")
				})
				if err != nil {
					return err
				}
			}
			return nil
		})}
	}
	first := w.serve(w.worker(agent(true)))
	w.request(c)
	<-inStep
	first.stop()
	close(goOn)
	first.end()
	snap := w.snapshot(c.Session)
	if snap.Run.Status != fold.RunRunning || snap.Run.Step != 1 {
		t.Errorf("run %s at step %d, want running at 1", snap.Run.Status, snap.Run.Step)
	}
	begin := time.Now()
	w.serve(w.worker(agent(false)))
	w.awaitStatus(c.Session, fold.Ended)
	t.Logf("taken over and finished in %s", time.Since(begin).Round(time.Millisecond))
	for _, b := range w.bodies(c.Session) {
		if _, ok := b.(chunk.Truncated); ok {
			t.Error("a finished step was taken back")
		}
	}
	if _, _, err := w.queue.Pending(t.Context(), c.Session, "slow"); !errors.Is(err, commands.ErrNone) {
		w.await(c.Session, "the queue to be empty", func(fold.Snapshot) bool {
			_, _, err := w.queue.Pending(t.Context(), c.Session, "slow")
			return errors.Is(err, commands.ErrNone)
		})
	}
}
