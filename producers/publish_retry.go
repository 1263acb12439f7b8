package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/wait"
)

// publishOp stores one message or one batch, with retries until its outcome is known.
type publishOp struct {
	log      sessionLog
	m        outgoing
	slog     *slog.Logger
	began    time.Time
	deadline time.Time

	checked     bool // checkWriteError has asked
	writeError  *jsclient.WriteError
	shortened   bool // deadline was set by giveUpAfter
	attempts    int
	last        jsclient.PublishResult
	maybeStored bool  // an attempt may have been stored
	cause       error // of the last attempt

	emptySince time.Time // since when the log has no message of the session
}

// Outcomes, which the caller wraps with the facts about the record.
var (
	errUnknown      = errors.New("unknown outcome") // sent without a final response
	errNotAccepting = errors.New("no message accepted")
	errNoBatch      = errors.New("batch refused") // its messages may be stored one by one
)

// conflictError is the outcome when another message follows the expected sequence, or the records before it are missing.
type conflictError struct {
	by message // zero: the session has no message
}

func (*conflictError) Error() string { return "conflict" }

// run sends m until it is known to be stored or known not to be: it returns the sequence of the last message, or *conflictError, or an error that wraps errUnknown,
// errNotAccepting, errNoBatch, or neither if only this message is refused. It continues after an attempt that was made before.
//
// All attempts have the same expected sequence. So the server stores at most one of them, in any order of arrival, and a response to one applies to all. That also
// holds if the messages of a batch are sent one by one afterwards.
func (s *publishOp) run(ctx context.Context) (chunk.Seq, error) {
	for {
		if s.last == jsclient.Unknown && s.attempts > 0 && !s.checked {
			s.checkWriteError(ctx)
		}
		if retry := s.attempts > 0 && s.last != pending; retry && (!time.Now().Before(s.deadline) || wait.Sleep(ctx, delay(s.last, s.attempts-1)) != nil) {
			return s.finalResult(ctx, true)
		}
		if seq, decided, err := s.attempt(ctx, nil); decided {
			return seq, err
		}
	}
}

// attempt sends m once. The outcome may be undecided after it.
func (s *publishOp) attempt(ctx context.Context, abandon <-chan struct{}) (seq chunk.Seq, decided bool, err error) {
	if s.last != pending {
		s.attempts++
	}
	seq, err = s.log.publish(ctx, s.m, abandon)
	s.last, s.cause = classify(err), err
	switch s.last {
	case jsclient.Stored:
		if s.attempts > 1 {
			s.slog.LogAttrs(ctx, slog.LevelInfo, "stored after retries", slog.Int("attempts", s.attempts), slog.Uint64("sequence", uint64(seq)))
		}
		return seq, true, nil
	case jsclient.Refused, jsclient.Closed:
		if s.last == jsclient.Refused && len(s.m.messages) > 1 {
			return 0, true, fmt.Errorf("%w: %w", errNoBatch, err)
		}
		seq, err = s.finalResult(ctx, s.last == jsclient.Closed)
		return seq, true, err
	case jsclient.Conflict:
		if seq, decided, err = s.resolveConflict(ctx); decided {
			return seq, true, err
		}
	case jsclient.Unknown:
		s.maybeStored = true
	case jsclient.NotStored, jsclient.Busy:
		if jsclient.IsNoStorage(err) && !s.maybeStored {
			s.giveUpAfter(jsclient.NoStorageTimeout)
		}
	case pending:
		return 0, false, nil
	}
	if s.attempts == 1 {
		s.slog.LogAttrs(ctx, slog.LevelDebug, "publish retried", slog.Any("error", err))
	}
	return 0, false, nil
}

// checkWriteError asks why there was no response, once. A server that cannot write the stream does not respond, and does not recover before it is restarted;
// the retries that are left are for a replicated stream, of which another server takes over.
func (s *publishOp) checkWriteError(ctx context.Context) {
	s.checked = true
	if failed, ok := errors.AsType[*jsclient.WriteError](s.log.writeFailed(ctx)); ok {
		s.writeError = failed
		s.giveUpAfter(jsclient.NoStorageTimeout)
	}
}

// giveUpAfter shortens the retries, once.
func (s *publishOp) giveUpAfter(d time.Duration) {
	if until := time.Now().Add(d); !s.shortened && until.Before(s.deadline) {
		s.deadline = until
	}
	s.shortened = true
}

// find reads the first messages of the session after the expected sequence, those that the server stored there. If they are those of m, an attempt was stored, even if
// other messages have followed since. find returns the sequence of the last message of m, a *conflictError, or jsclient.ErrNotFound if no message follows.
//
// A batch is stored as a whole. All of its messages are compared, because another writer of the same epoch, see Producer.Continue, may have stored records that are
// equal to some of them.
func (s *publishOp) find(ctx context.Context) (chunk.Seq, error) {
	var first message
	end := s.m.after.Seq
	for i, o := range s.m.messages {
		m, err := s.log.next(ctx, end)
		if err != nil && (i == 0 || !errors.Is(err, jsclient.ErrNotFound)) {
			return 0, err
		}
		if i == 0 {
			first = m
		}
		if i > 0 && m.seq != end+1 || !isStoredAs(o, m) {
			return 0, &conflictError{by: first}
		}
		end = m.seq
	}
	return end, nil
}

// resolveConflict decides about a conflict by the messages that are stored.
func (s *publishOp) resolveConflict(ctx context.Context) (seq chunk.Seq, decided bool, err error) {
	seq, err = s.find(ctx)
	other, conflict := errors.AsType[*conflictError](err)
	switch {
	case err == nil:
		s.slog.LogAttrs(ctx, slog.LevelInfo, msgStoredEarlier, slog.Uint64("sequence", uint64(seq)))
		return seq, true, nil
	case conflict:
		return 0, true, other
	case !errors.Is(err, jsclient.ErrNotFound):
		s.cause = fmt.Errorf("%w; then: %w", s.cause, err)
		return 0, false, nil
	}
	return s.resolveEmpty(ctx)
}

// msgStoredEarlier is logged when an acknowledgement was lost and its message is in the log.
const msgStoredEarlier = "earlier attempt stored"

// emptyGrace is how long the log must report that it has no message of the session. A stream that shuts down or recovers also reports that for a short time.
const emptyGrace = 2 * time.Second

// resolveEmpty decides about a conflict without a message after the expected sequence. Either the server responded before its state was complete, or the
// records before m are missing.
func (s *publishOp) resolveEmpty(ctx context.Context) (seq chunk.Seq, decided bool, err error) {
	last, err := s.log.last(ctx) // the zero message if there is none
	if failed := err != nil && !errors.Is(err, jsclient.ErrNotFound); failed || last.seq >= s.m.after.Seq {
		s.emptySince = time.Time{}
		return 0, false, nil
	}
	if s.emptySince.IsZero() {
		s.emptySince = time.Now()
	}
	if time.Since(s.emptySince) < emptyGrace {
		return 0, false, nil
	}
	return 0, true, &conflictError{}
}

// finalResult returns the result after the last attempt. If an attempt had no response, it looks for the message once more; if the message is missing, the
// outcome stays unknown, because the attempt may still be in flight.
func (s *publishOp) finalResult(ctx context.Context, halt bool) (chunk.Seq, error) {
	if s.maybeStored && ctx.Err() == nil {
		seq, err := s.find(ctx)
		if _, conflict := errors.AsType[*conflictError](err); conflict || err == nil {
			return seq, err
		}
	}
	switch {
	case s.maybeStored && s.writeError != nil:
		return 0, fmt.Errorf("%w: %w", errUnknown, s.writeError)
	case s.maybeStored:
		return 0, fmt.Errorf("%w: %w", errUnknown, s.cause)
	case halt:
		return 0, fmt.Errorf("%w: %w", errNotAccepting, s.cause)
	}
	return 0, s.cause
}

var backoff = wait.Backoff{First: 10 * time.Millisecond, Max: time.Second, Jitter: true}

// delay returns the delay before attempt n+2. Many writers wait for the end of the same failure; the jitter keeps them from retrying at the same time.
func delay(v jsclient.PublishResult, n int) time.Duration {
	if v == jsclient.Busy {
		return time.Millisecond + rand.N(4*time.Millisecond)
	}
	return backoff.Delay(n + 1)
}
