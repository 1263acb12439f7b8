package producers

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// Child starts the run of a sub-agent. It writes sub, a subagent_start, to this session and then starts a run of a new session under the same root. If
// SubSessionID is empty, Child generates one; the id must not be guessable, because it gives access to the sub-agent. Child fills in Parent of run.
//
// If sub is stored and the start fails, the error is that of Start, and the subagent_start stays in the log: start the session with Producer.Start, or write
// a subagent_end that reports the failure.
//
// Close the returned Run after EndChild. It may have sub-agents itself.
func (r *Run) Child(ctx context.Context, sub chunk.SubagentStart, run chunk.RunStarted) (*Run, error) {
	if sub.SubSessionID == "" {
		sub.SubSessionID = newID()
	}
	if sub.SubSessionID == r.session.ID || sub.SubSessionID == r.session.Root {
		return nil, r.notStored(chunk.Chunk{Body: sub}, &chunk.FieldError{
			Type: chunk.TypeSubagentStart, Field: "subSessionId", Want: "a new session", Got: fmt.Sprintf("%q, the session of a parent", sub.SubSessionID),
		})
	}
	s := r.session.Child(sub.SubSessionID)
	if _, err := r.cfg.Layout.Subject(s); err != nil {
		return nil, r.notStored(chunk.Chunk{Body: sub}, fmt.Errorf("%w: subSessionId: %w", chunk.ErrInvalid, err))
	}
	if _, err := r.Write(ctx, r.chunk(sub)); err != nil {
		return nil, err
	}
	run.Parent = &chunk.Parent{SessionID: r.session.ID, CallID: sub.CallID}
	return r.producer.Start(ctx, s, run, AgentType(sub.SubAgentType), func(o *startOptions) { o.announced = sub })
}

// EndChild ends a run that Child started, with result as its final output, and then writes the subagent_end with that result to this session: a reader of the
// tree gets all records of the child before it. It does not change a child that has ended or failed already. The caller writes the tool_end of the call,
// and closes the child.
func (r *Run) EndChild(ctx context.Context, child *Run, result chunk.Value) error {
	sub := child.announced
	if child.session.Tree() != r.session.Tree() || sub.SubSessionID == "" {
		return r.notStored(chunk.Chunk{Body: chunk.SubagentEnd{}}, fmt.Errorf("%w: session %s was not started as a child of %s", chunk.ErrInvalid, child.session, r.session))
	}
	if err := child.End(ctx, result); err != nil && !errors.Is(err, ErrEnded) {
		return err
	}
	_, err := r.Write(ctx, r.chunk(chunk.SubagentEnd{
		SubAgentType: sub.SubAgentType,
		SubSessionID: sub.SubSessionID,
		CallID:       sub.CallID,
		Result:       result,
	}))
	return err
}
