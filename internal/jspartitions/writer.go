package jspartitions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
)

// ErrOldLayout reports a writer whose layout has too few generations of partitions: no session begins in those that it knows.
var ErrOldLayout = errors.New("the partitions of the log have grown")

// closedTimeout bounds the question whether a partition is closed, after a publish without a responder. A stream without a leader has no responder either,
// does not answer the question, and must not delay the next attempt much.
const closedTimeout = 500 * time.Millisecond

// Target is where a writer publishes a session.
type Target struct {
	Stream  string
	Subject string // of the messages as they are stored
	Publish string // of the messages as they are published
}

// Writer has the target of one session, which changes when its partition is closed. Its methods may be called concurrently.
type Writer struct {
	locator *Locator
	session chunk.Session

	mu sync.Mutex
	at Location
}

// Writer returns the writer of a session. It asks the log also for a tree that the process remembers in an earlier generation: if that has expired since, the
// session begins in the newest one.
func (l *Locator) Writer(ctx context.Context, s chunk.Session) (*Writer, error) {
	at, err := l.Locate(ctx, s)
	if err == nil && l.layout.Generation(at.Partition) < len(l.layout.Earlier) {
		at, err = l.find(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return &Writer{locator: l, session: s, at: at}, nil
}

// Target returns the present target. The error is that of subjects.Layout.Subject.
func (w *Writer) Target() (t Target, err error) {
	w.mu.Lock()
	p := w.at.Partition
	w.mu.Unlock()
	t.Stream = w.locator.layout.Stream(p)
	if t.Subject, err = w.locator.layout.SubjectIn(p, w.session); err == nil {
		t.Publish, err = w.locator.publishSubject(p, w.session)
	}
	return t, err
}

// Refused finds out why a publish had no responder. It returns nil if the writer should ask for its target and try again: the partition has no leader at
// present, or it is closed now. The error wraps ErrOldLayout if no session can be written with this layout any more.
//
// A session that has no record yet begins in the next generation. Its record may be stored in the closed partition nevertheless, by an attempt whose response was
// lost, or by another writer: Locate finds it, because the partition is marked as closed after its last message of that kind is stored.
func (w *Writer) Refused(ctx context.Context, cause error) error {
	if !errors.Is(cause, nats.ErrNoResponders) {
		return nil
	}
	w.mu.Lock()
	at := w.at
	w.mu.Unlock()
	asking, cancel := context.WithTimeout(ctx, closedTimeout)
	defer cancel()
	l := w.locator
	if closed, err := l.IsClosed(asking, at.Partition); err != nil || !closed {
		return nil // it is not known to be closed
	}
	if l.layout.Generation(at.Partition) == len(l.layout.Earlier) {
		return fmt.Errorf("%w: no partition of %s takes messages of writers with this layout; add the later numbers of partitions to it (TAILRACE_PARTITIONS)",
			ErrOldLayout, l.layout.PartitionList())
	}
	if at.Final {
		return nil
	}
	now, err := l.Locate(ctx, w.session)
	if err != nil {
		return nil // the next attempt asks again
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = now
	return nil
}
