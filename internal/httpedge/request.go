package httpedge

import (
	"cmp"
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

// query is a parsed query in which every known parameter is given at most once. Others are ignored, except by readList. Its methods read parameters; the caller checks problem after the
// last of them.
type query struct {
	values  url.Values
	problem *httpkit.Problem // the first one, nil for none
}

func readQuery(u *url.URL, known ...string) *query {
	values, err := httpkit.ParseQuery(u)
	q := &query{values: values}
	if err != nil {
		q.refuse(codeBadParameter, err.Error(), "")
	}
	for _, name := range known {
		if len(values[name]) > 1 {
			q.refuse(codeBadParameter, "a parameter is given twice", name+": want one")
		}
	}
	return q
}

// readList is readQuery for a list, which has no other parameters: with a mistyped one it would show what was not asked for.
func readList(u *url.URL, known ...string) *query {
	q := readQuery(u, known...)
	q.fail(httpkit.UnknownParameter(q.values, known))
	return q
}

func (q *query) refuse(code, title, detail string) { q.fail(badRequest(code, title, detail)) }

func (q *query) fail(p *httpkit.Problem) { q.problem = cmp.Or(q.problem, p) }

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
	req, q := hub.Request{Session: s}, readQuery(r.URL, streamParameters...)
	if cursors := q.readCursors(r.Header, 1); q.problem == nil {
		q.readStream(&req, cursors[0], httpkit.GrantOf(r.Context()), views)
	}
	return req, q.problem
}

func (q *query) readCursors(h http.Header, n int) []sse.Cursor {
	cursors, err := sse.ReadCursors(h, q.values, n)
	if err != nil {
		q.refuse(codeBadCursor, "the cursor cannot be read", err.Error())
	}
	return cursors
}

// streamParameters may be given at most once.
var streamParameters = []string{"scope", "root", "types", "exclude", "agent", "view", "inline"}

// readStream parses everything except the session.
func (q *query) readStream(req *hub.Request, after sse.Cursor, g *auth.Grant, views *view.Views) {
	q.readScope(req)
	req.Encoding = q.readView(g, views)
	req.After.Seq, req.Anchor, req.StreamEpoch = after.Seq, after.Anchor, after.Epoch
	q.readFilter(&req.Filter)
}

func (q *query) readScope(req *hub.Request) {
	q.readRoot(&req.Session)
	if !req.Session.IsRoot() {
		req.Scope = chunk.ScopeSession
	}
	switch q.values.Get("scope") {
	case "":
	case "session":
		req.Scope = chunk.ScopeSession
	case "tree":
		if !req.Session.IsRoot() {
			q.refuse(codeBadParameter, "a sub-agent has no tree of its own", "scope: want session, or the tree of its root")
		}
	default:
		q.refuse(codeBadParameter, "unknown scope", "scope: want tree or session")
	}
}

// readRoot sets the root of s, the session of a sub-agent, if ?root= is given.
func (q *query) readRoot(s *chunk.Session) {
	switch root := q.values.Get("root"); {
	case root == "":
	case subjects.CheckID("root", root) != nil:
		q.fail(badSession)
	default:
		s.Root = root
	}
}

func (q *query) readFilter(f *hub.Filter) {
	f.Types, f.Exclude = q.readTypes("types"), q.readTypes("exclude")
	f.Agent = q.values.Get("agent")
	if f.Agent != "" && subjects.CheckID("agent", f.Agent) != nil {
		q.refuse(codeBadParameter, "this is not the id of an agent", "agent: want 1 to 64 characters of a URI")
	}
}

func (q *query) readTypes(name string) (types []chunk.Type) {
	list := q.values.Get(name)
	if list == "" {
		return nil
	}
	for typ := range strings.SplitSeq(list, ",") {
		if !isTypeName(typ) || len(types) == maxTypes {
			q.refuse(codeBadParameter, "these are not chunk types", name+": want at most 64 names of letters, digits, _ . : or -, with commas")
			return nil
		}
		types = append(types, chunk.Type(typ))
	}
	return types
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
