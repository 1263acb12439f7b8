package workers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// simProcess is a worker with a command, or a request of a user. It stops before each call of the server, and
// the scheduler decides about the result.
type simProcess struct {
	t         *schedule
	name      string
	isRequest bool
	delivery  control.Revision // of its command, 0 for none
	ctx       context.Context  // of the process
	stop      context.CancelFunc

	calls chan serverCall
	done  chan struct{}
	at    *serverCall // the call that it waits for; owned by the scheduler

	disconnected   chan struct{} // closed when its connection is closed: every call fails
	disconnectOnce sync.Once
}

type serverCall struct {
	what  string
	reply chan callFault
}

// callFault is the fault of a call of the server.
type callFault int

const (
	noFault      callFault = iota
	failCall               // the call fails and has no effect
	loseResponse           // the call takes effect, and its response is lost
	crashed                // the process has crashed
)

var (
	errCrashed = errors.New("process crashed")
	errFault   = fmt.Errorf("no response: %w", chunk.ErrUnknownOutcome)
)

// disconnect makes every later call of the process fail.
func (a *simProcess) disconnect() { a.disconnectOnce.Do(func() { close(a.disconnected) }) }

// wait blocks until the scheduler continues the process.
func (a *simProcess) wait(what string) callFault {
	q := serverCall{what: what, reply: make(chan callFault, 1)}
	select {
	case a.calls <- q:
	case <-a.disconnected:
		return crashed
	}
	select {
	case v := <-q.reply:
		return v
	case <-a.disconnected:
		return crashed
	}
}

func (a *simProcess) try(what string, do func() error) error {
	_, err := controlledCall(a, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// controlledCall is a call of the server under control of the scheduler.
func controlledCall[T any](a *simProcess, what string, do func() (T, error)) (T, error) {
	var none T
	switch a.wait(what) {
	case failCall:
		return none, errFault
	case loseResponse:
		_, _ = do() // the result is lost
		return none, errFault
	case crashed:
		return none, errCrashed
	}
	return do()
}

// controlled returns w with all of its calls under control of the scheduler.
func (a *simProcess) controlled(w *Workers) *Workers {
	own := *w
	own.queue, own.inbox = controlledQueue{w.queue, a}, controlledInbox{w.inbox, a}
	own.reader, own.last, own.log = controlledSnapshots{w.reader, a}, controlledLastReader{w.last, a}, controlledLog{w.log, a}
	return &own
}

type controlledQueue struct {
	queue

	a *simProcess
}

func (q controlledQueue) Request(ctx context.Context, c control.Command, after control.Revision) error {
	return q.a.try(fmt.Sprintf("request %s of %s after %d", c.Kind, q.a.t.name(c.Session, c.RunID), after), func() error {
		err := q.queue.Request(ctx, c, after)
		q.a.t.recordQueued(c)
		if err != nil {
			q.a.t.logf("    %v", err)
		}
		return err
	})
}

// PublishAt passes the command to the scheduler, which has its own clock.
func (q controlledQueue) PublishAt(_ context.Context, c control.Command, at time.Time) error {
	return q.a.try("ask for a deadline", func() error {
		c.Deadline = at
		q.a.t.addDeadline(c)
		return nil
	})
}

type controlledInbox struct {
	inboxStore

	a *simProcess
}

func (b controlledInbox) Answer(ctx context.Context, x control.Answer) error {
	return b.a.try(fmt.Sprintf("answer %s of %s", x.CallID, b.a.t.name(x.Session, x.RunID)), func() error { return b.inboxStore.Answer(ctx, x) })
}

func (b controlledInbox) Answers(ctx context.Context, s chunk.Session, run string) ([]control.Answer, error) {
	return controlledCall(b.a, "read answers to "+b.a.t.name(s, run), func() ([]control.Answer, error) { return b.inboxStore.Answers(ctx, s, run) })
}

func (b controlledInbox) Stop(ctx context.Context, x control.Stop) error {
	return b.a.try(fmt.Sprintf("store %s of %s", x.Kind, b.a.t.name(x.Session, x.RunID)), func() error { return b.inboxStore.Stop(ctx, x) })
}

func (b controlledInbox) StopRequest(ctx context.Context, s chunk.Session, run string) (stop control.Stop, ok bool, err error) {
	stop, err = controlledCall(b.a, "read whether to stop "+b.a.t.name(s, run), func() (control.Stop, error) {
		stop, there, err := b.inboxStore.StopRequest(ctx, s, run)
		ok = there
		return stop, err
	})
	return stop, ok && err == nil, err
}

func (b controlledInbox) Enqueue(ctx context.Context, m control.Queued) error {
	return b.a.try("queue a message", func() error { return b.inboxStore.Enqueue(ctx, m) })
}

func (b controlledInbox) Queued(ctx context.Context, s chunk.Session) ([]control.Queued, error) {
	return controlledCall(b.a, "read the messages of "+b.a.t.name(s, ""), func() ([]control.Queued, error) { return b.inboxStore.Queued(ctx, s) })
}

func (b controlledInbox) SetQueued(ctx context.Context, s chunk.Session, run string, state control.QueuedState) error {
	return b.a.try(fmt.Sprintf("message of %s is %s", b.a.t.name(s, run), state), func() error { return b.inboxStore.SetQueued(ctx, s, run, state) })
}

// Watch returns no hints: they only reduce latency.
func (b controlledInbox) Watch(chunk.Session, string) (<-chan struct{}, func(), error) {
	return make(chan struct{}), func() {}, nil
}

type controlledSnapshots struct {
	snapshotReader

	a *simProcess
}

func (r controlledSnapshots) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	return controlledCall(r.a, "load "+r.a.t.name(s, ""), func() (fold.Snapshot, error) { return r.snapshotReader.Snapshot(ctx, s) })
}

type controlledLastReader struct {
	lastReader

	a *simProcess
}

func (e controlledLastReader) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	return controlledCall(e.a, "read the last record of "+e.a.t.name(s, ""), func() (chunk.Record, error) { return e.lastReader.Last(ctx, s) })
}

type controlledLog struct {
	recordLog

	a *simProcess
}

func (h controlledLog) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	seq, err := controlledCall(h.a, "read the log of "+h.a.t.name(of.Session, ""), func() (iter.Seq2[chunk.Record, error], error) {
		return h.recordLog.Replay(ctx, of), nil
	})
	if err != nil {
		return func(yield func(chunk.Record, error) bool) { yield(chunk.Record{}, err) }
	}
	return seq
}
