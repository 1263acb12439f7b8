package jscontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// DeleteSession removes all commands and deadlines of a session that is being deleted from the queue, and reports whether there were any. A worker that runs it
// is fenced through the log. Without this the command would be redelivered to another worker, which would start the session again.
func (q *Queue) DeleteSession(ctx context.Context, s chunk.Session) (bool, error) {
	commands, err := q.cfg.Layout.SessionCommands(s)
	if err != nil {
		return false, fmt.Errorf("withdraw: %w", err)
	}
	deadlines, err := q.cfg.Layout.SessionDeadlines(s)
	if err != nil {
		return false, fmt.Errorf("withdraw: %w", err)
	}
	some, err := q.withdraw(ctx, q.cfg.Layout.CommandStream(), commands, s)
	if err != nil {
		return some, fmt.Errorf("withdraw the commands of %s: %w", s, err)
	}
	more, err := q.withdraw(ctx, q.cfg.Layout.DeadlineStream(), deadlines, s)
	if err != nil {
		return some || more, fmt.Errorf("withdraw the deadlines of %s: %w", s, err)
	}
	return some || more, nil
}

// withdraw removes the messages of a filter one by one.
func (q *Queue) withdraw(ctx context.Context, stream, filter string, s chunk.Session) (some bool, err error) {
	for from := uint64(1); ; {
		m, err := q.next(ctx, stream, filter, s, from)
		if errors.Is(err, jsclient.ErrNotFound) {
			return some, nil
		}
		if err != nil {
			return some, err
		}
		from = m.Seq + 1
		some = true
		_, err = jsclient.Retry(ctx, jsclient.Policy{For: q.cfg.RetryTimeout}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, q.api.Delete(ctx, stream, m.Seq)
		})
		if err != nil && !errors.Is(err, jsclient.ErrNotFound) { // the worker may have acknowledged it meanwhile
			return some, err
		}
	}
}

// next returns the first message of a filter from a sequence on that is of s: subjects do not contain the root, and another tree may have a session with the
// same id.
func (q *Queue) next(ctx context.Context, stream, filter string, s chunk.Session, from uint64) (jsclient.Message, error) {
	for {
		m, err := q.api.NextRetry(ctx, q.cfg.RetryTimeout, stream, filter, from)
		if err != nil {
			return m, err
		}
		if root, ok := control.RootOf(m.Data); !ok || root == s.Root {
			return m, nil
		}
		from = m.Seq + 1
	}
}

// SessionCommands returns the commands of a session in the queue, of any agent type. A malformed one is a Command with its Session alone.
func (q *Queue) SessionCommands(ctx context.Context, s chunk.Session) (all []control.Command, err error) {
	filter, err := q.cfg.Layout.SessionCommands(s)
	if err != nil {
		return nil, err
	}
	for from := uint64(1); ; {
		m, err := q.next(ctx, q.cfg.Layout.CommandStream(), filter, s, from)
		if errors.Is(err, jsclient.ErrNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		c, err := control.DecodeCommand(q.cfg.Layout, m.Subject, m.Data)
		if err != nil {
			c = control.Command{Session: s}
		}
		all, from = append(all, c), m.Seq+1
	}
}
