package httpedge

import (
	"context"
	"net/http"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/httpkit"
)

const (
	sessionsPath = "/v1/sessions"
	sessionPath  = "/v1/sessions/{id}"
)

// routes returns all routes of an Edge.
func (e *Edge) routes() []httpkit.Route {
	get := func(name, path string, serve func(http.ResponseWriter, *http.Request, string) *httpkit.Problem) httpkit.Route {
		return httpkit.Route{Name: name, Method: http.MethodGet, Path: path, Scope: auth.ScopeRead, Serve: serve}
	}
	stream := func(path string, serve func(http.ResponseWriter, *http.Request, string) *httpkit.Problem) httpkit.Route {
		rt := get("events", path, serve)
		rt.Stream, rt.Refuse = true, e.rejectStream
		rt.WithoutLog = true // the records of the hub are served, and the rejection of an EventSource has to be its own
		return rt
	}
	events := stream(sessionPath+"/events", e.events)
	events.Tickets = true
	list := get("sessions", sessionsPath, e.sessions)
	summary := get("summary", sessionsPath+"/summary", e.summary)
	list.Disabled, summary.Disabled = e.cfg.Sessions == nil, e.cfg.Sessions == nil
	return []httpkit.Route{
		{Name: "healthz", Method: http.MethodGet, Path: "/healthz", Public: true, Serve: e.healthz},
		stream("/v1/events", e.multiSessionEvents),
		events,
		get("snapshot", sessionPath+"/snapshot", e.snapshot),
		get("messages", sessionPath+"/messages", e.messages),
		get("value", sessionPath+"/values/{value}", e.value),
		get("tree", sessionPath+"/tree", e.tree),
		list,
		summary,
		{Name: "session", Method: http.MethodDelete, Path: sessionPath, Scope: auth.ScopeDelete, Act: audit.Delete, Serve: e.erase, Disabled: e.cfg.Eraser == nil},
		{Name: "token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Scope: auth.ScopeAdmin, Act: audit.RevokeToken, Serve: e.revokeToken, OtherID: true, Disabled: e.cfg.Revoker == nil},
		{Name: "subject", Method: http.MethodDelete, Path: "/v1/subjects/{id}/tokens", Scope: auth.ScopeAdmin, Act: audit.RevokeToken, Serve: e.revokeSubject, OtherID: true, Disabled: e.cfg.Revoker == nil},
	}
}

// permit sets the session that the client may use, see access.Access. s has the ids of the request.
func (e *Edge) permit(ctx context.Context, s *chunk.Session) *httpkit.Problem {
	permitted, err := e.access.Session(ctx, s.Root, s.ID)
	if err != nil {
		return e.loadProblem(*s, err)
	}
	*s = permitted
	return nil
}

// owner returns the subject of the owner of a root session, "" if it is not known.
func (e *Edge) owner(ctx context.Context, root chunk.Session) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AttachTimeout)
	defer cancel()
	page, hold, err := e.lastMessage(ctx, root, false)
	defer hold.release()
	if err != nil {
		return "", err
	}
	if owner := page.Current().Owner; owner != nil {
		return owner.Subject, nil
	}
	return "", nil
}
