package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
)

// Withdraw takes all commands and deadlines of a session that is being deleted
// off the queue and reports whether there were any. A worker that is at work for
// it hears from the log that it is fenced. Without this the command would come to
// another worker, which would begin the session anew.
func (q *Queue) Withdraw(ctx context.Context, s chunk.Session) (bool, error) {
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

// withdraw removes the messages of a filter one by one: subjects do not name the
// root, and another tree may have a session of the same id.
func (q *Queue) withdraw(ctx context.Context, name, filter string, s chunk.Session) (some bool, err error) {
	var stream jetstream.Stream
	var failed uint64 // to remove, once
	for from := uint64(1); ; {
		m, err := q.api.NextWithin(ctx, q.cfg.Patience, name, filter, from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return some, nil
		}
		if err != nil {
			return some, err
		}
		var b body
		if err := json.Unmarshal(m.Data, &b); err == nil && b.Root != s.Root {
			from = m.Seq + 1
			continue
		}
		if stream == nil {
			if stream, err = q.js.Stream(ctx, name); err != nil {
				return some, err
			}
		}
		some, from = true, m.Seq
		if err := stream.DeleteMsg(ctx, m.Seq); err != nil {
			if !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) || failed == m.Seq {
				return some, err
			}
			failed = m.Seq // unless it is gone when we look again: its worker was faster
		}
	}
}
