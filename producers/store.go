package producers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// storing is the procedure that ends with a verdict on one message, whatever
// happens to the attempts.
type storing struct {
	log      sessionLog
	m        outgoing
	slog     *slog.Logger
	deadline time.Time

	attempts int
	last     verdict
	unsure   bool  // some attempt may have been stored
	cause    error // what the last attempt came to

	goneSince time.Time // when the log began to have nothing of the session
}

// outcome errors, which the caller wraps with what it knows about the record.
var (
	errUnknown = errors.New("unknown outcome") // sent, and nobody could say what became of it
	errHalted  = errors.New("nothing is taken now")
)

// overtaken is the outcome when the place of the message is taken, or gone.
type overtaken struct {
	by message // zero: the session has no message any more
}

func (*overtaken) Error() string { return "overtaken" }

// run sends m until it is known to be stored or known not to be: the sequence,
// or *overtaken, or an error that wraps errUnknown, errHalted, or neither when
// only this message is refused. It goes on where an attempt before it ended.
//
// All attempts carry the same expected sequence. So the server stores at most
// one of them, in whatever order they arrive, and an answer to any is an answer
// to all.
func (s *storing) run(ctx context.Context) (chunk.Seq, error) {
	for {
		if again := s.attempts > 0 && s.last != waiting; again && (!time.Now().Before(s.deadline) || !pause(ctx, delay(s.last, s.attempts-1))) {
			return s.giveUp(ctx, true)
		}
		if seq, decided, err := s.attempt(ctx, nil); decided {
			return seq, err
		}
	}
}

// attempt sends m once. It may leave the matter undecided.
func (s *storing) attempt(ctx context.Context, left <-chan struct{}) (seq chunk.Seq, decided bool, err error) {
	if s.last != waiting {
		s.attempts++
	}
	seq, err = s.log.publish(ctx, s.m, left)
	s.last, s.cause = classify(err), err
	switch s.last {
	case stored:
		if s.attempts > 1 {
			s.slog.LogAttrs(ctx, slog.LevelInfo, "stored after retries", slog.Int("attempts", s.attempts), slog.Uint64("sequence", uint64(seq)))
		}
		return seq, true, nil
	case refused, closed:
		seq, err = s.giveUp(ctx, s.last == closed)
		return seq, true, err
	case conflict:
		if seq, decided, err = s.settle(ctx); decided {
			return seq, true, err
		}
	case unknown:
		s.unsure = true
	case unsent, busy:
	case waiting:
		return 0, false, nil
	}
	if s.attempts == 1 {
		s.slog.LogAttrs(ctx, slog.LevelDebug, "publish is tried again", slog.Any("cause", err))
	}
	return 0, false, nil
}

// settle finds out who stands where m wants to be. The first message of the
// session after the expected sequence is the one that passed the guard: if that
// is m, an earlier attempt was stored, even if the session has moved on since.
func (s *storing) settle(ctx context.Context) (seq chunk.Seq, decided bool, err error) {
	m, err := s.log.next(ctx, s.m.after)
	switch {
	case err == nil && s.m.is(m):
		s.slog.LogAttrs(ctx, slog.LevelInfo, msgAdopted, slog.Uint64("sequence", uint64(m.seq)))
		return m.seq, true, nil
	case err == nil:
		return 0, true, &overtaken{by: m}
	case !errors.Is(err, errNoMessage):
		s.cause = fmt.Errorf("%w; then: %w", s.cause, err)
		return 0, false, nil
	}
	return s.settleAtTheEnd(ctx)
}

// msgAdopted is logged when an acknowledgement was lost and its message is there.
const msgAdopted = "an earlier attempt was stored"

// goneAfter is for how long the log must say that it has nothing of the session.
// A stream that is being shut down, or recovers, says so as well for a moment.
const goneAfter = 2 * time.Second

// settleAtTheEnd: nothing stands where m wants to be, and still it was refused.
// Either the server spoke too soon, or records before it have gone.
func (s *storing) settleAtTheEnd(ctx context.Context) (seq chunk.Seq, decided bool, err error) {
	last, err := s.log.last(ctx) // none is the zero message
	if unread := err != nil && !errors.Is(err, errNoMessage); unread || last.seq >= s.m.after {
		s.goneSince = time.Time{}
		return 0, false, nil
	}
	if s.goneSince.IsZero() {
		s.goneSince = time.Now()
	}
	if time.Since(s.goneSince) < goneAfter {
		return 0, false, nil
	}
	return 0, true, &overtaken{}
}

// giveUp says what is known at the end. A message that was sent and not
// answered is looked for once more; not finding it proves nothing, because it
// may still be on its way.
func (s *storing) giveUp(ctx context.Context, halt bool) (chunk.Seq, error) {
	if s.unsure && ctx.Err() == nil {
		if m, err := s.log.next(ctx, s.m.after); err == nil {
			if s.m.is(m) {
				return m.seq, nil
			}
			return 0, &overtaken{by: m}
		}
	}
	switch {
	case s.unsure:
		return 0, fmt.Errorf("%w: %w", errUnknown, s.cause)
	case halt:
		return 0, fmt.Errorf("%w: %w", errHalted, s.cause)
	}
	return 0, s.cause
}

// delay before attempt n+2. Whatever it was, many writers wait for the end of
// the same trouble; the jitter keeps them from coming back in step.
func delay(v verdict, n int) time.Duration {
	const longest = time.Second
	if v == busy {
		return time.Millisecond + rand.N(4*time.Millisecond)
	}
	d := longest
	if n < 7 {
		d = 10 * time.Millisecond << n
	}
	return d/2 + rand.N(d/2)
}

// pause waits for d, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
