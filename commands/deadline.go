package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/subjects"
)

// MaxDelay is how far away a deadline may be: the inbox forgets answers after
// about as long.
const MaxDelay = 30 * 24 * time.Hour

// PublishAt has an Expire handled at a time, which becomes its Deadline: by a
// worker of the agent type, not earlier by the server's clock, and on a running
// server within a second after. It lies in the stream TR_DEADLINES until then,
// where it outlives restarts, and it is not the session's command: Request and
// Pending do not see it. Nil means that it is stored. Repeating it changes
// nothing; a run may have several. A time in the past is now. It cannot be taken
// back: one that comes when nothing waits any longer is to be ignored.
//
// The time is the server's and the one that calls; a handler should not ask its
// own clock once more, or it may find that it is too early and nobody will come
// again.
//
// Errors are those of Publish. A time more than MaxDelay away is chunk.ErrInvalid.
func (q *Queue) PublishAt(ctx context.Context, c Command, at time.Time) error {
	if c.Kind != Expire {
		return fmt.Errorf("publish command %q at a time: want %q: %w", c.Kind, Expire, chunk.ErrInvalid)
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
	if err := c.validate(); err != nil {
		return fmt.Errorf("deadline: %w", err)
	}
	msg, err := encodeDeadline(q.cfg.Layout, c)
	if err != nil {
		return fmt.Errorf("deadline: %w", err)
	}
	if _, err := q.api.Put(ctx, jsapi.Put{Msg: msg, Stream: q.cfg.Layout.DeadlineStream(), Patience: q.cfg.Patience}); err != nil {
		return fmt.Errorf("deadline %s: %w", c.id(), err)
	}
	return nil
}

// encodeDeadline turns a valid Expire into the message that lies until its
// Deadline where the server keeps it.
func encodeDeadline(l subjects.Layout, c Command) (*nats.Msg, error) {
	set, due, err := l.Deadline(subjects.Deadline{
		Tenant: c.Session.Tenant, AgentType: c.AgentType, Session: c.Session.ID, RunID: c.RunID, At: c.Deadline,
	})
	if err != nil {
		return nil, err
	}
	msg, err := encodeTo(set, c)
	if err != nil {
		return nil, err
	}
	msg.Header["Nats-Schedule"] = []string{"@at " + c.Deadline.UTC().Format(timeLayout)}
	msg.Header["Nats-Schedule-Target"] = []string{due}
	return msg, nil
}
