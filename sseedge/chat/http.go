package chat

import (
	"cmp"
	"context"
	"net/http"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
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
			to := target{id: id, agentType: q.Get("agentType")}
			var p *httpkit.Problem
			if to.viewName, to.view, p = s.shared.Chat(r.Context(), q.Get("view")); p != nil {
				return p
			}
			return serve(w, r, to)
		}}
	}
	// The response to a POST is the answer of the agent, hence the right to read. The POST may have a message, answers to calls, or both: package conversation
	// checks the right for each when it takes effect, because clients repeat earlier answers in every request.
	post := func(path string) httpkit.Route {
		rt := route("chat_post", http.MethodPost, path, auth.ScopeRead, s.post, posted)
		rt.AnyOf = auth.ScopeChat | auth.ScopeAnswer
		return rt
	}
	stream := func(path string) httpkit.Route {
		rt := route("chat_stream", http.MethodGet, path, auth.ScopeRead, s.get, resumed)
		rt.Stream = true
		return rt
	}
	run := route("agui", http.MethodPost, aguiPath, auth.ScopeRead, s.agui, posted)
	run.AnyOf = auth.ScopeChat | auth.ScopeAnswer
	withdraw := route("chat_withdraw", http.MethodPost, chatPath+"/withdraw", auth.ScopeRead, s.withdraw, nil) // of the client's own messages, or with ScopeStop
	withdraw.AnyOf = auth.ScopeChat | auth.ScopeStop
	return []httpkit.Route{
		run,
		post(chatsPath),
		post(chatPath),
		stream(chatPath),
		stream(chatPath + "/stream"),
		route("chat_snapshot", http.MethodGet, chatPath+"/snapshot", auth.ScopeRead, s.snapshot, nil),
		route("chat_stop", http.MethodPost, chatPath+"/stop", auth.ScopeStop, s.stop, nil),
		route("chat_queue", http.MethodGet, chatPath+"/queue", auth.ScopeRead, s.queue, nil),
		withdraw,
		route("chat_answers", http.MethodPost, chatPath+"/answers", auth.ScopeAnswer, s.answers, nil),
	}
}

// target has the values from the URL of a request.
type target struct {
	id        string // "" for a POST without an id in its path: the body has it
	agentType string
	view      *view.Chat // what the client is shown
	viewName  string
}

// chat is the chat of a request.
type chat struct {
	id      string        // for the response
	session chunk.Session // another one if the client must not know that with the id, see access.Access
	view    *view.Chat
	logic   *conversation.Service // works for the client
	run     *agui.RunInput        // of a client of AG-UI, nil for one of the AI SDK
}

// chat returns the chat of a request, which starts a session or does not.
func (s *Service) chat(ctx context.Context, to target, starts bool) (chat, *httpkit.Problem) {
	session, caller, err := s.shared.Access.Conversation(ctx, to.id, to.view, starts)
	if err != nil {
		return chat{}, problemOf(s.logic.Failed(ctx, session, "owner", err))
	}
	return chat{id: to.id, session: session, view: to.view, logic: s.logic.As(caller)}, nil
}

// post serves POST /api/chat/{id}, and POST /api/chat with the id in the body.
func (s *Service) post(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var in aisdk.ChatInput
	p := s.readBody(w, r, func(text []byte) *httpkit.Problem {
		var err error
		in, err = aisdk.ParseChatInput(text)
		return invalid(err)
	})
	if p != nil {
		return p
	}
	if to.id == "" {
		if to.id = in.ChatID; subjects.CheckID("chat", to.id) != nil {
			return badSession
		}
	}
	of, p := s.chat(r.Context(), to, true)
	if p != nil {
		return p
	}
	if in.DroppedMetadata > 0 {
		s.shared.Log.WarnContext(r.Context(), "metadata over the budget dropped", "session", of.session.String(), "messages", in.DroppedMetadata)
	}
	req := requestOf(in)
	req.Session, req.AgentType, req.OnExecute = of.session, cmp.Or(req.AgentType, to.agentType), s.startPrefetch
	return s.reply(w, r, of, req)
}

// get serves GET /api/chat/{id} and /stream.
func (s *Service) get(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	after, p := s.resumeFrom(r, of.session)
	if p != nil {
		return p
	}
	return s.reply(w, r, of, conversation.Request{Session: of.session, AgentType: to.agentType, Cursor: after})
}

func (s *Service) readBody(w http.ResponseWriter, r *http.Request, parse func(text []byte) *httpkit.Problem) *httpkit.Problem {
	return s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: s.cfg.MaxBody, Depth: conversation.MaxDepth}, parse)
}

// reply decides a request and writes the response, or returns the problem. A POST reserves its stream first: otherwise a request could take effect although
// its response rejects it. A GET reserves its stream later, because most GETs have nothing to stream.
func (s *Service) reply(w http.ResponseWriter, r *http.Request, of chat, req conversation.Request) *httpkit.Problem {
	counts := s.metrics.newCounts()
	leave := func() {}
	defer func() { leave() }()
	var p *httpkit.Problem
	if req.Post {
		if p := problemOf(s.logic.CheckAgent(req.AgentType)); p != nil {
			return p // not 503: the same request would be refused later too
		}
		if r, leave, p = s.admit(r, of.session); p != nil {
			return p
		}
	}
	plan, state := of.logic.Serve(r.Context(), &req)
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
		if r, leave, p = s.admit(r, of.session); p != nil {
			return p
		}
	}
	return s.serve(w, r, of, plan.Stream, &state, &counts)
}

// admit reserves a stream, or returns the problem. The context of the result ends when the stream must.
func (s *Service) admit(r *http.Request, session chunk.Session) (_ *http.Request, leave func(), p *httpkit.Problem) {
	ctx, exit, ok := s.surface.Streams.Enter(r.Context())
	if !ok {
		return r, func() {}, draining
	}
	release, p := s.shared.Streams.Acquire(r, session)
	if p != nil {
		return r, exit, p
	}
	return r.WithContext(ctx), func() {
		release()
		exit()
	}, nil
}

// serve responds with the message of a plan, or returns the problem.
func (s *Service) serve(
	w http.ResponseWriter, r *http.Request, of chat, plan *conversation.Stream, state *conversation.State, counts *requestCounts,
) *httpkit.Problem {
	defer func() {
		if plan.Ahead != nil { // it was not needed
			plan.Ahead.Drop()
		}
	}()
	turn, p := newResponse(s, of, plan, state).turn(state, counts)
	if p == nil {
		p = s.edge.ServeTurn(w, r, turn)
	}
	if p == streamLost && r.Method == http.MethodGet {
		s.metrics.resumed(streamLost.Label())
		w.WriteHeader(http.StatusNoContent) // the snapshot has the rest of the message
		return nil
	}
	return p
}
