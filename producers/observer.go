package producers

import (
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Outcome is the result of the publish of one record.
type Outcome string

// The outcomes.
const (
	OutcomeStored  Outcome = "stored"
	OutcomeFenced  Outcome = "fenced"  // another writer has the session
	OutcomeRefused Outcome = "refused" // not stored
	OutcomeUnknown Outcome = "unknown" // it may be stored
)

// stats counts what a Run has stored.
type stats struct{ records, bytes, retries int64 }

// Stats returns the number of stored records, the bytes of their messages with headers, and the attempts after the first one of each record or batch, also of those
// that were not stored.
func (r *Run) Stats() (records, bytes, retries int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats.records, r.stats.bytes, r.stats.retries
}

// count counts the records of op, which are stored. The lock is held.
func (s *stats) count(op *publishOp) {
	s.records += int64(len(op.m.messages))
	s.bytes += int64(op.m.bytes)
	s.retries += int64(op.attempts - 1)
}

// observe reports the records of s, whose outcome is known. err is what the caller gets.
func (r *Run) observe(s *publishOp, err error) {
	if err != nil {
		r.mu.Lock()
		r.stats.retries += int64(max(0, s.attempts-1))
		r.mu.Unlock()
	}
	if r.cfg.Observe == nil {
		return
	}
	outcome := OutcomeStored
	switch {
	case errors.Is(err, chunk.ErrFenced):
		outcome = OutcomeFenced
	case errors.Is(err, chunk.ErrUnknownOutcome):
		outcome = OutcomeUnknown
	case err != nil:
		outcome = OutcomeRefused
	}
	for range s.m.messages {
		r.cfg.Observe(outcome, time.Since(s.began), s.attempts)
	}
}
