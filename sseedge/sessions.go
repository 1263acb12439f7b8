package sseedge

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// SessionLister lists the sessions of a tenant. It may be asked by many requests at
// once.
type SessionLister interface {
	// Sessions returns the sessions that were saved last, newest first, and the cursor of the next page, "" at the end. There may be fewer than q.Limit, or none,
	// before the end. The error is ErrBadCursor if q.Before was not returned by it.
	Sessions(ctx context.Context, tenant string, q SessionQuery) (list []SessionInfo, next string, err error)
}

// SessionQuery says which sessions are asked for.
type SessionQuery struct {
	Status    string // active, paused, ended or failed; "" for any
	AgentType string // "" for any
	Limit     int    // at most so many, more than 0
	Before    string // "" from the beginning
}

// SessionInfo is a root session as it was saved last. The log may be further.
type SessionInfo struct {
	Session   chunk.Session
	AgentType string // "" when it is not known
	Status    string
	Seq       chunk.Seq // how far it was saved
	Created   time.Time
	StartedAt time.Time // its latest run; zero when there was none
	SavedAt   time.Time
}

// ErrBadCursor reports a SessionQuery.Before that is not a cursor of the list.
var ErrBadCursor = errors.New("there is no such place in the list of sessions")

type sessionsPage struct {
	Sessions []json.RawMessage `json:"sessions"`
	Before   *string           `json:"before"`
}

// listedPage has the members of a snapshot, so that a view shows of it what it
// shows of that.
type listedPage struct {
	Session struct {
		Tenant    string `json:"tenant"`
		Root      string `json:"root"`
		ID        string `json:"id"`
		AgentType string `json:"agentType,omitempty"`
	} `json:"session"`
	Status         string    `json:"status"`
	StreamSequence chunk.Seq `json:"streamSequence"`
	Created        int64     `json:"created"`
	StartedAt      *int64    `json:"began"`
	Timestamp      int64     `json:"timestamp"`
}

func (l SessionInfo) page() listedPage {
	p := listedPage{Status: l.Status, StreamSequence: l.Seq, Created: l.Created.UnixMilli(), Timestamp: l.SavedAt.UnixMilli()}
	p.Session.Tenant, p.Session.Root, p.Session.ID, p.Session.AgentType = l.Session.Tenant, l.Session.Root, l.Session.ID, l.AgentType
	if !l.StartedAt.IsZero() {
		began := l.StartedAt.UnixMilli()
		p.StartedAt = &began
	}
	return p
}

// sessions serves GET /v1/sessions?status=&agentType=&limit=&before=: the root
// sessions of the tenant, those first that were saved last.
func (e *Edge) sessions(w http.ResponseWriter, r *http.Request, _ string) *problem {
	q, p := readQuery(r.URL, "status", "agentType", "limit", "before", "view")
	if p != nil {
		return p
	}
	page, p := e.readSessions(r.Context(), q)
	if p != nil {
		return p
	}
	e.writeJSON(w, "", page)
	return nil
}

func (e *Edge) readSessions(ctx context.Context, q query) (sessionsPage, *problem) {
	name, p := q.readView(e.cfg.Views)
	if p != nil {
		return sessionsPage{}, p
	}
	listing, p := q.readListing()
	if p != nil {
		return sessionsPage{}, p
	}
	if compiled := e.cfg.Views.Get(name); compiled != nil && listing.AgentType != "" && !compiled.AgentTypes() {
		return sessionsPage{}, badRequest(codeBadParameter, "this view does not tell agents apart", "agentType: want none")
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	list, next, err := e.cfg.Sessions.Sessions(ctx, e.cfg.Tenant, listing)
	switch {
	case errors.Is(err, ErrBadCursor):
		return sessionsPage{}, badRequest(codeBadCursor, "there is no such place in the list", "before: want the one of a page")
	case err != nil:
		e.cfg.Log.Warn("session list failed", "error", err)
		return sessionsPage{}, unavailable
	}
	page := sessionsPage{Sessions: make([]json.RawMessage, len(list))}
	if next != "" {
		page.Before = &next
	}
	for i, l := range list {
		if page.Sessions[i], p = e.shownListed(name, l); p != nil {
			return sessionsPage{}, p
		}
	}
	return page, nil
}

func (e *Edge) shownListed(view string, l SessionInfo) (json.RawMessage, *problem) {
	text, err := json.Marshal(l.page())
	if err != nil {
		e.cfg.Log.Error("session encoding failed", "session", l.Session.String(), "error", err)
		return nil, httpkit.Internal
	}
	return e.shownPage(view, l.Session, text)
}

const (
	maxAgentType = 256 // bytes of ?agentType=
	maxBefore    = 256 // bytes of ?before=
)

func (q query) readListing() (SessionQuery, *problem) {
	limit, p := q.readLimit()
	if p != nil {
		return SessionQuery{}, p
	}
	l := SessionQuery{Status: q.values.Get("status"), AgentType: q.values.Get("agentType"), Limit: limit, Before: q.values.Get("before")}
	switch {
	case l.Status != "" && !slices.Contains([]string{"active", "paused", "ended", "failed"}, l.Status):
		return SessionQuery{}, badRequest(codeBadParameter, "there is no such status", "status: want active, paused, ended or failed")
	case len(l.AgentType) > maxAgentType:
		return SessionQuery{}, badRequest(codeBadParameter, "this is no type of an agent", "agentType: want at most 256 bytes")
	case len(l.Before) > maxBefore:
		return SessionQuery{}, badRequest(codeBadCursor, "there is no such place in the list", "before: want the one of a page")
	}
	return l, nil
}
