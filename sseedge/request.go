package sseedge

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/sse"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

const maxTypes = 64 // names in ?types= and ?exclude=

// query is a parsed query in which every known parameter is given at most once. Others are ignored.
type query struct{ values url.Values }

func readQuery(u *url.URL, known ...string) (query, *httpkit.Problem) {
	values, err := httpkit.ParseQuery(u)
	if err != nil {
		return query{}, badRequest(codeBadParameter, err.Error(), "")
	}
	for _, name := range known {
		if len(values[name]) > 1 {
			return query{}, badRequest(codeBadParameter, "a parameter is given twice", name+": want one")
		}
	}
	return query{values}, nil
}

// readStream parses a request for a stream. s has the ids of the request and no tenant.
//
//	?after=N           the cursor; see sse.ReadCursors
//	?scope=tree        the session and its sub-agents, the default
//	?scope=session     the session alone
//	?root=R            the session is a sub-agent of R, read alone
//	?types=a,b         only chunks of these types
//	?exclude=a,b       no chunks of these types
//	?agent=ID          only records of this session
//	?view=NAME         the view of this audience
//	?inline=N          values of up to N bytes are inline that are too large for a message
//	?dialect=NAME      the dialect of the events, see readDialect
func readStream(r *http.Request, s chunk.Session, views *view.Views) (hub.Request, *httpkit.Problem) {
	req := hub.Request{Session: s}
	q, p := readQuery(r.URL, streamParameters...)
	if p != nil {
		return req, p
	}
	cursors, err := sse.ReadCursors(r.Header, q.values, 1)
	if err != nil {
		return req, badRequest(codeBadCursor, "the cursor cannot be read", err.Error())
	}
	p = q.readStream(&req, cursors[0], httpkit.GrantOf(r.Context()), views)
	return req, p
}

// streamParameters may be given at most once.
var streamParameters = []string{"scope", "root", "types", "exclude", "agent", "view", "inline"}

// readStream parses everything except the session.
func (q query) readStream(req *hub.Request, after sse.Cursor, g *auth.Grant, views *view.Views) (p *httpkit.Problem) {
	if p := q.readScope(req); p != nil {
		return p
	}
	if req.Encoding, p = q.readView(g, views); p != nil {
		return p
	}
	req.After.Seq, req.Anchor, req.StreamEpoch = after.Seq, after.Anchor, after.Epoch
	return q.readFilter(&req.Filter)
}

func (q query) readScope(req *hub.Request) *httpkit.Problem {
	if p := q.readRoot(&req.Session); p != nil {
		return p
	}
	if !req.Session.IsRoot() {
		req.Scope = chunk.ScopeSession
	}
	switch q.values.Get("scope") {
	case "":
	case "session":
		req.Scope = chunk.ScopeSession
	case "tree":
		if !req.Session.IsRoot() {
			return badRequest(codeBadParameter, "a sub-agent has no tree of its own", "scope: want session, or the tree of its root")
		}
	default:
		return badRequest(codeBadParameter, "unknown scope", "scope: want tree or session")
	}
	return nil
}

// readRoot sets the root of s, the session of a sub-agent, if ?root= is given.
func (q query) readRoot(s *chunk.Session) *httpkit.Problem {
	root := q.values.Get("root")
	if root == "" {
		return nil
	}
	if subjects.CheckID("root", root) != nil {
		return badSession
	}
	s.Root = root
	return nil
}

func (q query) readFilter(f *hub.Filter) (p *httpkit.Problem) {
	if f.Types, p = q.readTypes("types"); p != nil {
		return p
	}
	if f.Exclude, p = q.readTypes("exclude"); p != nil {
		return p
	}
	f.Agent = q.values.Get("agent")
	if f.Agent != "" && subjects.CheckID("agent", f.Agent) != nil {
		return badRequest(codeBadParameter, "this is not the id of an agent", "agent: want 1 to 64 characters of a URI")
	}
	return nil
}

func (q query) readTypes(name string) ([]chunk.Type, *httpkit.Problem) {
	list := q.values.Get(name)
	if list == "" {
		return nil, nil
	}
	var types []chunk.Type
	for typ := range strings.SplitSeq(list, ",") {
		if !isTypeName(typ) || len(types) == maxTypes {
			return nil, badRequest(codeBadParameter, "these are not chunk types", name+": want at most 64 names of letters, digits, _ . : or -, with commas")
		}
		types = append(types, chunk.Type(typ))
	}
	return types, nil
}

func isTypeName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
