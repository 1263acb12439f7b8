package producers

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// Child starts the run of a sub-agent. It writes sub, a subagent_start, into
// this session and, when that is stored, opens a session of the sub-agent's own
// under the same root. An empty SubSessionID is minted; it must not be
// guessable, because who knows it can address the sub-agent. Parent of run is
// filled in.
//
// If the announcement is stored and the start fails, the error is that of
// Start, and the announcement stands: start the session with Producer.Start, or
// write a subagent_end that says what happened.
//
// The child's Run is yours to Close, after EndChild if all goes well. It may be
// a parent itself.
func (r *Run) Child(ctx context.Context, sub chunk.SubagentStart, run chunk.RunStarted) (*Run, error) {
	if sub.SubSessionID == "" {
		sub.SubSessionID = mint()
	}
	if sub.SubSessionID == r.session.ID || sub.SubSessionID == r.session.Root {
		return nil, r.notStored(chunk.Chunk{Body: sub}, &chunk.FieldError{
			Type: sub.Type(), Field: "subSessionId", Want: "a session of its own", Got: fmt.Sprintf("%q, a parent's", sub.SubSessionID),
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
	return r.producer.Start(ctx, s, run, AgentType(sub.SubAgentType), announced(sub))
}

// announced remembers what the parent's session says of a child.
func announced(sub chunk.SubagentStart) StartOption {
	return func(o *startOptions) { o.announced = sub }
}

// EndChild ends a child that Child started, with result as its final output,
// and then writes the subagent_end with that result into this session: a reader
// of the tree sees all of the child before it. A child that has ended or failed
// already stays as it is. The tool_end of the call, which belongs right behind,
// is the caller's, and so is closing the child.
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
