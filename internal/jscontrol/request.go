package jscontrol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
)

// Request puts c on the queue if the session has no other command there: a command that waits, or whose run is in progress, stays until a worker has done it. Of
// any number of requests at the same time exactly one is accepted. Nil means that c is stored, also if an equal command was stored before.
//
// If the log shows that the run of the command on the queue has ended or is paused (the acknowledgement of the worker is late, or the worker failed before it),
// pass the Revision of that command as after: c is then accepted after it. The worker of the old command will find nothing to do.
//
// Errors wrap control.ErrBusy, a *control.BusyError with the other command; control.ErrTooManyRuns, see QueueConfig.MaxRuns; or one of those of Publish. After
// chunk.ErrUnknownOutcome repeat the request.
//
// The queue identifies a session by tenant, agent type and id.
func (q *Queue) Request(ctx context.Context, c control.Command, after control.Revision) error {
	ctx, c, end := q.traced(ctx, c)
	err := q.request(ctx, c, after)
	end(err)
	return err
}

func (q *Queue) request(ctx context.Context, c control.Command, after control.Revision) error {
	c, msg, err := q.message(c)
	if err != nil {
		return err
	}
	// The message id is unique to this call, so that the server only deduplicates its retries. If it were that of the command for the duplicate window:
	//  1. a command comes too early, or its session is deleted, and it is removed from the queue,
	//  2. it is requested again, now validly,
	//  3. the server reports it as a duplicate, and no worker gets it.
	// The expected sequence ensures that there is one command at a time.
	msg.Header[jetstream.MsgIDHeader] = []string{c.ID() + "/" + rand.Text()}
	trying, cancel := context.WithTimeout(ctx, q.cfg.RetryTimeout)
	defer cancel()
	if err := q.admit(trying, c, msg.Subject); err != nil {
		return fmt.Errorf("request command %s: %w", c.ID(), err)
	}
	expected := uint64(after)
	for {
		_, err := q.api.Put(trying, jsclient.Put{Msg: msg, Stream: names.Layout(q.cfg.Layout).CommandStream(), ExpectedSeq: &expected, RetryTimeout: q.cfg.RetryTimeout})
		if err == nil {
			return nil
		}
		conflict := errors.Is(err, jsclient.ErrConflict)
		if !conflict && !errors.Is(err, chunk.ErrUnknownOutcome) {
			return fmt.Errorf("request command %s: %w", c.ID(), err)
		}
		// The command that is stored decides. It may be c: an earlier attempt was stored, or an equal request of another client. A stream with replicas detects a
		// duplicate by its id within the duplicate window; a single server compares the sequence first.
		timeout := min(requestTimeout, q.cfg.RetryTimeout) // the publish has used up the budget
		if conflict {
			timeout = q.cfg.RetryTimeout
		}
		stored, lookErr := q.lastCommand(ctx, timeout, msg.Subject)
		switch {
		case lookErr != nil && conflict: // an earlier attempt may have been stored
			return fmt.Errorf("request command %s: %w: %w", c.ID(), chunk.ErrUnknownOutcome, lookErr)
		case lookErr != nil:
			return fmt.Errorf("request command %s: %w", c.ID(), err)
		case stored != nil && stored.Unreadable == nil && stored.Command.ID() == c.ID():
			return nil
		case stored != nil && stored.Revision != control.Revision(expected):
			return fmt.Errorf("request command %s: %w", c.ID(), stored)
		case !conflict:
			return fmt.Errorf("request command %s: %w", c.ID(), err)
		case stored == nil:
			expected = 0 // the command that after names is acknowledged by now, or the one that was in the way
		default: // the one that was in the way is acknowledged, and the one that after names is still there
		}
	}
}

// admit returns control.ErrTooManyRuns if c would be one run too many of its tenant. The queue is the counter: a command stays until its run has ended or is
// suspended, also if its worker dies, so that nothing else has to be counted or corrected. Requests at the same time do not see each other, so a tenant can
// exceed its limit by the number of them.
func (q *Queue) admit(ctx context.Context, c control.Command, subject string) error {
	if q.cfg.MaxRuns == nil || c.Kind != control.Execute || c.Parent != nil {
		return nil
	}
	limit := q.cfg.MaxRuns(c.Session.Tenant)
	if limit <= 0 {
		return nil
	}
	filter := strings.Replace(names.Layout(q.cfg.Layout).AllCommands(), "*", c.Session.Tenant, 1)
	state, err := jsclient.Retry(ctx, jsclient.Policy{For: q.cfg.RetryTimeout}, func(ctx context.Context) (jsclient.State, error) {
		return q.api.State(ctx, names.Layout(q.cfg.Layout).CommandStream(), filter)
	})
	if err != nil {
		return fmt.Errorf("%w: count the runs of the tenant: %w", chunk.ErrNotStored, err)
	}
	if state.Subjects[subject] > 0 { // a repetition, or after a command whose run has ended: it is in the count
		return nil
	}
	total := uint64(0)
	for _, n := range state.Subjects {
		total += n
	}
	if total >= uint64(limit) {
		return control.ErrTooManyRuns
	}
	return nil
}

// Pending returns the newest command of s that waits or whose run is in progress, and its revision. The error is control.ErrNoCommand if there is none; a
// *control.BusyError with the reason if this build cannot read it; chunk.ErrInvalid for an invalid name; otherwise the server could not be reached.
//
// The response is that of the leader: once a request was accepted every caller sees its command, and after the acknowledgement of the worker no caller does,
// except for the milliseconds that the server needs to remove it.
func (q *Queue) Pending(ctx context.Context, s chunk.Session, agentType string) (control.Command, control.Revision, error) {
	subject, err := names.Layout(q.cfg.Layout).Command(s.Tenant, agentType, s.ID)
	if err != nil {
		return control.Command{}, 0, fmt.Errorf("pending command: %w", err)
	}
	stored, err := q.lastCommand(ctx, q.cfg.RetryTimeout, subject)
	switch {
	case err != nil:
		return control.Command{}, 0, fmt.Errorf("pending command of %s: %w", s, err)
	case stored == nil:
		return control.Command{}, 0, control.ErrNoCommand
	case stored.Unreadable != nil:
		return control.Command{}, stored.Revision, stored
	}
	return stored.Command, stored.Revision, nil
}

// StoredCommand is a command on the queue.
type StoredCommand struct {
	control.Command

	Stored time.Time // by the clock of the server
}

// StoredBefore returns the commands on the queue that were stored before a time, oldest first, without those that this build cannot read. It reads them one by
// one from the leader, and ends at an error.
func (q *Queue) StoredBefore(ctx context.Context, before time.Time) iter.Seq2[StoredCommand, error] {
	return func(yield func(StoredCommand, error) bool) {
		for m, err := range q.api.Each(ctx, q.cfg.RetryTimeout, names.Layout(q.cfg.Layout).CommandStream(), names.Layout(q.cfg.Layout).AllCommands()) {
			if err != nil {
				yield(StoredCommand{}, fmt.Errorf("list commands: %w", err))
				return
			}
			if !m.Stored.Before(before) {
				return
			}
			c, err := control.DecodeCommand(q.cfg.Layout, m.Subject, m.Data)
			if err == nil && !yield(StoredCommand{c, m.Stored}, nil) {
				return
			}
		}
	}
}

// MaxAge returns the age at which a command expires, 0 if it does not.
func (q *Queue) MaxAge(ctx context.Context) (time.Duration, error) {
	stream, err := jsclient.Retry(ctx, jsclient.Policy{For: q.cfg.RetryTimeout}, func(ctx context.Context) (jetstream.Stream, error) {
		return jsclient.Asked(q.api, "STREAM.INFO."+names.Layout(q.cfg.Layout).CommandStream(), func() (jetstream.Stream, error) {
			return q.js.Stream(ctx, names.Layout(q.cfg.Layout).CommandStream())
		})
	})
	if err != nil {
		return 0, fmt.Errorf("max age of commands: %w", err)
	}
	return stream.CachedInfo().Config.MaxAge, nil
}

// Commands returns all commands of s that wait or whose run is in progress, oldest first. A command that this build cannot read is a *control.BusyError and does
// not end the list; another error does. They are read one by one from the leader.
func (q *Queue) Commands(ctx context.Context, s chunk.Session, agentType string) iter.Seq2[control.Command, error] {
	return func(yield func(control.Command, error) bool) {
		subject, err := names.Layout(q.cfg.Layout).Command(s.Tenant, agentType, s.ID)
		if err != nil {
			yield(control.Command{}, fmt.Errorf("commands: %w", err))
			return
		}
		for m, err := range q.api.Each(ctx, q.cfg.RetryTimeout, names.Layout(q.cfg.Layout).CommandStream(), subject) {
			if err != nil {
				yield(control.Command{}, fmt.Errorf("commands of %s: %w", s, err))
				return
			}
			there := q.busy(subject, m)
			if err = nil; there.Unreadable != nil {
				err = there
			}
			if !yield(there.Command, err) {
				return
			}
		}
	}
}

// lastCommand returns the last command of a subject, nil if there is none. It asks the leader: a replica that lags may miss a command that was just accepted, or
// may still have one that was removed.
func (q *Queue) lastCommand(ctx context.Context, timeout time.Duration, subject string) (*control.BusyError, error) {
	m, err := q.api.LastRetry(ctx, timeout, names.Layout(q.cfg.Layout).CommandStream(), subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil //nolint:nilnil // no command is the normal case
	}
	if err != nil {
		return nil, err
	}
	return q.busy(subject, m), nil
}

// busy returns a command on the queue as the reason why another one is rejected.
func (q *Queue) busy(subject string, m jsclient.Message) *control.BusyError {
	busy := &control.BusyError{Revision: control.Revision(m.Seq)}
	busy.Command, busy.Unreadable = control.DecodeCommand(q.cfg.Layout, subject, m.Data)
	if busy.Unreadable != nil {
		tenant, agentType, session, _ := names.Layout(q.cfg.Layout).ParseCommand(subject)
		busy.Command = control.Command{AgentType: agentType, Session: chunk.Session{Tenant: tenant, ID: session}}
	}
	return busy
}
