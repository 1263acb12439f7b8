package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsapi"
)

// Request puts c on the queue if it is the only command of its session there:
// one that waits, or whose run is at work, stays until a worker has done it. Of
// any number of requests at the same time exactly one is accepted. Nil means
// that c is stored; that somebody sent the same command before is as good.
//
// When the command that is there belongs to a run of which the log says that it
// has ended or is paused (the worker's acknowledgement is late, or the worker
// died before it), give the command's Revision as after: c is then accepted
// behind it. The worker of the old command will find nothing to do.
//
// Errors wrap ErrBusy, a *BusyError with the command that is there; or one of
// those of Publish. After chunk.ErrUnknownOutcome repeat the request.
//
// The queue knows a session by tenant, agent type and id.
func (q *Queue) Request(ctx context.Context, c Command, after Revision) error {
	c, msg, err := q.message(c)
	if err != nil {
		return err
	}
	// The server is to know our own tries, and no others. Were the message known by
	// its command for as long as the duplicate window:
	//  1. a command comes too early, or its session is deleted, and it is taken off
	//     the queue,
	//  2. it is requested again, now with reason,
	//  3. the server says that it has it, and nobody does it.
	// That there is one command at a time is the verdict on the sequence.
	msg.Header[jetstream.MsgIDHeader] = []string{c.id() + "/" + rand.Text()}
	trying, cancel := context.WithTimeout(ctx, q.cfg.Patience)
	defer cancel()
	expected := uint64(after)
	for {
		_, err := q.api.Put(trying, jsapi.Put{Msg: msg, Stream: q.cfg.Layout.CommandStream(), After: &expected, Patience: q.cfg.Patience})
		if err == nil {
			return nil
		}
		moved := errors.Is(err, jsapi.ErrMoved)
		if !moved && !errors.Is(err, chunk.ErrUnknownOutcome) {
			return fmt.Errorf("request command %s: %w", c.id(), err)
		}
		// The verdict is what stands there. It may be c: an earlier try of ours
		// was stored, or somebody sent the same. A stream with replicas knows it by
		// its id for as long as the duplicate window; a single server compares the
		// sequence first.
		patience := min(askLimit, q.cfg.Patience) // the rest was spent on asking
		if moved {
			patience = q.cfg.Patience
		}
		there, lookErr := q.look(ctx, patience, msg.Subject)
		switch {
		case lookErr != nil && moved: // an earlier try may have been stored
			return fmt.Errorf("request command %s: %w: %w", c.id(), chunk.ErrUnknownOutcome, lookErr)
		case lookErr != nil:
			return fmt.Errorf("request command %s: %w", c.id(), err)
		case there != nil && there.is(c):
			return nil
		case there != nil && there.Revision != Revision(expected):
			return fmt.Errorf("request command %s: %w", c.id(), there)
		case !moved:
			return fmt.Errorf("request command %s: %w", c.id(), err)
		case there == nil:
			expected = 0 // what after named is done meanwhile, or what was in the way
		default: // what was in the way is done, and what after names still there
		}
	}
}

// is reports whether the command that is there is c.
func (e *BusyError) is(c Command) bool { return e.Unreadable == nil && e.Command.id() == c.id() }

// Pending is the newest command of s that waits or whose run is at work, and its
// place. The error is ErrNone when there is none; a *BusyError that says why when
// it is one that this build cannot read; chunk.ErrInvalid for a bad name;
// otherwise the server could not be asked.
//
// The answer is the leader's: after a request was accepted everybody sees its
// command, and after the worker's acknowledgement nobody does for longer than the
// server takes to remove it, some milliseconds.
func (q *Queue) Pending(ctx context.Context, s chunk.Session, agentType string) (Command, Revision, error) {
	subject, err := q.cfg.Layout.Command(s.Tenant, agentType, s.ID)
	if err != nil {
		return Command{}, 0, fmt.Errorf("pending command: %w", err)
	}
	there, err := q.look(ctx, q.cfg.Patience, subject)
	switch {
	case err != nil:
		return Command{}, 0, fmt.Errorf("pending command of %s: %w", s, err)
	case there == nil:
		return Command{}, 0, ErrNone
	case there.Unreadable != nil:
		return Command{}, there.Revision, there
	}
	return there.Command, there.Revision, nil
}

// look finds the last command of a subject, nil if there is none. It asks the
// leader: a replica that lags may not have the command yet that was just
// accepted, and may still have one that is long done.
func (q *Queue) look(ctx context.Context, patience time.Duration, subject string) (*BusyError, error) {
	m, err := q.api.LastWithin(ctx, patience, q.cfg.Layout.CommandStream(), subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil //nolint:nilnil // no command is the normal case
	}
	if err != nil {
		return nil, err
	}
	busy := &BusyError{Revision: Revision(m.Seq)}
	busy.Command, busy.Unreadable = decode(q.cfg.Layout, subject, m.Data)
	if busy.Unreadable != nil {
		tenant, agentType, session, _ := q.cfg.Layout.ParseCommand(subject)
		busy.Command = Command{AgentType: agentType, Session: chunk.Session{Tenant: tenant, ID: session}}
	}
	return busy, nil
}
