package chat

import (
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

const (
	chatsPath = "/api/chat"
	chatPath  = "/api/chat/{id}"
)

// routes returns all routes of a Service.
func (s *Service) routes() []httpkit.Route {
	posted := func(r *http.Request, p *httpkit.Problem) { s.metrics.posted(outcomeOf(r, p)) }
	resumed := func(r *http.Request, p *httpkit.Problem) { s.metrics.resumed(outcomeOf(r, p)) }
	type onProblem = func(*http.Request, *httpkit.Problem)
	route := func(name, method, path string, serve func(http.ResponseWriter, *http.Request, target) *httpkit.Problem, failed onProblem) httpkit.Route {
		scope := httpkit.ScopeWrite
		if method == http.MethodGet {
			scope = httpkit.ScopeRead
		}
		return httpkit.Route{Name: name, Method: method, Path: path, Scope: scope, OnProblem: failed, Serve: func(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
			q, err := httpkit.ParseQuery(r.URL)
			if err != nil {
				return httpkit.Invalid(err.Error())
			}
			return serve(w, r, target{id: id, agentType: q.Get("agentType")})
		}}
	}
	return []httpkit.Route{
		route("chat_post", http.MethodPost, chatsPath, s.post, posted),
		route("chat_post", http.MethodPost, chatPath, s.post, posted),
		route("chat_stream", http.MethodGet, chatPath, s.get, resumed),
		route("chat_stream", http.MethodGet, chatPath+"/stream", s.get, resumed),
		route("chat_snapshot", http.MethodGet, chatPath+"/snapshot", s.snapshot, nil),
		route("chat_stop", http.MethodPost, chatPath+"/stop", s.stop, nil),
		route("chat_answers", http.MethodPost, chatPath+"/answers", s.answers, nil),
	}
}

// RouteName implements sseedge.Surface.
func (s *Service) RouteName(r *http.Request) string { return s.router.Name(r) }

// Match implements sseedge.Surface: all paths below /api/chat are its own.
func (s *Service) Match(path string) bool {
	return path == chatsPath || strings.HasPrefix(path, chatsPath+"/")
}

// target has the values from the URL of a request.
type target struct {
	id        string // "" for a POST without an id in its path: the body has it
	agentType string
}

// session returns the session of the chat of a request.
func (s *Service) session(id string) chunk.Session { return chunk.RootSession(s.shared.Tenant, id) }

// post serves POST /api/chat/{id}, and POST /api/chat with the id in the body.
func (s *Service) post(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	req, p := s.receive(w, r, to)
	if p != nil {
		return p
	}
	return s.reply(w, r, req)
}

// get serves GET /api/chat/{id} and /stream.
func (s *Service) get(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	session := s.session(to.id)
	after, p := s.resumeFrom(r, session)
	if p != nil {
		return p
	}
	return s.reply(w, r, conversation.Request{Session: session, AgentType: to.agentType, Cursor: after})
}

// reply decides a request and writes the response, or returns the problem. A POST reserves its stream first: otherwise a request could take effect although
// its response rejects it. A GET reserves its stream later, because most GETs have nothing to stream.
func (s *Service) reply(w http.ResponseWriter, r *http.Request, req conversation.Request) *httpkit.Problem {
	counts := s.metrics.newCounts()
	if req.Post {
		if p := problemOf(s.logic.CheckAgent(req.AgentType)); p != nil {
			return p // not 503: the same request would be refused later too
		}
		leave, p := s.admit(r, req.Session)
		if p != nil {
			return p
		}
		defer leave()
	}
	plan, v := s.logic.Serve(r.Context(), &req)
	if plan.Refusal == nil && plan.Stream == nil {
		s.metrics.resumed(resumeNothing)
		w.Header().Set("X-Session-Id", req.Session.ID)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if req.RequestedRun != "" || plan.Stream != nil {
		w.Header().Set("X-Session-Id", req.Session.ID) // CS-28: the run has begun
	}
	if plan.Refusal != nil {
		return problemOf(plan.Refusal)
	}
	counts.decided(&req, &plan)
	if !req.Post {
		leave, p := s.admit(r, req.Session)
		if p != nil {
			return p
		}
		defer leave()
	}
	return s.serve(w, r, plan.Stream, v, counts)
}

// admit reserves a stream, or returns the problem.
func (s *Service) admit(r *http.Request, session chunk.Session) (leave func(), p *httpkit.Problem) {
	if s.open.Draining() {
		return nil, draining
	}
	return s.shared.Streams.Acquire(r, session)
}
