package consumers

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// CheckCursor converts a cursor to a Position. The record at that sequence must be in the log, must have the anchor if the cursor has one, and must be of s,
// or for chunk.ScopeTree of the tree of s. The Ordinal is that in the session of the record. The zero cursor is before the first record of any session and
// always valid. The error is a *chunk.TruncatedError if the cursor cannot be served: "future", "expired", "cleanup", "foreign" or, for a cursor with an anchor
// that is not that of the record, or beyond the end, "recreated": the log had such a record and was rolled back or replaced.
func (r *Reader) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Position, error) {
	v, err := r.verify(ctx, s, scope, after)
	return v.Position(), err
}

// verify returns the record at the cursor; the zero Record for the zero cursor.
func (r *Reader) verify(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Cursor) (chunk.Record, error) {
	filter, err := r.filter(s, scope)
	if err != nil || after.Seq == 0 {
		return chunk.Record{}, err
	}
	stream := r.cfg.Layout.Stream(r.cfg.Layout.Partition(s))
	rec, err := r.recordAt(ctx, stream, s, scope, after)
	if errors.Is(err, jsclient.ErrNotFound) {
		return chunk.Record{}, r.missingReason(ctx, s, stream, filter, after)
	}
	return rec, err
}

// recordAt returns the record at a cursor, if it is of the scope of s. The error is jsclient.ErrNotFound or a *chunk.TruncatedError with reason "foreign" or
// "recreated".
func (r *Reader) recordAt(ctx context.Context, stream string, s chunk.Session, scope chunk.Scope, at chunk.Cursor) (chunk.Record, error) {
	m, err := retry(ctx, r, r.cfg.OpenTimeout, func(ctx context.Context) (jsclient.Message, error) {
		return r.client.At(ctx, stream, uint64(at.Seq))
	})
	if err != nil {
		return chunk.Record{}, err
	}
	if !isAnchor(m, at.Anchor) {
		// A replica that was rolled back may not have the message of the leader yet.
		if m, err = r.leaderAt(ctx, stream, at.Seq); err != nil {
			return chunk.Record{}, err
		}
		if !isAnchor(m, at.Anchor) {
			return chunk.Record{}, &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: at.Seq}
		}
	}
	wrong := &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedWrongSession, After: at.Seq}
	of, err := r.cfg.Layout.Parse(m.Subject)
	if err != nil || of.Tree() != s.Tree() || scope == chunk.ScopeSession && of != s {
		return chunk.Record{}, wrong
	}
	rec, err := decode(m, of)
	if err != nil {
		return chunk.Record{}, wrong // malformed, so it never was a cursor
	}
	return rec, nil
}

// HasRecord reports whether the log has the record at a position of s, whose anchor is known. It returns false if the log cannot tell: the record has expired
// or was removed, the anchor is 0, or a replicated log ends before it and may be behind. The error is a *chunk.TruncatedError with the reason "recreated" if
// the log has another record there, or ends before, and has other records of s up to the position: the log was rolled back. If it has no records of s up to
// the position, the result is false: a snapshot at the position may be the only copy of them.
func (r *Reader) HasRecord(ctx context.Context, s chunk.Session, at chunk.Position, anchor chunk.Anchor) (bool, error) {
	if at.Seq == 0 || anchor == 0 {
		return false, nil
	}
	stream := r.cfg.Layout.Stream(r.cfg.Layout.Partition(s))
	rec, err := r.recordAt(ctx, stream, s, chunk.ScopeSession, chunk.Cursor{Seq: at.Seq, Anchor: anchor})
	switch {
	case err == nil && rec.Ordinal == at.Ordinal:
		return true, nil
	case errors.Is(err, jsclient.ErrNotFound):
		state, err := r.state(ctx, stream)
		if err != nil || at.Seq <= chunk.Seq(state.Last) || state.Replicas > 1 {
			return false, err
		}
	case err != nil && !errors.Is(err, chunk.ErrTruncated):
		return false, err
	}
	first, err := r.firstRecord(ctx, stream, s, r.cfg.OpenTimeout)
	if errors.Is(err, jsclient.ErrNotFound) {
		return false, nil
	}
	if err == nil && first.Ordinal <= at.Ordinal {
		err = &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedRecreated, After: at.Seq}
	}
	return false, err
}

// firstRecord returns the first record of s that the log has, or jsclient.ErrNotFound. The budget is that of retry.
func (r *Reader) firstRecord(ctx context.Context, stream string, s chunk.Session, budget time.Duration) (chunk.Record, error) {
	subject, err := r.cfg.Layout.Subject(s)
	for seq := uint64(1); err == nil; {
		var m jsclient.Message
		m, err = retry(ctx, r, budget, func(ctx context.Context) (jsclient.Message, error) {
			return r.client.Next(ctx, stream, subject, seq)
		})
		if err == nil {
			if rec, err := decode(m, s); err == nil {
				return rec, nil
			}
			seq = m.Seq + 1 // malformed
		}
	}
	return chunk.Record{}, err
}

func isAnchor(m jsclient.Message, a chunk.Anchor) bool {
	return a == 0 || a == chunk.AnchorAt(m.Stored)
}

// leaderAt returns the message at a sequence as the leader has it, or jsclient.ErrNotFound.
func (r *Reader) leaderAt(ctx context.Context, stream string, seq chunk.Seq) (jsclient.Message, error) {
	m, err := retry(ctx, r, r.cfg.OpenTimeout, func(ctx context.Context) (jsclient.Message, error) {
		return r.client.Next(ctx, stream, ">", uint64(seq))
	})
	if err == nil && m.Seq != uint64(seq) {
		err = jsclient.ErrNotFound
	}
	return m, err
}

// filter returns the subjects of the scope of s: a literal subject or a tree.
func (r *Reader) filter(s chunk.Session, scope chunk.Scope) (string, error) {
	if scope == chunk.ScopeTree {
		return r.cfg.Layout.Tree(s)
	}
	return r.cfg.Layout.Subject(s)
}

// missingReason returns why the log has no message at the cursor.
func (r *Reader) missingReason(ctx context.Context, s chunk.Session, stream, filter string, cursor chunk.Cursor) error {
	state, err := r.state(ctx, stream)
	if err != nil {
		return err
	}
	after := cursor.Seq
	missing := &chunk.TruncatedError{Session: s, Reason: chunk.TruncatedExpired, After: after, FirstSeq: chunk.Seq(state.First)}
	switch {
	case after > chunk.Seq(state.Last) && cursor.Anchor != 0:
		missing.Reason = chunk.TruncatedRecreated
		return missing
	case after > chunk.Seq(state.Last):
		missing.Reason = chunk.TruncatedFuture
		return missing
	case after < chunk.Seq(state.First):
		return missing
	}
	// It was deleted separately, and its ordinal with it. The range of sequences in a truncated record distinguishes a cleanup from a purge.
	truncations, _, err := r.truncationRecords(ctx, jsreader.OrderedConfig{Stream: stream, Filter: filter, After: uint64(after), OpenTimeout: r.cfg.OpenTimeout})
	if err != nil {
		return err
	}
	for _, m := range truncations {
		if m.body.FromSequence <= int64(after) && int64(after) <= m.body.AtSequence {
			attributeTo(missing, m)
			break
		}
	}
	return missing
}
