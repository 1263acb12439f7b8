package conversation

import (
	"context"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
)

// MaxDepth limits the objects and arrays inside one another in a body.
const MaxDepth = 64

// Request is a client's request as Decide needs it.
type Request struct {
	dialect.Request // of a POST

	Session chunk.Session

	// Post: the client sends content, and adds the response to the message that it has. A GET only reads, CS-26.
	Post bool

	// Cursor is the last event that the client has received, of a GET; nil if it has none.
	Cursor *chunk.Seq

	// RequestedRun is the run that an earlier round of this request has requested, so that it does not request another: the first may have ended.
	RequestedRun string

	// OnExecute is called before the run of a turn is requested, with the state before it. Its result is in the Stream of the plan if the run was requested,
	// and is dropped otherwise. May be nil.
	OnExecute func(ctx context.Context, state State) Ahead

	// LastPath is the last step that was carried out for the request.
	LastPath Path
}

// Ahead is work that was started while a command is requested.
type Ahead interface{ Drop() }

// findCalls returns the client's copy of the latest answer with the ids of the calls, and without answers to calls that do not wait: a client that does not name the message
// sends all answers again. It is nil if no answer is left.
func (state *State) findCalls(sent *dialect.Answered) *dialect.Answered {
	if sent == nil || !sent.Latest {
		return sent
	}
	found := &dialect.Answered{ID: state.Answer}
	for _, b := range state.Branches {
		for _, w := range b.PendingCalls {
			for _, a := range slices.Backward(sent.Answers) {
				if a.Kind == w.Kind && (a.Kind == control.Approval && a.ApprovalID == w.Approval || a.Kind != control.Approval && a.CallID == w.UICallID) {
					a.CallID = w.UICallID
					found.Answers = append(found.Answers, a)
					break
				}
			}
		}
	}
	if found.Answers == nil {
		return nil
	}
	return found
}

// readOn returns the plan of a request without messages and answers. It depends on no state: the log has what follows an event.
func (r Request) readOn() Plan {
	if r.LastEvent == nil {
		return refuseWith(ReasonNothingAsked)
	}
	return Plan{Path: PathAttach, Stream: &Stream{Show: ShowTail, After: r.LastEvent.Seq, Anchor: r.LastEvent.Anchor}}
}

// decided returns the calls that have a decision and no outcome in the client's copy of an answer.
func decided(of *dialect.Answered) []string {
	var ids []string
	for _, a := range of.Answers {
		if a.Kind == control.Approval {
			ids = append(ids, a.CallID)
		}
	}
	return ids
}

// clientID returns the id of a message of a request, "" for none.
func clientID(m chunk.InputMessage) string {
	if m.ClientMessageID == nil {
		return ""
	}
	return *m.ClientMessageID
}
