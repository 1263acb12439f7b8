package sseedge

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// route is a path and a method, and who serves them: one of page and session.
type route struct {
	name    string // in metrics
	method  string // GET is HEAD too
	path    string // as docs/openapi.yaml has it
	page    func(*Edge, http.ResponseWriter, *http.Request)
	session func(*Edge, http.ResponseWriter, *http.Request, chunk.Session)
	offered func(*Edge) bool // nil: always
}

const (
	sessionsPath = "/v1/sessions"
	sessionPath  = "/v1/sessions/{id}"
)

// routes are all that there is. They are matched by hand: a mux answers an
// unclean path with a redirect to a clean one, and what a stranger sends is to be
// refused, not repaired.
var routes = []route{
	{name: "healthz", method: http.MethodGet, path: "/healthz", page: (*Edge).healthz},
	{name: "readyz", method: http.MethodGet, path: "/readyz", page: (*Edge).readyz},
	{name: "events", method: http.MethodGet, path: "/v1/events", page: (*Edge).manyEvents},
	{name: "events", method: http.MethodGet, path: sessionPath + "/events", session: (*Edge).events},
	{name: "snapshot", method: http.MethodGet, path: sessionPath + "/snapshot", session: (*Edge).snapshot},
	{name: "messages", method: http.MethodGet, path: sessionPath + "/messages", session: (*Edge).messages},
	{name: "tree", method: http.MethodGet, path: sessionPath + "/tree", session: (*Edge).tree},
	{name: "sessions", method: http.MethodGet, path: sessionsPath, page: (*Edge).sessions, offered: func(e *Edge) bool { return e.cfg.Directory != nil }},
	{name: "session", method: http.MethodDelete, path: sessionPath, session: (*Edge).erase, offered: func(e *Edge) bool { return e.cfg.Eraser != nil }},
}

// route finds the handler of a request, or refuses it; then allowed are the
// methods that the path has, for 405.
func (e *Edge) route(r *http.Request) (serve http.HandlerFunc, allowed string, p *problem) {
	path, escaped := template(r.URL)
	var methods []string
	for _, rt := range routes {
		if rt.path != path || rt.offered != nil && !rt.offered(e) {
			continue
		}
		if rt.method != r.Method && (rt.method != http.MethodGet || r.Method != http.MethodHead) {
			methods = append(methods, rt.method)
			if rt.method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
			continue
		}
		if rt.page != nil {
			return func(w http.ResponseWriter, r *http.Request) { rt.page(e, w, r) }, "", nil
		}
		id, err := url.PathUnescape(escaped)
		if err != nil || subjects.CheckToken("session", id) != nil {
			return nil, "", badSession
		}
		s := chunk.RootSession(e.cfg.Tenant, id)
		return func(w http.ResponseWriter, r *http.Request) { rt.session(e, w, r, s) }, "", nil
	}
	if methods == nil {
		return nil, "", notFound
	}
	allowed = strings.Join(methods, ", ")
	return nil, allowed, newProblem(http.StatusMethodNotAllowed, codeMethod, "this method is not for this path", "want one of "+allowed)
}

// template is the path of the route that a URL could be of, and the session id
// in it. Segments are taken from the path as it was sent and decoded once, so that
// an escaped slash does not make two of one.
func template(u *url.URL) (path, id string) {
	path = u.EscapedPath()
	rest, ours := strings.CutPrefix(path, sessionsPath+"/")
	if !ours {
		return path, ""
	}
	id, leaf, more := strings.Cut(rest, "/")
	if !more {
		return sessionPath, id
	}
	return sessionPath + "/" + leaf, id
}

// routeName is the name in metrics of the route that a request could be of.
func routeName(r *http.Request) string {
	path, _ := template(r.URL)
	for _, rt := range routes {
		if rt.path == path {
			return rt.name
		}
	}
	return "other"
}

var badSession = badRequest(codeBadSession, "this is no session id", "want 1 to 64 letters, digits, - or _")
