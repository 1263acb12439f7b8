package logtest

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Replay is hub.Log.
func (l *Log) Replay(ctx context.Context, s chunk.Session, after chunk.Position, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		if after.Seq != 0 && after.Ordinal == 0 {
			pos, err := l.Verify(ctx, s, chunk.ScopeSession, after.Seq)
			if err != nil {
				yield(chunk.Record{}, err)
				return
			}
			after = pos
		}
		r := reader{log: l, session: s, at: after.Seq, through: through, seen: map[chunk.Session]chunk.Ordinal{s: after.Ordinal}}
		r.run(ctx, func(other chunk.Session) bool { return other == s }, yield)
	}
}

// ReplayTree is hub.Log.
func (l *Log) ReplayTree(ctx context.Context, root chunk.Session, after, through chunk.Seq) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		if _, err := l.Verify(ctx, root, chunk.ScopeTree, after); err != nil {
			yield(chunk.Record{}, err)
			return
		}
		r := reader{log: l, session: root, at: after, through: through, seen: l.before(root, after)}
		r.run(ctx, func(other chunk.Session) bool { return other.Tree() == root.Tree() }, yield)
	}
}

// reader is one replay. It looks at the log anew whenever that has changed, so
// that what happens meanwhile happens under it.
type reader struct {
	log     *Log
	version int            // of the log …
	recs    []chunk.Record // … when these were what it held
	session chunk.Session
	at      chunk.Seq
	through chunk.Seq
	seen    map[chunk.Session]chunk.Ordinal
}

func (r *reader) run(ctx context.Context, of func(chunk.Session) bool, yield func(chunk.Record, error) bool) {
	for {
		if err := r.log.step(ctx, "read"); err != nil {
			yield(chunk.Record{}, err)
			return
		}
		rec, more, err := r.next(of)
		if err != nil {
			yield(chunk.Record{}, err)
			return
		}
		if !more || !yield(rec, nil) {
			return
		}
	}
}

func (r *reader) next(of func(chunk.Session) bool) (chunk.Record, bool, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.recs == nil || r.version != r.log.version {
		r.recs, r.version = current(r.log.stored, of), r.log.version
	}
	i, _ := slices.BinarySearchFunc(r.recs, r.at+1, func(rec chunk.Record, seq chunk.Seq) int { return cmp.Compare(rec.Seq, seq) })
	if i == len(r.recs) || r.recs[i].Seq > r.through {
		return chunk.Record{}, false, nil
	}
	rec := r.recs[i]
	seen := r.seen[rec.Session]
	if rec.Ordinal != seen+1 && !explained(r.recs[i:], rec.Session, seen+1, rec.Ordinal-1) {
		reason := chunk.TruncatedGap
		if seen == 0 {
			reason = chunk.TruncatedExpired
		}
		return chunk.Record{}, false, &chunk.TruncatedError{Session: r.session, Reason: reason, After: r.at}
	}
	r.seen[rec.Session], r.at = rec.Ordinal, rec.Seq
	return rec, true, nil
}

// explained reports whether truncated records of s list all ordinals of a hole.
func explained(recs []chunk.Record, s chunk.Session, first, last chunk.Ordinal) bool {
	listed := make(map[chunk.Ordinal]bool)
	for _, rec := range recs {
		if rec.Session != s || rec.Type != chunk.TypeTruncated {
			continue
		}
		for _, o := range removedBy(rec) {
			listed[o] = true
		}
	}
	for o := first; o <= last; o++ {
		if !listed[o] {
			return false
		}
	}
	return true
}

func removedBy(rec chunk.Record) (ordinals []chunk.Ordinal) {
	var body struct {
		Removed []struct {
			First chunk.Ordinal `json:"first"`
			Last  chunk.Ordinal `json:"last"`
		} `json:"removed"`
	}
	if err := json.Unmarshal(rec.Data, &body); err != nil {
		panic(err) // we wrote it
	}
	for _, r := range body.Removed {
		for o := r.First; o <= r.Last; o++ {
			ordinals = append(ordinals, o)
		}
	}
	return ordinals
}

func stepOf(rec chunk.Record) int64 {
	var body struct {
		Step int64 `json:"step"`
	}
	if err := json.Unmarshal(rec.Data, &body); err != nil {
		panic(err) // we wrote it
	}
	return body.Step
}

// before tells the last ordinal of every session of a tree up to a sequence.
func (l *Log) before(root chunk.Session, seq chunk.Seq) map[chunk.Session]chunk.Ordinal {
	seen := make(map[chunk.Session]chunk.Ordinal)
	for _, rec := range l.Tree(root.Tree()) {
		if rec.Seq <= seq {
			seen[rec.Session] = rec.Ordinal
		}
	}
	return seen
}

// Verify is hub.Log.
func (l *Log) Verify(ctx context.Context, s chunk.Session, scope chunk.Scope, after chunk.Seq) (chunk.Position, error) {
	if err := l.step(ctx, "verify"); err != nil {
		return chunk.Position{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	truncated := &chunk.TruncatedError{Session: s, After: after}
	if after == 0 {
		return chunk.Position{}, nil
	}
	if after > l.last {
		truncated.Reason = chunk.TruncatedFuture
		return chunk.Position{}, truncated
	}
	ours := func(other chunk.Session) bool {
		return other == s || (scope == chunk.ScopeTree && other.Tree() == s.Tree())
	}
	for _, rec := range current(l.stored, func(chunk.Session) bool { return true }) {
		if rec.Seq == after && ours(rec.Session) {
			return rec.Position(), nil
		}
	}
	truncated.Reason = l.whyMissing(after, ours)
	return chunk.Position{}, truncated
}

func (l *Log) whyMissing(seq chunk.Seq, ours func(chunk.Session) bool) chunk.TruncationReason {
	if len(l.stored) == 0 || seq < l.stored[0].rec.Seq {
		return chunk.TruncatedExpired
	}
	for _, m := range l.stored {
		if m.rec.Seq == seq {
			return chunk.TruncatedForeign
		}
		if m.rec.Type == chunk.TypeTruncated && ours(m.rec.Session) && m.rec.Seq > seq {
			return chunk.TruncatedCleanup
		}
	}
	return chunk.TruncatedExpired
}

// Last is hub.Log.
func (l *Log) Last(ctx context.Context, s chunk.Session) (chunk.Record, error) {
	if err := l.step(ctx, "last"); err != nil {
		return chunk.Record{}, err
	}
	recs := l.Session(s)
	if len(recs) == 0 {
		return chunk.Record{}, chunk.ErrUnknownSession
	}
	return recs[len(recs)-1], nil
}
