package workers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

// An actor is a worker at a command, or a person's request. It stops before each
// word with the server, and the scheduler says what becomes of it.
type actor struct {
	t      *tale
	name   string
	person bool
	ctx    context.Context // of the process
	stop   context.CancelFunc

	asks chan ask
	over chan struct{}
	at   *ask // where it stands; the scheduler's

	gone  chan struct{} // closed when its connection is cut: everything fails
	going sync.Once
}

type ask struct {
	what  string
	reply chan verdict
}

// verdict is what becomes of a word with the server.
type verdict int

const (
	pass  verdict = iota
	fail          // it fails, and nothing was done
	lose          // it is done, and fails
	never         // the process is no more
)

var (
	errDead  = errors.New("the process is no more")
	errFault = fmt.Errorf("the server does not answer: %w", chunk.ErrUnknownOutcome)
)

// leave ends all that the actor may say.
func (a *actor) leave() { a.going.Do(func() { close(a.gone) }) }

// wait stops the actor until the scheduler lets it go on.
func (a *actor) wait(what string) verdict {
	q := ask{what: what, reply: make(chan verdict, 1)}
	select {
	case a.asks <- q:
	case <-a.gone:
		return never
	}
	select {
	case v := <-q.reply:
		return v
	case <-a.gone:
		return never
	}
}

func (a *actor) try(what string, do func() error) error {
	_, err := word(a, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// word is a word with the server.
func word[T any](a *actor, what string, do func() (T, error)) (T, error) {
	var none T
	switch a.wait(what) {
	case fail:
		return none, errFault
	case lose:
		_, _ = do() // nobody hears of it
		return none, errFault
	case never:
		return none, errDead
	}
	return do()
}

// servant is w with all its words under control.
func (a *actor) servant(w *Workers) *Workers {
	own := *w
	own.queue, own.inbox = slowQueue{w.queue, a}, slowBox{w.inbox, a}
	own.reader, own.last, own.log = slowReader{w.reader, a}, slowEnding{w.last, a}, slowHistory{w.log, a}
	return &own
}

type slowQueue struct {
	queue

	a *actor
}

func (q slowQueue) Request(ctx context.Context, c commands.Command, after commands.Revision) error {
	return q.a.try(fmt.Sprintf("request %s of %s behind %d", c.Kind, q.a.t.name(c.Session, c.RunID), after), func() error {
		err := q.queue.Request(ctx, c, after)
		q.a.t.note(c)
		if err != nil {
			q.a.t.sayf("    %v", err)
		}
		return err
	})
}

// PublishAt leaves the command with the scheduler, which has a clock of its own.
func (q slowQueue) PublishAt(_ context.Context, c commands.Command, at time.Time) error {
	return q.a.try("ask for a deadline", func() error {
		c.Deadline = at
		q.a.t.due(c)
		return nil
	})
}

type slowBox struct {
	box

	a *actor
}

func (b slowBox) Answer(ctx context.Context, x inbox.Answer) error {
	return b.a.try(fmt.Sprintf("answer %s of %s", x.CallID, b.a.t.name(x.Session, x.RunID)), func() error { return b.box.Answer(ctx, x) })
}

func (b slowBox) Answers(ctx context.Context, s chunk.Session, run string) ([]inbox.Answer, error) {
	return word(b.a, "read answers to "+b.a.t.name(s, run), func() ([]inbox.Answer, error) { return b.box.Answers(ctx, s, run) })
}

func (b slowBox) Stop(ctx context.Context, x inbox.Stop) error {
	return b.a.try(fmt.Sprintf("store %s of %s", x.Kind, b.a.t.name(x.Session, x.RunID)), func() error { return b.box.Stop(ctx, x) })
}

func (b slowBox) Stopped(ctx context.Context, s chunk.Session, run string) (stop inbox.Stop, ok bool, err error) {
	stop, err = word(b.a, "read whether to stop "+b.a.t.name(s, run), func() (inbox.Stop, error) {
		stop, there, err := b.box.Stopped(ctx, s, run)
		ok = there
		return stop, err
	})
	return stop, ok && err == nil, err
}

// Watch gives no hints: they only make it faster.
func (b slowBox) Watch(chunk.Session, string) (<-chan struct{}, func(), error) {
	return make(chan struct{}), func() {}, nil
}

type slowReader struct {
	snapshots

	a *actor
}

func (r slowReader) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	return word(r.a, "look at "+r.a.t.name(s, ""), func() (fold.Snapshot, error) { return r.snapshots.Snapshot(ctx, s) })
}

type slowEnding struct {
	ending

	a *actor
}

func (e slowEnding) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	return word(e.a, "read the end of "+e.a.t.name(s, ""), func() (chunk.Record, error) { return e.ending.Last(ctx, s) })
}

type slowHistory struct {
	history

	a *actor
}

func (h slowHistory) Replay(ctx context.Context, s chunk.Session, after chunk.Position) iter.Seq2[chunk.Record, error] {
	seq, err := word(h.a, "read the log of "+h.a.t.name(s, ""), func() (iter.Seq2[chunk.Record, error], error) {
		return h.history.Replay(ctx, s, after), nil
	})
	if err != nil {
		return func(yield func(chunk.Record, error) bool) { yield(chunk.Record{}, err) }
	}
	return seq
}
