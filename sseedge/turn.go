package sseedge

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// turnState is the turn that is open at a position of a session, and the number of its messages.
type turnState struct {
	start    chunk.Position // of the record that opened the turn
	opening  chunk.Record   // that record
	answer   int            // index of the message that answers it
	at       chunk.Position // position in the session …
	messages int            // … and the number of messages there

	before, now chunk.Value // custom state before the turn, and at the position
}

// turnOf returns the open turn of a snapshot. The error is errTurnUnknown if the log no longer has the record that opened it.
func (e *Edge) turnOf(ctx context.Context, snap fold.Snapshot) (turnState, error) {
	turn := turnState{
		start: snap.TurnStart(), answer: snap.TurnMessages(), at: snap.Position, messages: snap.MessageCount(),
		before: orEmpty(snap.TurnState()), now: orEmpty(snap.State),
	}
	for rec, err := range e.log.Replay(ctx, chunk.Range{Session: snap.Session, After: turn.start.Before(), Through: turn.start.Seq}) {
		switch {
		case errors.Is(err, chunk.ErrTruncated), errors.Is(err, chunk.ErrUnknownSession):
			return turnState{}, errTurnUnknown
		case err != nil:
			return turnState{}, err
		}
		rec.Data = bytes.Clone(rec.Data) // it is kept for longer than the read takes
		turn.start, turn.opening = rec.Position(), rec
		return turn, nil
	}
	return turnState{}, errTurnUnknown
}

func orEmpty(state chunk.Value) chunk.Value {
	if state == nil {
		return chunk.Value("{}")
	}
	return state
}

// turnAt returns the turn that is open for a client with a position, which the log has reached. Most clients are in the present turn. The turn before it costs a
// fold of the log up to its end, and an earlier one another fold, up to the position.
func (e *Edge) turnAt(ctx context.Context, s chunk.Session, after chunk.Seq) (turnState, error) {
	turn, err := e.turns.read(ctx, turnKey{session: s}, after, func() (turnState, error) { return e.presentTurn(ctx, s) })
	if err == nil && after < turn.start.Seq {
		turn, err = e.turnBefore(ctx, s, turn.start.Seq)
	}
	if err == nil && after < turn.start.Seq {
		turn, err = e.turnBefore(ctx, s, after+1)
	}
	return turn, err
}

func (e *Edge) presentTurn(ctx context.Context, s chunk.Session) (turnState, error) {
	snap, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (fold.Snapshot, error) {
		page, err := e.snapshots.MessagePage(ctx, s, fold.PageQuery{Partial: true, Limit: 1, Parts: 1})
		if err != nil {
			return fold.Snapshot{}, err
		}
		return page.Current(), nil
	})
	defer hold.release()
	if err != nil {
		return turnState{}, err
	}
	return e.turnOf(ctx, snap)
}

// turnBefore returns the turn that was open before a sequence.
func (e *Edge) turnBefore(ctx context.Context, s chunk.Session, seq chunk.Seq) (turnState, error) {
	return e.turns.read(ctx, turnKey{s, seq}, seq, func() (turnState, error) {
		if e.past == nil {
			return turnState{}, errTurnUnknown
		}
		if !e.rewinds.begin(s) {
			return turnState{}, errBusy
		}
		defer e.rewinds.end(s)
		hold, err := e.reads.reserveHistory(ctx)
		if err != nil {
			return turnState{}, err
		}
		defer hold.release()
		snap, err := e.past.SnapshotAt(ctx, s, seq-1)
		if err != nil {
			return turnState{}, err
		}
		return e.turnOf(ctx, snap)
	})
}

// turnReads reads a turn once for the clients that need it at the same time, as when all clients of an edge that was stopped connect to another one. One client
// reads, and the others wait for it; if it fails, the next one reads.
type turnReads struct {
	mu    sync.Mutex // guards reads, and users and reached of every turnRead
	reads map[turnKey]*turnRead
}

// turnKey is the open turn of a session, or the one that was open before a sequence.
type turnKey struct {
	session chunk.Session
	before  chunk.Seq // 0: now
}

type turnRead struct {
	users   int
	reached chunk.Seq           // the log has reached it: a client has this position
	result  chan turnReadResult // has one element, which the reading client takes
}

// turnReadResult is what the last read returned. It has all turns that opened before the log reached a position, and is used for no client with a later one:
//  1. client A reads the open turn, and its read has taken the last record of the log,
//  2. a turn begins; client B, which has a record of it from another edge, connects,
//  3. B would get the turn before its own.
type turnReadResult struct {
	turn    turnState
	reached chunk.Seq // 0: there is none
}

// read returns the turn, which load reads from a log that has reached a position.
func (r *turnReads) read(ctx context.Context, key turnKey, after chunk.Seq, load func() (turnState, error)) (turnState, error) {
	of := r.join(key, after)
	defer r.leave(key, of)
	select {
	case <-ctx.Done():
		return turnState{}, context.Cause(ctx)
	case last := <-of.result:
		defer func() { of.result <- last }()
		if last.reached >= after {
			return last.turn, nil
		}
		reached := r.reachedBy(of)
		turn, err := load()
		if err == nil {
			last = turnReadResult{turn, reached}
		}
		return turn, err
	}
}

func (r *turnReads) join(key turnKey, after chunk.Seq) *turnRead {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.reads[key]
	if of == nil {
		of = &turnRead{result: make(chan turnReadResult, 1)}
		of.result <- turnReadResult{}
		if r.reads == nil {
			r.reads = make(map[turnKey]*turnRead)
		}
		r.reads[key] = of
	}
	of.users++
	of.reached = max(of.reached, after)
	return of
}

func (r *turnReads) reachedBy(of *turnRead) chunk.Seq {
	r.mu.Lock()
	defer r.mu.Unlock()
	return of.reached
}

func (r *turnReads) leave(key turnKey, of *turnRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of.users--; of.users == 0 {
		delete(r.reads, key)
	}
}

var (
	errTurnUnknown = errors.New("no earlier states of the session, or not all records of a turn")
	errBusy        = errors.New("an earlier state of the session is being read")
)
