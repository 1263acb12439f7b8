//go:build e2e && chaos

package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

const (
	chaosParallel = 4               // runs at a time
	chaosRun      = 3 * time.Minute // timeout of one run
)

// chaosRuns requests runs, one after the other in each of chaosParallel loops, and answers their calls. Two workers execute them.
type chaosRuns struct {
	env     *workerEnv
	job     workerJob
	workers []*workerProcess
	begun   atomic.Int64
	ended   atomic.Int64
	stopped chan struct{} // closed by stop
	loops   sync.WaitGroup
	once    sync.Once

	mu   sync.Mutex
	errs []error
}

func startChaosRuns(t *testing.T, env *workerEnv, job workerJob) *chaosRuns {
	t.Helper()
	r := &chaosRuns{env: env, job: job, stopped: make(chan struct{})}
	for range 2 {
		r.workers = append(r.workers, startWorkerProcess(t, job))
	}
	t.Cleanup(func() {
		for _, w := range r.workers {
			w.kill()
		}
	})
	ctx := context.WithoutCancel(t.Context()) // each run has a timeout
	for range chaosParallel {
		r.loops.Go(func() { r.loop(ctx) })
	}
	t.Cleanup(r.stop)
	return r
}

func (r *chaosRuns) loop(ctx context.Context) {
	for {
		select {
		case <-r.stopped:
			return
		default:
		}
		if err := r.executeRun(ctx, int(r.begun.Add(1))-1); err != nil {
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
		}
		r.ended.Add(1)
	}
}

// executeRun requests run i until the request is accepted, and follows the run to its end.
func (r *chaosRuns) executeRun(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, chaosRun)
	defer cancel()
	for {
		err := r.env.ask(ctx, i)
		if err == nil {
			return r.env.attend(ctx, i)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("run %d was not accepted: %w", i, err)
		}
	}
}

// awaitMore waits until a run that began since the call has ended.
func (r *chaosRuns) awaitMore(t *testing.T) {
	t.Helper()
	before := r.ended.Load()
	natstest.Eventually(t, "the end of another run", func(context.Context) error {
		if n := r.ended.Load() - before; n <= chaosParallel { // each loop may have ended a run that had begun before the call
			return fmt.Errorf("%d runs have ended", n)
		}
		return nil
	})
}

func (r *chaosRuns) stop() {
	r.once.Do(func() { close(r.stopped) })
	r.loops.Wait()
}

// check waits for the last runs, and checks that each run has ended once with its whole content.
func (r *chaosRuns) check(t *testing.T) {
	t.Helper()
	r.stop()
	for _, err := range r.errs {
		t.Error(err)
	}
	for i := range int(r.begun.Load()) {
		r.env.check(t, i)
	}
	t.Logf("%d runs ended once", r.begun.Load())
}

// faults returns the faults of a worker, in a constant order.
func (r *chaosRuns) faults(t *testing.T) []chaosFault {
	t.Helper()
	restart := func() { r.workers[0] = startWorkerProcess(t, r.job) }
	return []chaosFault{
		{name: "kill a worker", inject: func() { r.workers[0].kill(); restart() }},
		{name: "terminate a worker", inject: func() { r.workers[0].terminate(t); restart() }},
		{name: "stop a worker", inject: func() {
			r.workers[0].signal(t, syscall.SIGSTOP)
			<-time.After(chaosStop)
			r.workers[0].signal(t, syscall.SIGCONT)
		}},
	}
}
