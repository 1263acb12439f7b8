package jscontrol

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/tracing"
	"github.com/tailrace/tailrace/subjects"
)

// MaxDelay is the maximum delay of a deadline: answers expire from the inbox after about as long.
const MaxDelay = 30 * 24 * time.Hour

// PublishAt sends an Expire at a time, which becomes its Deadline: to a worker of the agent type, not earlier by the clock of the server, and on a running server
// within a second after. Until then it is in the stream TR_DEADLINES, where it survives restarts; it is not the command of the session: Request and Pending do
// not see it. Nil means that it is stored. A repetition changes nothing; a run may have several deadlines. A time in the past is now. A deadline cannot be
// removed: an Expire for which no call waits is to be ignored.
//
// The time is that of the server. A handler must not compare it with its own clock: it could find that it is too early, and the Expire is not redelivered.
//
// Errors are those of Publish. A time more than MaxDelay away is chunk.ErrInvalid.
func (q *Queue) PublishAt(ctx context.Context, c control.Command, at time.Time) error {
	if c.Kind != control.Expire {
		return fmt.Errorf("publish command %q at a time: want %q: %w", c.Kind, control.Expire, chunk.ErrInvalid)
	}
	now := time.Now()
	if c.Issued.IsZero() {
		c.Issued = now
	}
	if delay := at.Sub(now); delay > MaxDelay {
		return fmt.Errorf("deadline is %s away, want at most %s: %w", delay.Round(time.Second), MaxDelay, chunk.ErrInvalid)
	}
	// To the millisecond, and not before its time.
	c.Deadline = time.UnixMilli(at.Add(time.Millisecond - 1).UnixMilli())
	c.TraceParent = tracing.Parent(ctx)
	if err := c.Validate(); err != nil {
		return fmt.Errorf("deadline: %w", err)
	}
	msg, err := encodeDeadline(q.cfg.Layout, c)
	if err != nil {
		return fmt.Errorf("deadline: %w", err)
	}
	// As in Request, the message id is unique to this call: the deadline of a session that was deleted and has started again is not a duplicate of the removed
	// one. A repetition replaces the message of the same subject.
	msg.Header[jetstream.MsgIDHeader] = []string{c.ID() + "/" + rand.Text()}
	if _, err := q.api.Put(ctx, jsclient.Put{Msg: msg, Stream: names.Layout(q.cfg.Layout).DeadlineStream(), RetryTimeout: q.cfg.RetryTimeout}); err != nil {
		return fmt.Errorf("deadline %s: %w", c.ID(), err)
	}
	return nil
}

// encodeDeadline returns the message of a valid Expire, which the server keeps until its Deadline.
func encodeDeadline(l subjects.Layout, c control.Command) (*nats.Msg, error) {
	set, due, err := names.Layout(l).Deadline(names.Deadline{
		Tenant: c.Session.Tenant, AgentType: c.AgentType, Session: c.Session.ID, RunID: c.RunID, At: c.Deadline,
	})
	if err != nil {
		return nil, err
	}
	msg, err := encodeTo(set, c)
	if err != nil {
		return nil, err
	}
	msg.Header["Nats-Schedule"] = []string{"@at " + c.Deadline.UTC().Format(control.TimeLayout)}
	msg.Header["Nats-Schedule-Target"] = []string{due}
	return msg, nil
}
