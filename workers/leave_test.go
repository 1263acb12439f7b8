package workers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// Rolling restarts in the middle of one step are not counted as crashes, and their runs are not suspect. A crash among them
// is counted.
func TestShutdownIsNotCounted(t *testing.T) {
	for name, test := range map[string]struct {
		ends string // of the workers: "s" is a shutdown, "k" a crash
		lost int    // counted by the next worker
	}{
		"shutdowns":                     {"ssssss", 0},
		"a crash":                       {"k", 1},
		"a crash after a shutdown":      {"sk", 1},
		"a shutdown after a crash":      {"ks", 1},
		"crashes before and after":      {"kssk", 2},
		"more shutdowns than takeovers": {"kkssssk", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			c := execute(uniqueName("s"), "slow", "Hello?")
			for _, end := range test.ends {
				w.endInStep(c, end == 'k')
			}
			p := w.worker(map[string]Agent{"slow": oneStep(func(ctx context.Context, _ *Turn, s *Step) error { return s.Text(ctx, "Done.") })})
			p.cfg.MaxTakeovers, p.restart = defaultMaxTakeovers, wait.Backoff{First: time.Millisecond, Max: time.Millisecond}
			lost, err := (&commandJob{w: p.Workers, cmd: c}).lostWorkers(t.Context(), w.Snapshot(c.Session))
			if err != nil || lost != test.lost {
				t.Errorf("%d lost workers, %v, want %d", lost, err, test.lost)
			}
			if err := p.handle(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if got, want := transcript(w.AwaitStatus(c.Session, fold.Ended)), "user: Hello?\nassistant: Done."; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// endInStep runs a command in a worker that crashes or shuts down in the middle of the step.
func (w *env) endInStep(c control.Command, crash bool) {
	w.t.Helper()
	ctx, shutDown := context.WithCancel(w.t.Context())
	defer shutDown()
	var p *process
	p = w.worker(map[string]Agent{"slow": oneStep(func(ctx context.Context, t *Turn, s *Step) error {
		if err := s.Text(ctx, "I am about to "); err != nil {
			return err
		}
		if _, err := t.run.Flush(ctx); err != nil {
			return err
		}
		if crash {
			p.Kill()
			return errors.New("crashed")
		}
		shutDown()
		<-ctx.Done()
		return ctx.Err()
	})})
	p.cfg.ShutdownTimeout = Off
	p.cfg.MaxTakeovers, p.restart = defaultMaxTakeovers, wait.Backoff{First: time.Millisecond, Max: time.Millisecond}
	if err := p.handle(ctx, c); err == nil {
		w.t.Fatal("the step was committed")
	}
}
