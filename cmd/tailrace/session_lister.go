package main

import (
	"context"
	"errors"

	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/sseedge"
)

// sessionLister adapts a projector.Lister to the edge.
type sessionLister struct{ lister projector.Lister }

// Sessions implements sseedge.SessionLister.
func (d sessionLister) Sessions(ctx context.Context, tenant string, q sseedge.SessionQuery) ([]sseedge.SessionInfo, string, error) {
	page, err := d.lister.Sessions(ctx, tenant, projector.SessionQuery{Status: fold.Status(q.Status), AgentType: q.AgentType, Limit: q.Limit, Before: q.Before})
	if errors.Is(err, projector.ErrBadCursor) {
		return nil, "", sseedge.ErrBadCursor
	}
	if err != nil {
		return nil, "", err
	}
	list := make([]sseedge.SessionInfo, len(page.Sessions))
	for i, l := range page.Sessions {
		list[i] = sseedge.SessionInfo{
			Session: l.Session, AgentType: l.AgentType, Status: string(l.Status), Seq: l.Position.Seq,
			Created: l.Created, StartedAt: l.StartedAt, SavedAt: l.SavedAt,
		}
	}
	return list, page.Next, nil
}
