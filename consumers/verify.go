package consumers

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
)

// Verify turns a bare cursor into a Position, or says why it cannot be one:
// the record at that sequence must be there and must be of s, or for
// chunk.ScopeTree of the tree of s. The Ordinal is the one in the record's own
// session. The cursor 0 is before the first record of any session and always
// verified. The error is a *chunk.TruncatedError when the cursor cannot be
// served: future, expired, cleanup or foreign.
func (r *Reader) Verify(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Seq) (chunk.Position, error) {
	v, err := r.verify(ctx, s, scope, after)
	return v.Position(), err
}

// verify gives the record at the cursor; the zero Record for the cursor 0.
func (r *Reader) verify(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Seq) (chunk.Record, error) {
	filter, err := r.filter(s, scope)
	if err != nil || after == 0 {
		return chunk.Record{}, err
	}
	stream := r.cfg.Layout.Stream(r.cfg.Layout.Partition(s))
	rec, err := r.recordAt(ctx, stream, s, scope, after)
	if errors.Is(err, errMissing) {
		return chunk.Record{}, r.whyMissing(ctx, s, stream, filter, after)
	}
	return rec, err
}

// recordAt is the record at a sequence, if it is of the scope of s: errMissing,
// or a *chunk.TruncatedError with reason foreign.
func (r *Reader) recordAt(ctx context.Context, stream string, s chunk.Session, scope chunk.Scope, seq chunk.Seq) (chunk.Record, error) {
	var m message
	err := r.api.retry(ctx, r.cfg.Patience, func(ctx context.Context) (err error) {
		m, err = r.api.bySeq(ctx, stream, seq)
		return err
	})
	if err != nil {
		return chunk.Record{}, err
	}
	foreign := &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedForeign, After: seq}
	of, err := r.sessionOf(m.subject)
	if err != nil || of.Tree() != s.Tree() || scope == chunk.ScopeSession && of != s {
		return chunk.Record{}, foreign
	}
	rec, err := m.record(of)
	if err != nil {
		return chunk.Record{}, foreign // no record, so we never gave it out as a cursor
	}
	return rec, nil
}

// filter is what the scope of s is in the stream: a literal subject or a tree.
func (r *Reader) filter(s chunk.Session, scope chunk.Scope) (string, error) {
	if scope == chunk.ScopeTree {
		return r.cfg.Layout.Tree(s)
	}
	return r.cfg.Layout.Subject(s)
}

// whyMissing finds the reason that there is no message at the cursor.
func (r *Reader) whyMissing(ctx context.Context, s chunk.Session, stream, filter string, after chunk.Seq) error {
	var state streamState
	err := r.api.retry(ctx, r.cfg.Patience, func(ctx context.Context) (err error) {
		state, err = r.api.state(ctx, stream)
		return err
	})
	if err != nil {
		return err
	}
	why := &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedExpired, After: after, Floor: state.first}
	switch {
	case after > state.last:
		why.Reason = chunk.TruncatedFuture
		return why
	case after < state.first:
		return why
	}
	// It was deleted by itself. The ordinal is gone with it; what tells a
	// clean-up from a purge is the stretch of the log that a marker names.
	markers, _, err := r.markers(ctx, tapeSpec{stream: stream, filter: filter, after: after, patience: r.cfg.Patience})
	if err != nil {
		return err
	}
	for _, m := range markers {
		if m.body.FromSequence <= int64(after) && int64(after) <= m.body.AtSequence {
			blame(why, m)
			break
		}
	}
	return why
}
