package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

const (
	chatsPath = "/api/chat"
	chatPath  = "/api/chat/{id}"
	aguiPath  = "/api/agui" // the URL of an HttpAgent of AG-UI
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
			to := target{id: id, agentType: q.Get("agentType"), branch: q.Get("branch")}
			var p *httpkit.Problem
			if to.viewName, to.view, p = s.shared.Chat(r.Context(), q.Get("view")); p != nil {
				return p
			}
			return serve(w, r, to)
		}}
	}
	// The response to a POST is the answer of the agent, hence the right to read. The POST may have a message, answers to calls, or both: package conversation
	// checks the right for each when it takes effect, because clients repeat earlier answers in every request.
	post := func(name, path, dialect string) httpkit.Route {
		rt := route(name, http.MethodPost, path, auth.ScopeRead, func(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
			to.dialect = dialect
			return s.post(w, r, to)
		}, posted)
		rt.AnyOf = auth.ScopeChat | auth.ScopeAnswer
		return rt
	}
	stream := func(path string) httpkit.Route {
		rt := route("chat_stream", http.MethodGet, path, auth.ScopeRead, s.get, resumed)
		rt.Stream = true
		return rt
	}
	withdraw := route("chat_withdraw", http.MethodPost, chatPath+"/withdraw", auth.ScopeRead, s.withdraw, nil) // of the client's own messages, or with ScopeStop
	withdraw.AnyOf = auth.ScopeChat | auth.ScopeStop
	command := route("thread_command", http.MethodPost, threadPath+"/commands", auth.ScopeRead, s.threadCommand, nil) // package conversation checks the rights, as for a post
	command.AnyOf = auth.ScopeChat | auth.ScopeAnswer
	return []httpkit.Route{
		command,
		route("thread_events", http.MethodPost, threadPath+"/stream/events", auth.ScopeRead, s.threadEvents, nil),
		route("thread_state", http.MethodGet, threadPath+"/state", auth.ScopeRead, s.threadState, nil),
		route("thread_history", http.MethodPost, threadPath+"/history", auth.ScopeRead, s.threadHistory, nil),
		route("thread_cancel", http.MethodPost, threadPath+"/runs/{run}/cancel", auth.ScopeStop, s.threadCancel, nil),
		post("agui", aguiPath, dialect.AGUI),
		post("chat_post", chatsPath, dialect.AISDK),
		post("chat_post", chatPath, dialect.AISDK),
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
	branch    string     // of a snapshot: the id of a message, "" for the latest branch
	dialect   string     // of a POST
	view      *view.Chat // what the client is shown
	viewName  string
}

// chat is the chat of a request.
type chat struct {
	id      string        // for the response
	session chunk.Session // another one if the client must not know that with the id, see access.Access
	view    *view.Chat
	logic   *conversation.Service // works for the client
	isRun   bool                  // the response has the runs of AG-UI, not a message of the AI SDK
	results []string              // the calls whose answers the client has posted, "" for an approval of AG-UI
}

// chat returns the chat of a request, which starts a session or does not.
func (s *Service) chat(ctx context.Context, to target, starts bool) (chat, *httpkit.Problem) {
	session, caller, err := s.shared.Access.Conversation(ctx, to.id, to.view, starts)
	if err != nil {
		return chat{}, problemOf(s.logic.Failed(ctx, session, "owner", err))
	}
	return chat{id: to.id, session: session, view: to.view, logic: s.logic.As(caller), isRun: to.dialect == dialect.AGUI}, nil
}

// post serves POST /api/chat/{id}, POST /api/chat with the id in the body, and POST /api/agui, whose thread is the session: new messages start a run, answers to calls
// resume it, and the cursor of a client of AG-UI with neither continues a response that was cut.
func (s *Service) post(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	req := conversation.Request{Post: true}
	p := s.readBody(w, r, func(text []byte) (p *httpkit.Problem) {
		req.Request, p = parsers[to.dialect](text, r.Header)
		return p
	})
	if p != nil {
		return p
	}
	if to.id = cmp.Or(to.id, req.SessionID); subjects.CheckID("chat", to.id) != nil {
		return badSession.OfLength(to.id)
	}
	of, p := s.chat(r.Context(), to, to.dialect != dialect.AGUI || len(req.Messages) > 0)
	if p != nil {
		return p
	}
	if req.DroppedMetadata > 0 {
		s.shared.Log.WarnContext(r.Context(), "metadata over the budget dropped", "session", of.session.String(), "messages", req.DroppedMetadata)
	}
	req.Session, req.AgentType, req.Nonce = of.session, cmp.Or(req.AgentType, to.agentType), cmp.Or(req.Nonce, rand.Text())
	if !of.isRun {
		req.OnExecute = s.startPrefetch
	}
	if req.Answered != nil {
		for _, a := range req.Answered.Answers {
			of.results = append(of.results, a.CallID)
		}
	}
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
	return s.reply(w, r, of, conversation.Request{Session: of.session, Request: dialect.Request{AgentType: to.agentType}, Cursor: after})
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
		return noContent(w, of.id, nil)
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
