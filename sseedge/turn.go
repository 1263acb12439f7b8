package sseedge

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// turnState is the turn that is open at a position of a session, and the number of its messages.
type turnState struct {
	start    chunk.Position // of the record that opened the turn; zero before the first
	answer   int            // index of the message that answers it
	at       chunk.Position // position in the session …
	messages int            // … and the number of messages there

	before, now chunk.Value // custom state before the turn, and at the position
}

func turnOf(s fold.Snapshot) turnState {
	return turnState{
		start: s.TurnStart(), answer: s.TurnMessages(), at: s.Position, messages: s.MessageCount(), before: orEmpty(s.TurnState()), now: orEmpty(s.State),
	}
}

func orEmpty(state chunk.Value) chunk.Value {
	if state == nil {
		return chunk.Value("{}")
	}
	return state
}

// turnAt returns the turn that is open for a client with a position. The present state has it if the client is in the present turn. A client in an earlier turn
// costs the fold of the records before.
func (e *Edge) turnAt(ctx context.Context, s chunk.Session, after chunk.Seq) (turnState, error) {
	if after == 0 {
		return turnState{}, nil
	}
	snap, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (fold.Snapshot, error) {
		page, err := e.snapshots.MessagePage(ctx, s, fold.PageQuery{Partial: true, Limit: 1, Parts: 1})
		if err != nil {
			return fold.Snapshot{}, err
		}
		return page.Current(), nil
	})
	hold.release()
	if err != nil || after >= snap.TurnStart().Seq {
		return turnOf(snap), err
	}
	if e.past == nil {
		return turnState{}, errTurnUnknown
	}
	if !e.rewinds.begin(s) {
		return turnState{}, errBusy
	}
	defer e.rewinds.end(s)
	if hold, err = e.reads.reserveHistory(ctx); err != nil {
		return turnState{}, err
	}
	defer hold.release()
	if snap, err = e.past.SnapshotAt(ctx, s, after); err != nil {
		return turnState{}, err
	}
	return turnOf(snap), nil
}

var (
	errTurnUnknown = errors.New("no earlier states of the session")
	errBusy        = errors.New("an earlier state of the session is being read")
)
