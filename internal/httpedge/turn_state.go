package httpedge

import (
	"bytes"
	"context"
	"errors"

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

	before, now   chunk.Value // custom state before the turn, and at the position
	earlier, open []string    // calls without an outcome before the turn, and at the position
}

// turnOf returns the open turn of a snapshot. The error is errTurnUnknown if the log no longer has the record that opened it.
func (e *Edge) turnOf(ctx context.Context, snap fold.Snapshot) (turnState, error) {
	turn := turnState{
		start: snap.TurnStart(), answer: snap.TurnMessages(), at: snap.Position, messages: snap.MessageCount(),
		before: orEmpty(snap.TurnState()), now: orEmpty(snap.State), earlier: snap.TurnCalls(),
	}
	for _, c := range snap.OpenCalls() {
		turn.open = append(turn.open, c.ID)
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
	turn, err := e.turns.Do(ctx, turnKey{session: s}, after, func(ctx context.Context) (turnState, error) { return e.presentTurn(ctx, s) })
	if err == nil && after < turn.start.Seq {
		turn, err = e.turnBefore(ctx, s, turn.start.Seq)
	}
	if err == nil && after < turn.start.Seq {
		turn, err = e.turnBefore(ctx, s, after+1)
	}
	return turn, err
}

func (e *Edge) presentTurn(ctx context.Context, s chunk.Session) (turnState, error) {
	page, hold, err := e.lastMessage(ctx, s, true)
	defer hold.release()
	if err != nil {
		return turnState{}, err
	}
	return e.turnOf(ctx, page.Current())
}

// lastMessage reads the snapshot of a session with its last part alone.
func (e *Edge) lastMessage(ctx context.Context, s chunk.Session, partial bool) (*fold.MessagePage, *reservation, error) {
	return readWithin(ctx, e.reads, func(ctx context.Context) (*fold.MessagePage, error) {
		return e.snapshots.MessagePage(ctx, s, fold.PageQuery{Partial: partial, Limit: 1, Parts: 1})
	})
}

// turnBefore returns the turn that was open before a sequence.
func (e *Edge) turnBefore(ctx context.Context, s chunk.Session, seq chunk.Seq) (turnState, error) {
	return e.turns.Do(ctx, turnKey{s, seq}, seq, func(ctx context.Context) (turnState, error) {
		if !e.rewinds.begin(s) {
			return turnState{}, errBusy
		}
		defer e.rewinds.end(s)
		hold := e.reads.reserveHistory(ctx)
		if hold == nil {
			return turnState{}, errBusy
		}
		defer hold.release()
		snap, err := e.snapshots.SnapshotAt(ctx, s, seq-1)
		if err != nil {
			return turnState{}, err
		}
		return e.turnOf(ctx, snap)
	})
}

// turnKey identifies reads that clients share, as when all clients of an edge that was stopped connect to another one: of the open turn of a session, or the one that was open before a sequence.
type turnKey struct {
	session chunk.Session
	before  chunk.Seq // 0: now
}

var (
	errTurnUnknown = errors.New("not all records of a turn")
	errBusy        = errors.New("an earlier state of the session is being read")
)
