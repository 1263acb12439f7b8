package agentserver

import (
	"errors"
	"mime"
	"net/http"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

// route is a path below the prefix and a method, and who serves them.
type route struct {
	method string
	path   string
	serve  func(*Server, http.ResponseWriter, *http.Request)
}

var routes = []route{
	{http.MethodPost, "/start", (*Server).start},
	{http.MethodPost, "/resume", (*Server).resume},
	{http.MethodGet, "/sse", (*Server).sse},
	{http.MethodGet, "/status", (*Server).status},
	{http.MethodPost, "/submit-tool-result", (*Server).submit},
	{http.MethodPost, "/interrupt", (*Server).interrupt},
	{http.MethodPost, "/abort", (*Server).abort},
}

// Routes are all there is, as "POST /agents/start".
func (s *Server) Routes() []string {
	list := make([]string, len(routes))
	for i, rt := range routes {
		list[i] = rt.method + " " + s.prefix + rt.path
	}
	return list
}

// RouteName is the name in metrics of the route that a request could be of.
func (s *Server) RouteName(r *http.Request) string {
	for _, rt := range routes {
		if r.URL.Path == s.prefix+rt.path {
			return "agents_" + strings.ReplaceAll(strings.TrimPrefix(rt.path, "/"), "-", "_")
		}
	}
	return "agents_other"
}

// Match reports whether a path is one of this surface.
func (s *Server) Match(path string) bool {
	for _, rt := range routes {
		if path == s.prefix+rt.path {
			return true
		}
	}
	return false
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, p := s.route(w, r)
	if p == nil && rt.method == http.MethodPost && s.csrf.Check(r) != nil {
		// Nobody is asked here who they are: a page of another origin must not have
		// an agent work for it from inside a network that it cannot reach.
		p = crossOrigin
	}
	if p != nil {
		s.refuse(w, p)
		return
	}
	rt.serve(s, w, r)
}

// route matches by hand: a mux would answer an unclean path with a redirect.
func (s *Server) route(w http.ResponseWriter, r *http.Request) (route, *problem) {
	path, ours := strings.CutPrefix(r.URL.EscapedPath(), s.prefix)
	for _, rt := range routes {
		switch {
		case !ours || rt.path != path:
		case rt.method != r.Method:
			w.Header().Set("Allow", rt.method)
			return route{}, badMethod
		default:
			return rt, nil
		}
	}
	return route{}, noRoute
}

// session is the root session with an id that a request names.
func (s *Server) session(id string) (chunk.Session, *problem) {
	if subjects.CheckToken("sessionId", id) != nil {
		return chunk.Session{}, badSession
	}
	return chunk.RootSession(s.cfg.Tenant, id), nil
}

// Half a surrogate pair is no reason to refuse: a model's text that was cut has one.
var reading = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// read reads the body of a POST into v. Members that v has not are passed over.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) *problem {
	return s.body(w, r, func(text []byte) *problem {
		if err := json.Unmarshal(text, v, reading); err != nil {
			return invalid("the body is not what this path takes")
		}
		return nil
	})
}

// body gives parse a body of JSON, bounded. How deep it is nested is for the reader
// of JSON to judge, whose bound is 10,000, and for the log. Until parse returns, the
// body counts among those that are being read.
func (s *Server) body(w http.ResponseWriter, r *http.Request, parse func(text []byte) *problem) *problem {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return unsupportedMedia
	}
	text, release, err := s.cfg.Bodies.Read(w, r, s.cfg.MaxBody)
	defer release()
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return bodyTooLarge
	case errors.Is(err, sseedge.ErrNoRoom):
		return noRoom
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slowBody
	case err != nil:
		return unreadable
	case !utf8.Valid(text):
		return invalid("the body is no UTF-8")
	}
	return parse(text)
}
