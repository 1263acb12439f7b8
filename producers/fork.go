package producers

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// Fork writes the first records of a session that continues another one, and reports whether the session has them: false means that it has other records, or had
// some. It may be repeated, and called in several processes at a time: a record that is stored already is not stored again. The session can start a run when it has
// the record session_forked. ctx bounds the call.
func (p *Producer) Fork(ctx context.Context, s chunk.Session, records []chunk.Chunk) (bool, error) {
	log, err := p.newNATSLog(s)
	if err != nil {
		return false, &notStoredError{Session: s, Type: chunk.TypeSessionSeed, Cause: fmt.Errorf("%w: %w", chunk.ErrInvalid, err)}
	}
	r := newRun(p.cfg, s, log, startOptions{})
	if err := p.addRun(r); err != nil {
		log.close()
		return false, &notStoredError{Session: s, Type: chunk.TypeSessionSeed, Cause: err}
	}
	defer r.Close()                          //nolint:errcheck // nothing is queued
	defer context.AfterFunc(ctx, r.cancel)() //nolint:contextcheck // of the run, whose records end with the call
	h, err := r.readLogEnd(ctx)
	if err != nil {
		return false, &notStoredError{Session: s, Type: chunk.TypeSessionSeed, Cause: err}
	}
	if h.typ == "" && h.pos.Ordinal > 0 { // its records have expired, or it was deleted
		return false, nil
	}
	r.epoch = 1
	for _, c := range records {
		if err := r.writeFirst(ctx, c); err != nil {
			if _, other := errors.AsType[*conflictError](err); other {
				return false, nil
			}
			return false, err
		}
	}
	return true, nil
}

// writeFirst writes the record with the next ordinal, or finds it. Each attempt expects the sequence of the record before it, so the message that follows that one is
// this record, or the session is another one.
func (r *Run) writeFirst(ctx context.Context, c chunk.Chunk) error {
	it, err := r.prepareWhole(ctx, c)
	if err != nil {
		return r.notStored(c, err)
	}
	s := r.newOp()
	if err := r.encode(&s.m, it); err != nil {
		return r.notStored(c, err)
	}
	seq, err := r.writeOp(ctx, s, it)
	if err != nil {
		return err
	}
	r.pos, r.sessionBytes = chunk.Position{Seq: seq, Ordinal: r.pos.Ordinal + 1}, s.m.sessionBytes
	return nil
}
