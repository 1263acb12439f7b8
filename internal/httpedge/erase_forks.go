package httpedge

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// forkDeletion deletes the forks of a session, and their forks, for the client of a request.
type forkDeletion struct {
	*Edge

	seen    map[chunk.Session]bool
	deleted bool
	left    int // forks that the client may not delete
}

// of deletes the forks of s. Those of a fork are deleted before it, and also if it stays.
func (d *forkDeletion) of(ctx context.Context, s chunk.Session) error {
	for fork, err := range d.cfg.Eraser.Forks(ctx, s) {
		if err != nil {
			return err
		}
		if d.seen[fork.Session] {
			continue
		}
		d.seen[fork.Session] = true
		if err := d.of(ctx, fork.Session); err != nil {
			return err
		}
		if !httpkit.GrantOf(ctx).AllowsSession(fork.Session.ID, fork.Owner) {
			d.left++
			continue
		}
		if err := d.one(ctx, fork.Session); err != nil {
			return err
		}
		d.deleted = true
	}
	return nil
}

// one deletes a fork, and records it as the deletion that it is.
func (d *forkDeletion) one(ctx context.Context, s chunk.Session) error {
	end, err := audit.Begin(ctx, audit.Event{Act: audit.Delete, Session: s})
	if err != nil {
		return err
	}
	switch err = d.deleteSession(ctx, s); {
	case errors.Is(err, chunk.ErrUnknownSession):
		return nil // another request has deleted it
	case err != nil:
		end(audit.Failed)
	default:
		end(audit.Done)
	}
	return err
}
