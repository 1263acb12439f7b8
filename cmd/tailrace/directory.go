package main

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sseedge"
)

// directory is what the edge sees of a projector.Lister.
type directory struct{ lister projector.Lister }

// Sessions is sseedge.Directory's.
func (d directory) Sessions(ctx context.Context, tenant string, q sseedge.Listing) ([]sseedge.Listed, string, error) {
	page, err := d.lister.Sessions(ctx, tenant, projector.Query{Status: fold.Status(q.Status), AgentType: q.AgentType, Limit: q.Limit, Before: q.Before})
	if errors.Is(err, projector.ErrCursor) {
		return nil, "", sseedge.ErrBefore
	}
	if err != nil {
		return nil, "", err
	}
	list := make([]sseedge.Listed, len(page.Sessions))
	for i, l := range page.Sessions {
		list[i] = sseedge.Listed{
			Session: l.Session, AgentType: l.AgentType, Status: string(l.Status), Seq: l.Position.Seq,
			Created: l.Created, Began: l.Began, Saved: l.Saved,
		}
	}
	return list, page.Next, nil
}
