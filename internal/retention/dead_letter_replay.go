package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/projector"
)

var (
	// ErrStillUnreadable reports an entry that this build cannot fold either. The entry is kept.
	ErrStillUnreadable = errors.New("still unreadable")

	// ErrLogIncomplete reports an entry whose session cannot be refolded, because the log no longer has all records of the stored snapshot. The entry is
	// kept.
	ErrLogIncomplete = errors.New("log of the session is incomplete")
)

// Replay refolds the sessions of entries, each once, and deletes the entries whose records are now part of a snapshot. It returns one error for each
// entry, nil for a deleted one: ErrStillUnreadable, ErrLogIncomplete, or an error of projector.Rebuild. An entry with an error is kept.
func (d *DeadLetters) Replay(ctx context.Context, entries []DeadLetter, store projector.Store, log projector.Log) []error {
	errs := make([]error, len(entries))
	sessions := make(map[chunk.Session]refolded)
	for i, entry := range entries {
		if err := d.replay(ctx, entry, sessions, store, log); err != nil {
			errs[i] = fmt.Errorf("dead letter %d: %w", entry.Seq, err)
		}
	}
	return errs
}

// refolded is the result of refolding a session.
type refolded struct {
	skipped map[chunk.Seq]bool
	err     error
}

func (d *DeadLetters) replay(ctx context.Context, entry DeadLetter, sessions map[chunk.Session]refolded, store projector.Store, log projector.Log) error {
	if err := checkReadable(entry); err != nil {
		return err
	}
	session, done := sessions[entry.Session]
	if !done {
		session = refoldSession(ctx, entry.Session, store, log)
		sessions[entry.Session] = session
	}
	switch {
	case session.err != nil:
		return session.err
	case session.skipped[entry.Origin.Seq]:
		return ErrStillUnreadable
	}
	if err := d.Drop(ctx, entry.Seq); !errors.Is(err, ErrNoDeadLetter) {
		return err
	}
	return nil // deleted, also if another process has done so
}

func refoldSession(ctx context.Context, s chunk.Session, store projector.Store, log projector.Log) refolded {
	r, err := projector.Rebuild(ctx, store, log, s)
	if r.Outcome == projector.Kept {
		err = fmt.Errorf("session %s: %w: %s", s, ErrLogIncomplete, r.Reason)
	}
	skipped := make(map[chunk.Seq]bool)
	for _, at := range r.Skipped {
		skipped[at.Seq] = true
	}
	return refolded{skipped, err}
}

// checkReadable returns an error if this build cannot read the message as a record. Readers of the log skip malformed messages, so refolding does not
// report it.
func checkReadable(entry DeadLetter) error {
	switch {
	case entry.Missing == MissingExpired:
		return ErrLogIncomplete
	case entry.Session == (chunk.Session{}):
		return fmt.Errorf("%w: subject is not one of a session", ErrStillUnreadable)
	case entry.Reason != ReasonEnvelope:
		return nil
	case entry.Missing == MissingTooLarge:
		return fmt.Errorf("%w: message was too large to store", ErrStillUnreadable)
	}
	var header nats.Header
	if len(entry.Header) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(entry.Header); err != nil {
			return fmt.Errorf("%w: %w", ErrStillUnreadable, err)
		}
	}
	if _, err := codec.Decode(codec.Stored{Session: entry.Session, Seq: entry.Origin.Seq, At: entry.Origin.Stored, Header: header, Data: entry.Data}); err != nil {
		return fmt.Errorf("%w: %w", ErrStillUnreadable, err)
	}
	return nil
}
