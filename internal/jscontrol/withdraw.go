package jscontrol

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
)

// DeleteSession removes all commands and deadlines of a session that is being deleted from the queue, and reports whether there were any. A worker that runs it
// is fenced through the log. Without this the command would be redelivered to another worker, which would start the session again.
func (q *Queue) DeleteSession(ctx context.Context, s chunk.Session) (bool, error) {
	commands, err := names.Layout(q.cfg.Layout).SessionCommands(s)
	if err != nil {
		return false, fmt.Errorf("withdraw: %w", err)
	}
	deadlines, err := names.Layout(q.cfg.Layout).SessionDeadlines(s)
	if err != nil {
		return false, fmt.Errorf("withdraw: %w", err)
	}
	some, err := q.withdraw(ctx, names.Layout(q.cfg.Layout).CommandStream(), commands, s)
	if err != nil {
		return some, fmt.Errorf("withdraw the commands of %s: %w", s, err)
	}
	more, err := q.withdraw(ctx, names.Layout(q.cfg.Layout).DeadlineStream(), deadlines, s)
	if err != nil {
		return some || more, fmt.Errorf("withdraw the deadlines of %s: %w", s, err)
	}
	return some || more, nil
}

// withdraw removes the messages of a filter one by one.
func (q *Queue) withdraw(ctx context.Context, stream, filter string, s chunk.Session) (some bool, err error) {
	for m, err := range q.api.Each(ctx, q.cfg.RetryTimeout, stream, filter) {
		if err != nil {
			return some, err
		}
		if !isOf(m, s) {
			continue
		}
		some = true
		_, err = jsclient.Retry(ctx, jsclient.Policy{For: q.cfg.RetryTimeout}, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, q.api.Delete(ctx, stream, m.Seq)
		})
		if err != nil && !errors.Is(err, jsclient.ErrNotFound) { // the worker may have acknowledged it meanwhile
			return some, err
		}
	}
	return some, nil
}

// isOf reports whether a message is of s: subjects do not contain the root, and another tree may have a session with the same id.
func isOf(m jsclient.Message, s chunk.Session) bool {
	root, ok := control.RootOf(m.Data)
	return !ok || root == s.Root
}

// SessionCommands returns the commands of a session in the queue, of any agent type. A malformed one is a Command with its Session alone.
func (q *Queue) SessionCommands(ctx context.Context, s chunk.Session) (all []control.Command, err error) {
	filter, err := names.Layout(q.cfg.Layout).SessionCommands(s)
	if err != nil {
		return nil, err
	}
	for m, err := range q.api.Each(ctx, q.cfg.RetryTimeout, names.Layout(q.cfg.Layout).CommandStream(), filter) {
		if err != nil {
			return nil, err
		}
		if !isOf(m, s) {
			continue
		}
		c, err := control.DecodeCommand(q.cfg.Layout, m.Subject, m.Data)
		if err != nil {
			c = control.Command{Session: s}
		}
		all = append(all, c)
	}
	return all, nil
}
