package chat

import (
	"context"
	"net/http"
	"strings"

	"github.com/tailrace/tailrace/auth"
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
	route := func(name, method, path string, scope auth.Scope, serve func(http.ResponseWriter, *http.Request, target) *httpkit.Problem, failed onProblem) httpkit.Route {
		return httpkit.Route{Name: name, Method: method, Path: path, Scope: scope, OnProblem: failed, Serve: func(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
			q, err := httpkit.ParseQuery(r.URL)
			if err != nil {
				return httpkit.Invalid(err.Error())
			}
			return serve(w, r, target{id: id, agentType: q.Get("agentType")})
		}}
	}
	// The response to a POST is the answer of the agent, hence the right to read. The POST may have a message, answers to calls, or both: package conversation
	// checks the right for each when it takes effect, because clients repeat earlier answers in every request.
	post := func(path string) httpkit.Route {
		rt := route("chat_post", http.MethodPost, path, auth.ScopeRead, s.post, posted)
		rt.AnyOf = auth.ScopeChat | auth.ScopeAnswer
		return rt
	}
	return []httpkit.Route{
		post(chatsPath),
		post(chatPath),
		route("chat_stream", http.MethodGet, chatPath, auth.ScopeRead, s.get, resumed),
		route("chat_stream", http.MethodGet, chatPath+"/stream", auth.ScopeRead, s.get, resumed),
		route("chat_snapshot", http.MethodGet, chatPath+"/snapshot", auth.ScopeRead, s.snapshot, nil),
		route("chat_stop", http.MethodPost, chatPath+"/stop", auth.ScopeStop, s.stop, nil),
		route("chat_answers", http.MethodPost, chatPath+"/answers", auth.ScopeAnswer, s.answers, nil),
	}
}

// RouteName implements sseedge.Surface.
func (s *Service) RouteName(r *http.Request) string { return s.router.Name(r) }

// Policies implements sseedge.Surface.
func (s *Service) Policies() []httpkit.Policy { return s.router.Policies() }

// Match implements sseedge.Surface: all paths below /api/chat are its own.
func (s *Service) Match(path string) bool {
	return path == chatsPath || strings.HasPrefix(path, chatsPath+"/")
}

// target has the values from the URL of a request.
type target struct {
	id        string // "" for a POST without an id in its path: the body has it
	agentType string
}

// chat is the chat of a request.
type chat struct {
	id      string                // for the response
	session chunk.Session         // another one if the client must not know that with the id, see httpkit.Access
	logic   *conversation.Service // works for the client
}

func (s *Service) chat(ctx context.Context, id string) chat {
	session, caller := s.shared.Access.Conversation(ctx, id)
	return chat{id, session, s.logic.As(caller)}
}

// post serves POST /api/chat/{id}, and POST /api/chat with the id in the body.
func (s *Service) post(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	of, req, p := s.receive(w, r, to)
	if p != nil {
		return p
	}
	return s.reply(w, r, of, req)
}

// get serves GET /api/chat/{id} and /stream.
func (s *Service) get(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	of := s.chat(r.Context(), to.id)
	after, p := s.resumeFrom(r, of.session)
	if p != nil {
		return p
	}
	return s.reply(w, r, of, conversation.Request{Session: of.session, AgentType: to.agentType, Cursor: after})
}

// reply decides a request and writes the response, or returns the problem. A POST reserves its stream first: otherwise a request could take effect although
// its response rejects it. A GET reserves its stream later, because most GETs have nothing to stream.
func (s *Service) reply(w http.ResponseWriter, r *http.Request, of chat, req conversation.Request) *httpkit.Problem {
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
	plan, v := of.logic.Serve(r.Context(), &req)
	if plan.Refusal == nil && plan.Stream == nil {
		s.metrics.resumed(resumeNothing)
		w.Header().Set("X-Session-Id", of.id)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if req.RequestedRun != "" || plan.Stream != nil {
		w.Header().Set("X-Session-Id", of.id) // CS-28: the run has begun
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
