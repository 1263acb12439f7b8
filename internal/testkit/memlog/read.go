package memlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Replay implements hub.Log and projector.Log.
func (l *Log) Replay(ctx context.Context, of chunk.Range) iter.Seq2[chunk.Record, error] {
	return func(yield func(chunk.Record, error) bool) {
		r, err := l.reader(ctx, of)
		if err != nil {
			yield(chunk.Record{}, err)
			return
		}
		in := func(s chunk.Session) bool { return s == r.session }
		if of.Tree {
			in = func(s chunk.Session) bool { return s.Tree() == r.session }
		}
		r.run(ctx, in, yield)
	}
}

func (l *Log) reader(ctx context.Context, of chunk.Range) (*reader, error) {
	r := &reader{log: l, session: of.Session, at: of.After.Seq, through: of.Through, fromOldest: of.FromOldest, attached: l.End()}
	if of.AllowCleanup {
		r.attached = math.MaxUint64
	}
	if r.through == 0 {
		r.through = math.MaxUint64
	}
	switch {
	case of.Tree && of.FromOldest:
		return nil, errors.New("memlog: FromOldest of a tree is not supported")
	case of.Tree && of.After.Ordinal > 0:
		return nil, errors.New("memlog: an ordinal is of one session, not of a tree")
	case r.at == 0:
		r.seen = make(map[chunk.Session]chunk.Ordinal) // an ordinal alone is no position
	case of.After.Ordinal > 0:
		r.seen = map[chunk.Session]chunk.Ordinal{of.Session: of.After.Ordinal}
	default:
		scope := chunk.ScopeSession
		if of.Tree {
			scope = chunk.ScopeTree
		}
		_, err := l.CheckCursor(ctx, of.Session, scope, chunk.Cursor{Seq: r.at, Anchor: of.Anchor})
		truncated, ok := errors.AsType[*chunk.TruncatedError](err)
		if err != nil && (!ok || !of.AllowCleanup || truncated.Reason != chunk.TruncatedCleanup) {
			return nil, err
		}
		r.seen = l.before(of.Session, r.at)
	}
	if of.Tree {
		r.session = of.Session.Tree()
	}
	return r, nil
}

// reader is one replay. It reads the log again whenever the log has changed, so that changes take effect during a replay.
type reader struct {
	log     *Log
	version int            // of the log …
	recs    []chunk.Record // … when these were what it held
	session chunk.Session
	at      chunk.Seq
	through chunk.Seq
	seen    map[chunk.Session]chunk.Ordinal
	given   bool // a record was yielded

	fromOldest bool // the first record need not follow

	attached chunk.Seq // a cleanup whose record is after this is an error
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
	if r.given && r.at >= r.through {
		return chunk.Record{}, false, nil
	}
	if !r.given && r.at > r.log.last {
		return chunk.Record{}, false, r.truncated(chunk.TruncatedFuture)
	}
	i, _ := slices.BinarySearchFunc(r.recs, r.at+1, func(rec chunk.Record, seq chunk.Seq) int { return cmp.Compare(rec.Seq, seq) })
	switch {
	case i == len(r.recs) && !r.given && r.at == 0:
		return chunk.Record{}, false, chunk.ErrUnknownSession
	case i == len(r.recs):
		return chunk.Record{}, false, nil
	}
	// Before the bound is checked: if records are missing before rec, it is unknown on which side of the bound they were.
	rec := r.recs[i]
	if reason := r.check(i); reason != "" {
		return chunk.Record{}, false, r.truncated(reason)
	}
	if rec.Seq > r.through {
		return chunk.Record{}, false, nil
	}
	r.seen[rec.Session], r.at, r.given = rec.Ordinal, rec.Seq, true
	return rec, true, nil
}

func (r *reader) truncated(reason chunk.TruncationReason) error {
	return &chunk.TruncatedError{Session: r.session, Reason: reason, After: r.at}
}

// check returns the reason why the record at i cannot be returned next, "" if it can.
func (r *reader) check(i int) chunk.TruncationReason {
	rec := r.recs[i]
	seen := r.seen[rec.Session]
	switch {
	case !r.given && r.at == 0 && rec.Session != r.session && r.rootExpired():
		return chunk.TruncatedExpired
	case r.fromOldest && !r.given && (rec.Ordinal > seen || i == 0):
		return ""
	case rec.Ordinal == seen+1:
		return ""
	case rec.Ordinal <= seen && r.isFirst(i):
		return chunk.TruncatedExpired // all expired, and a writer that does not know them has numbered from the start
	case rec.Ordinal <= seen:
		return chunk.TruncatedGap
	case seen > 0 && explained(r.recs[i:], rec.Session, seen+1, rec.Ordinal-1, r.attached):
		return "" // never the first record: a cleanup does not remove it
	case seen > 0 && explained(r.recs[i:], rec.Session, seen+1, rec.Ordinal-1, math.MaxUint64):
		return chunk.TruncatedCleanup
	case !r.isFirst(i):
		return chunk.TruncatedGap
	}
	return chunk.TruncatedExpired
}

// isFirst reports whether the record at i is the first one of its session in the log.
func (r *reader) isFirst(i int) bool {
	return !slices.ContainsFunc(r.recs[:i], func(before chunk.Record) bool { return before.Session == r.recs[i].Session })
}

// rootExpired: the first record of a tree that expires is the first one of its root.
func (r *reader) rootExpired() bool {
	i := slices.IndexFunc(r.recs, func(rec chunk.Record) bool { return rec.Session == r.session })
	return i >= 0 && r.recs[i].Ordinal > 1
}

// explained reports whether truncated records of s up to a sequence list all ordinals of a gap.
func explained(recs []chunk.Record, s chunk.Session, first, last chunk.Ordinal, through chunk.Seq) bool {
	listed := make(map[chunk.Ordinal]bool)
	for _, rec := range recs {
		if rec.Session != s || rec.Type != chunk.TypeTruncated || rec.Seq > through {
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
		panic(err) // written by this package
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
		panic(err) // written by this package
	}
	return body.Step
}

// before returns the last ordinal of every session of a tree up to a sequence.
func (l *Log) before(root chunk.Session, seq chunk.Seq) map[chunk.Session]chunk.Ordinal {
	seen := make(map[chunk.Session]chunk.Ordinal)
	for _, rec := range l.Tree(root.Tree()) {
		if rec.Seq <= seq {
			seen[rec.Session] = rec.Ordinal
		}
	}
	return seen
}

// CheckCursor implements hub.Log.
func (l *Log) CheckCursor(ctx context.Context, s chunk.Session, scope chunk.Scope, cursor chunk.Cursor) (chunk.Position, error) {
	if err := l.step(ctx, "verify"); err != nil {
		return chunk.Position{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	after := cursor.Seq
	truncated := &chunk.TruncatedError{Session: s, After: after}
	if after == 0 {
		return chunk.Position{}, nil
	}
	if after > l.last {
		truncated.Reason = chunk.TruncatedFuture
		if cursor.Anchor != 0 {
			truncated.Reason = chunk.TruncatedRecreated
		}
		return chunk.Position{}, truncated
	}
	inScope := func(other chunk.Session) bool {
		return other == s || (scope == chunk.ScopeTree && other.Tree() == s.Tree())
	}
	for _, rec := range current(l.stored, func(chunk.Session) bool { return true }) {
		switch {
		case rec.Seq != after:
		case !cursor.Anchor.Matches(rec):
			truncated.Reason = chunk.TruncatedRecreated
			return chunk.Position{}, truncated
		case inScope(rec.Session):
			return rec.Position(), nil
		}
	}
	truncated.Reason = l.whyMissing(after, inScope)
	return chunk.Position{}, truncated
}

func (l *Log) whyMissing(seq chunk.Seq, inScope func(chunk.Session) bool) chunk.TruncationReason {
	if len(l.stored) == 0 || seq < l.stored[0].rec.Seq {
		return chunk.TruncatedExpired
	}
	for _, m := range l.stored {
		if m.rec.Seq == seq {
			return chunk.TruncatedWrongSession
		}
		if m.rec.Type == chunk.TypeTruncated && inScope(m.rec.Session) && m.rec.Seq > seq && removes(m.rec, seq) {
			return chunk.TruncatedCleanup
		}
	}
	return chunk.TruncatedExpired
}

// removes reports whether a sequence is in the range that a truncation record lists.
func removes(truncation chunk.Record, seq chunk.Seq) bool {
	var body struct {
		From chunk.Seq `json:"fromSequence"`
		At   chunk.Seq `json:"atSequence"`
	}
	if err := json.Unmarshal(truncation.Data, &body); err != nil {
		panic(err) // written by this package
	}
	return body.From <= seq && seq <= body.At
}

// HasRecord implements projector.Log. It never proves that the log was rolled back.
func (l *Log) HasRecord(ctx context.Context, s chunk.Session, at chunk.Position, anchor chunk.Anchor) (bool, error) {
	_, err := l.CheckCursor(ctx, s, chunk.ScopeSession, chunk.Cursor{Seq: at.Seq, Anchor: anchor})
	if errors.Is(err, chunk.ErrTruncated) {
		return false, nil
	}
	return err == nil && anchor != 0, err
}

// Last implements hub.Log.
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
