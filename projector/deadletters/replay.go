package deadletters

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/projector"
)

var (
	// ErrStillDead reports a letter that this build cannot fold either. It is kept.
	ErrStillDead = errors.New("this build cannot fold it either")

	// ErrLogGone reports a letter whose session cannot be folded anew: the log no
	// longer has all that the stored snapshot was folded from. It is kept.
	ErrLogGone = errors.New("the log no longer has all of the session")
)

// Replay folds the sessions of letters anew, each once, and drops the letters
// whose records are now part of a snapshot. It gives an error for each letter,
// nil for one that was dropped: ErrStillDead; ErrLogGone; those of projector.Rebuild. A
// letter with an error is kept.
func (b *Box) Replay(ctx context.Context, letters []Letter, store projector.Store, log projector.Log) []error {
	errs := make([]error, len(letters))
	sessions := make(map[chunk.Session]refolded)
	for i, letter := range letters {
		if err := b.replay(ctx, letter, sessions, store, log); err != nil {
			errs[i] = fmt.Errorf("letter %d: %w", letter.Number, err)
		}
	}
	return errs
}

// refolded is how folding a session anew went.
type refolded struct {
	passed map[chunk.Seq]bool
	err    error
}

func (b *Box) replay(ctx context.Context, letter Letter, sessions map[chunk.Session]refolded, store projector.Store, log projector.Log) error {
	if err := readable(letter); err != nil {
		return err
	}
	session, done := sessions[letter.Session]
	if !done {
		session = refold(ctx, letter.Session, store, log)
		sessions[letter.Session] = session
	}
	switch {
	case session.err != nil:
		return session.err
	case session.passed[letter.Origin.Seq]:
		return ErrStillDead
	}
	if err := b.Drop(ctx, letter.Number); !errors.Is(err, ErrNoLetter) {
		return err
	}
	return nil // somebody else did the same
}

func refold(ctx context.Context, s chunk.Session, store projector.Store, log projector.Log) refolded {
	r, err := projector.Rebuild(ctx, store, log, s)
	if r.Outcome == projector.Kept {
		err = fmt.Errorf("session %s: %w: %s", s, ErrLogGone, r.Why)
	}
	passed := make(map[chunk.Seq]bool)
	for _, at := range r.Passed {
		passed[at.Seq] = true
	}
	return refolded{passed, err}
}

// readable asks whether a message that was no record is one for this build. It is
// passed over wherever the log is read, so folding would not tell.
func readable(letter Letter) error {
	switch {
	case letter.Missing == Gone:
		return ErrLogGone
	case letter.Session == (chunk.Session{}):
		return fmt.Errorf("%w: it is of no session", ErrStillDead)
	case letter.Reason != ReasonEnvelope:
		return nil
	case letter.Missing == TooLarge:
		return fmt.Errorf("%w: its message was too large to keep", ErrStillDead)
	}
	var header nats.Header
	if len(letter.Header) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(letter.Header); err != nil {
			return fmt.Errorf("%w: %w", ErrStillDead, err)
		}
	}
	if _, err := codec.Decode(letter.Session, letter.Origin.Seq, letter.Origin.Stored, header, letter.Data); err != nil {
		return fmt.Errorf("%w: %w", ErrStillDead, err)
	}
	return nil
}
