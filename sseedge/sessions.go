package sseedge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

type sessionsPage struct {
	Sessions []json.RawMessage `json:"sessions"`
	Before   *string           `json:"before"`
}

// listedPage has the members of a snapshot, so that a view hides the same members in both.
type listedPage struct {
	Session struct {
		Tenant    string `json:"tenant"`
		Root      string `json:"root"`
		ID        string `json:"id"`
		AgentType string `json:"agentType,omitempty"`
		Owner     string `json:"owner,omitempty"`
	} `json:"session"`
	Status         string    `json:"status"`
	StreamSequence chunk.Seq `json:"streamSequence"`
	Created        int64     `json:"created"`
	StartedAt      *int64    `json:"began"`
	Timestamp      int64     `json:"timestamp"`
}

func asListed(l projector.SessionInfo) listedPage {
	p := listedPage{Status: string(l.Status), StreamSequence: l.Position.Seq, Created: l.Created.UnixMilli(), Timestamp: l.SavedAt.UnixMilli()}
	p.Session.Tenant, p.Session.Root, p.Session.ID, p.Session.AgentType = l.Session.Tenant, l.Session.Root, l.Session.ID, l.AgentType
	p.Session.Owner = l.Owner
	if !l.StartedAt.IsZero() {
		began := l.StartedAt.UnixMilli()
		p.StartedAt = &began
	}
	return p
}

// listKey identifies a list for pageKey: which sessions it shows depends on the client.
type listKey struct {
	tenant, status, agentType, before string
	limit                             int
	shows                             string // "" for all sessions of the tenant
}

func newListKey(g *auth.Grant, of projector.SessionQuery) listKey {
	k := listKey{tenant: g.Tenant, status: string(of.Status), agentType: of.AgentType, before: of.Before, limit: of.Limit}
	if of.Shows != nil {
		k.shows = fmt.Sprintf("%q %t %q %q", g.Subject, g.Sessions.Own, g.Sessions.IDs, g.Sessions.Prefix)
	}
	return k
}

// sessions serves GET /v1/sessions?status=&agentType=&limit=&before=: the root sessions of the tenant that the client may read, the last saved first.
func (e *Edge) sessions(w http.ResponseWriter, r *http.Request, _ string) *httpkit.Problem {
	q, g := readQuery(r.URL, "status", "agentType", "limit", "before", "view"), httpkit.GrantOf(r.Context())
	name, listing := q.readView(g, e.cfg.Views), q.readListing()
	if q.problem != nil {
		return q.problem
	}
	if compiled := e.cfg.Views.Get(name); compiled != nil && listing.AgentType != "" && !compiled.AgentTypes() {
		return badRequest(codeBadParameter, "this view does not tell agents apart", "agentType: want none")
	}
	if !g.Sessions.All {
		listing.Shows = g.AllowsSession
	}
	// The list has no position: it is of the saved snapshots, which are older than the log anyway.
	return e.servePage(w, r, pageKey{view: name, query: newListKey(g, listing)}, func(ctx context.Context) (page, *httpkit.Problem) {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
		defer cancel()
		list, hold, p := e.readSessions(ctx, g.Tenant, name, listing)
		return e.encodePage(list, hold, p)
	})
}

func (e *Edge) readSessions(ctx context.Context, tenant, view string, of projector.SessionQuery) (sessionsPage, *reservation, *httpkit.Problem) {
	list, hold, err := readWithin(ctx, e.reads, func(ctx context.Context) (projector.SessionPage, error) {
		return e.cfg.Sessions.Sessions(ctx, tenant, of)
	})
	switch {
	case errors.Is(err, projector.ErrBadCursor):
		return sessionsPage{}, nil, badRequest(codeBadCursor, "there is no such place in the list", "before: want the one of a page")
	case errors.Is(err, httpkit.ErrBudget), errors.Is(err, projector.ErrReadLimit):
		return sessionsPage{}, nil, e.loadProblem(chunk.Session{}, err)
	case err != nil:
		e.cfg.Log.Warn("session list failed", "error", err)
		return sessionsPage{}, nil, unavailable
	}
	page := sessionsPage{Sessions: make([]json.RawMessage, len(list.Sessions))}
	if list.Next != "" {
		page.Before = &list.Next
	}
	for i, l := range list.Sessions {
		var p *httpkit.Problem
		if page.Sessions[i], p = e.shownListed(view, l); p != nil {
			return sessionsPage{}, hold, p
		}
	}
	return page, hold, nil
}

func (e *Edge) shownListed(view string, l projector.SessionInfo) (json.RawMessage, *httpkit.Problem) {
	text, err := json.Marshal(asListed(l))
	if err != nil {
		e.cfg.Log.Error("session encoding failed", "session", l.Session.String(), "error", err)
		return nil, httpkit.Internal
	}
	return e.shownPage(view, l.Session, text)
}

const (
	maxAgentType = 256      // bytes of ?agentType=
	maxBefore    = 16 << 10 // bytes of ?before=, which has a number for each partition
)

func (q *query) readListing() projector.SessionQuery {
	l := projector.SessionQuery{
		Limit: q.readCount("limit", defaultLimit, maxLimit), Status: fold.Status(q.values.Get("status")), AgentType: q.values.Get("agentType"), Before: q.values.Get("before"),
	}
	switch {
	case l.Status != "" && !slices.Contains([]fold.Status{fold.Active, fold.Paused, fold.Ended, fold.Failed}, l.Status):
		q.refuse(codeBadParameter, "there is no such status", "status: want active, paused, ended or failed")
	case len(l.AgentType) > maxAgentType:
		q.refuse(codeBadParameter, "this is not the type of an agent", "agentType: want at most 256 bytes")
	case len(l.Before) > maxBefore:
		q.refuse(codeBadCursor, "there is no such place in the list", "before: want the one of a page")
	}
	return l
}
