package chat

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

const (
	chatsPath = "/api/chat"
	chatPath  = "/api/chat/{id}"
)

// route is a path and a method, and who serves them.
type route struct {
	name   string // in metrics
	method string
	path   string // as docs/openapi.yaml has it
	serve  func(*Service, http.ResponseWriter, *http.Request, target)
}

var routes = []route{
	{"chat_post", http.MethodPost, chatsPath, (*Service).post},
	{"chat_post", http.MethodPost, chatPath, (*Service).post},
	{"chat_stream", http.MethodGet, chatPath, (*Service).get},
	{"chat_stream", http.MethodGet, chatPath + "/stream", (*Service).get},
	{"chat_snapshot", http.MethodGet, chatPath + "/snapshot", (*Service).snapshot},
	{"chat_stop", http.MethodPost, chatPath + "/stop", (*Service).stop},
	{"chat_answers", http.MethodPost, chatPath + "/answers", (*Service).answers},
}

// Routes are all there is, as "GET /api/chat/{id}".
func Routes() []string {
	list := make([]string, len(routes))
	for i, rt := range routes {
		list[i] = rt.method + " " + rt.path
	}
	return list
}

// RouteName is the name in metrics of the route that a request could be of.
func RouteName(r *http.Request) string {
	path, _ := template(r.URL)
	for _, rt := range routes {
		if rt.path == path && rt.method == r.Method {
			return rt.name
		}
	}
	return "chat_other"
}

// Match reports whether a path is one of a chat.
func Match(path string) bool { return path == chatsPath || strings.HasPrefix(path, chatsPath+"/") }

// target is what the URL of a request names.
type target struct {
	id        string // "" for a POST without one in its path: it stands in the body
	agentType string
}

// ServeHTTP answers one request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rt, to, p := s.route(w, r)
	if p == nil && rt.method == http.MethodPost && s.csrf.Check(r) != nil {
		// Nobody is asked here who they are: a page of another origin must not say
		// something in the name of whoever looks at it.
		p = crossOrigin
	}
	if p != nil {
		s.refuse(w, p)
		return
	}
	rt.serve(s, w, r, to)
}

// route matches by hand: a mux would answer an unclean path with a redirect.
func (s *Service) route(w http.ResponseWriter, r *http.Request) (route, target, *Problem) {
	path, escaped := template(r.URL)
	id, err := url.PathUnescape(escaped)
	var methods []string
	for _, rt := range routes {
		switch {
		case rt.path != path:
		case rt.method != r.Method:
			methods = append(methods, rt.method)
		case path != chatsPath && (err != nil || subjects.CheckToken("chat", id) != nil):
			return rt, target{}, badSession
		default:
			to, p := s.target(id, r.URL)
			return rt, to, p
		}
	}
	if methods == nil {
		return route{}, target{}, noRoute
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return route{}, target{}, badMethod
}

// template is the path of the route that a URL could be of, and the id in it as it
// was sent.
func template(u *url.URL) (path, id string) {
	path = u.EscapedPath()
	rest, ours := strings.CutPrefix(path, chatsPath+"/")
	if !ours {
		return path, ""
	}
	id, leaf, more := strings.Cut(rest, "/")
	if !more {
		return chatPath, id
	}
	return chatPath + "/" + leaf, id
}

func (s *Service) target(id string, u *url.URL) (target, *Problem) {
	const maxQuery = 8 << 10
	if len(u.RawQuery) > maxQuery {
		return target{}, invalid("the query is too long")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, invalid("the query cannot be read")
	}
	return target{id: id, agentType: q.Get("agentType")}, nil
}

// session is the chat that a request is about.
func (s *Service) session(id string) chunk.Session { return chunk.RootSession(s.cfg.Tenant, id) }

// knows makes sure that an agent is one of ours.
func (s *Service) knows(agentType string) *Problem {
	if agentType != "" && !slices.Contains(s.cfg.AgentTypes, agentType) {
		return unknownAgent
	}
	return nil
}

// post serves POST /api/chat/{id}, and POST /api/chat with the id in the body.
func (s *Service) post(w http.ResponseWriter, r *http.Request, to target) {
	req, p := s.receive(w, r, to)
	if p == nil {
		p = s.reply(w, r, req)
	}
	if p != nil {
		s.metrics.posted(codeLabel(p))
		s.refuse(w, p)
	}
}

// receive reads what somebody posts.
func (s *Service) receive(w http.ResponseWriter, r *http.Request, to target) (Request, *Problem) {
	p, bad := s.readPost(w, r)
	if bad != nil {
		return Request{}, bad
	}
	req := p.Request
	if to.id == "" {
		to.id = p.id
		if subjects.CheckToken("chat", to.id) != nil {
			return req, badSession
		}
	}
	req.Session = s.session(to.id)
	if req.AgentType == "" {
		req.AgentType = to.agentType
	}
	// Before anything else is done for it: calls must not be abandoned for a message
	// that is then refused.
	if err := checkInput(&commands.Command{Session: req.Session, AgentType: s.cfg.AgentTypes[0], RunID: "run", Input: inputsOf(req.Turn)}); err != nil {
		return req, s.failed(r.Context(), req.Session, "input", err)
	}
	if p.dropped > 0 {
		s.cfg.Log.WarnContext(r.Context(), "metadata over the budget was dropped", "session", req.Session.String(), "messages", p.dropped)
	}
	return req, nil
}

// get serves GET /api/chat/{id} and /stream.
func (s *Service) get(w http.ResponseWriter, r *http.Request, to target) {
	p := s.reply(w, r, Request{Session: s.session(to.id), AgentType: to.agentType, Cursor: readCursor(r.Header)})
	if p != nil {
		s.metrics.resumed(codeLabel(p))
		s.refuse(w, p)
	}
}

// reply decides a request and answers it, or says why not. A POST takes the place
// of its stream before anything else: what it says is not carried out behind a
// refusal. Most GETs find that there is nothing to see.
func (s *Service) reply(w http.ResponseWriter, r *http.Request, req Request) *Problem {
	did := s.metrics.account()
	if p := s.knows(req.AgentType); p != nil {
		return p
	}
	if req.Post {
		leave, p := s.admit(r, req.Session)
		if p != nil {
			return p
		}
		defer leave()
	}
	plan, v := s.plan(r.Context(), &req)
	if plan.Refusal == nil && plan.Stream == nil {
		s.metrics.resumed(resumeNothing)
		w.Header().Set("X-Session-Id", req.Session.ID)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if req.Asked != "" || plan.Stream != nil {
		w.Header().Set("X-Session-Id", req.Session.ID) // CS-28: the run has begun
	}
	if plan.Refusal != nil {
		return plan.Refusal
	}
	did.decided(&req, &plan)
	if !req.Post {
		leave, p := s.admit(r, req.Session)
		if p != nil {
			return p
		}
		defer leave()
	}
	return s.serve(w, r, plan.Stream, v, did)
}

// admit takes the place of a stream, or says why there is none.
func (s *Service) admit(r *http.Request, session chunk.Session) (leave func(), p *Problem) {
	if s.open.isDraining() {
		return nil, draining
	}
	leave, err := s.cfg.Room.Enter(r, session)
	if limit, isFull := errors.AsType[*sseedge.FullError](err); isFull {
		return nil, full(limit)
	}
	return leave, nil
}

// plan is settle within the time that a request may take. A client that goes away
// meanwhile takes nothing back: what it sent is carried out, so that one who lost
// the connection and one who reloads see the same.
func (s *Service) plan(ctx context.Context, req *Request) (Plan, View) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Attach)
	defer cancel()
	return s.settle(ctx, req)
}
