package runs

import (
	"context"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// Fork is a session that continues another one from a point. One of At, Before and Checkpoint is set: a cursor of the other session, which is moved back to the last
// committed step, pause or end of a run, or message of a user; a message of a user; or a checkpoint. With a Message it gets a run that answers it; with Continue the
// agent is called again after the point, as after an interruption; without both it has no run.
type Fork = conversation.ForkRequest

// Edit replaces the outcome of a call in a Fork.
type Edit = fold.Edit

// Forked is a fork, and what it has of the other session.
type Forked = conversation.Forked

// Fork makes a fork of a session, and requests its run. The origin is not changed. A call that has no outcome at the point fails, unless an edit has one. The same
// request may be repeated, and returns the same fork and the same run; it completes what a crash has left.
func (c *Client) Fork(ctx context.Context, id chunk.Session, f Fork) (Forked, error) {
	f.Origin = id
	forked, r := c.service.Fork(ctx, f)
	return forked, errorOf(id, r)
}

// forks implements conversation.Forks.
type forks struct {
	*projector.Reader
	*jsvalues.Store

	index *jssnapshots.Store
	open  func() (*producers.Producer, error)
}

// Fork implements conversation.Forks. A deletion of the origin finds the fork by its key, or has ended the origin when its head is read.
func (f forks) Fork(ctx context.Context, of, s chunk.Session, records []chunk.Chunk) (bool, error) {
	if err := f.index.AddFork(ctx, of, s); err != nil {
		return false, err
	}
	if _, err := f.Head(ctx, of); err != nil {
		return false, err
	}
	p, err := f.open()
	if err != nil {
		return false, err
	}
	defer p.Close() //nolint:errcheck // it has no run
	return p.Fork(ctx, s, records)
}
