package chat

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/langgraph"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/projector/fold"
)

// threadPath is the path of a thread of LangChain's Agent Streaming Protocol, which is a session.
const threadPath = "/api/langgraph/threads/{id}"

// threadCommand serves POST …/commands. An error of the command has status 200, as the protocol has it: the client does not repeat it.
func (s *Service) threadCommand(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var c threadCommand
	var failed *commandError
	p := s.readBody(w, r, func(text []byte) *httpkit.Problem {
		c, failed = parseCommand(text)
		return nil
	})
	if p != nil {
		return p
	}
	if failed != nil {
		s.commandFailed(w, c, failed)
		return nil
	}
	of, p := s.chat(r.Context(), to, len(c.request.Messages) > 0)
	if p != nil {
		return p
	}
	req := conversation.Request{Request: c.request, Session: of.session, Post: true}
	req.AgentType, req.Nonce = cmp.Or(req.AgentType, to.agentType), rand.Text()
	if !c.continues && req.Messages == nil && req.Answered == nil {
		return s.threadQuery(w, r, to, of, c)
	}
	before, err := of.logic.Load(r.Context(), of.session, to.agentType)
	if err != nil {
		return problemOf(of.logic.Failed(r.Context(), of.session, "load", err))
	}
	run, through, refusal := serveCommand(r.Context(), of, &req, c.continues, before.MaxSeq)
	if refusal != nil {
		return s.refuseCommand(w, c, refusal)
	}
	s.commandDone(w, c, through, func(o *rawjson.Object) {
		if req.Answered == nil {
			o.String("run_id", run)
		}
	})
	return nil
}

// serveCommand starts a run, continues one that was interrupted, or answers calls. It returns the run, and the last record before it: at most through.
func serveCommand(ctx context.Context, of chat, req *conversation.Request, continues bool, through chunk.Seq) (run string, _ chunk.Seq, refusal *conversation.Refusal) {
	if continues && !httpkit.GrantOf(ctx).Allows(auth.ScopeChat) {
		return "", 0, &conversation.Refusal{Reason: conversation.ReasonForbidden}
	}
	if continues {
		ctx, cancel := context.WithTimeout(ctx, of.logic.RequestTimeout())
		defer cancel()
		run, refusal = of.logic.Resume(ctx, conversation.ResumeRequest{Session: of.session})
		return run, through, refusal
	}
	plan, state := of.logic.Serve(ctx, req)
	if plan.Refusal != nil || plan.Stream == nil {
		return "", 0, plan.Refusal
	}
	if len(plan.Stream.Rejected) > 0 {
		return "", 0, &conversation.Refusal{Reason: conversation.ReasonUnknownCall}
	}
	if run = plan.Stream.Run; run == "" { // it was sent before
		run, through = state.TurnRun.ID, min(through, max(state.TurnStart.Seq, 1)-1)
	}
	return run, through, nil
}

// refuseCommand responds with the error of a command, or returns the problem of a request that is refused as such.
func (s *Service) refuseCommand(w http.ResponseWriter, c threadCommand, refusal *conversation.Refusal) *httpkit.Problem {
	p, code := problemOf(refusal), "invalid_argument"
	switch refusal.Reason {
	case conversation.ReasonNothingAsked, conversation.ReasonUnknownCall, conversation.ReasonAnswered, conversation.ReasonExpired, conversation.ReasonStillRunning:
		code = "no_such_interrupt"
	default:
		if p.Status != http.StatusBadRequest && p.Status != http.StatusConflict && p.Status != http.StatusRequestEntityTooLarge {
			return p
		}
	}
	s.commandFailed(w, c, &commandError{code, p.Title})
	return nil
}

func (s *Service) commandFailed(w http.ResponseWriter, c threadCommand, e *commandError) {
	o := rawjson.Begin(nil)
	o.String("type", "error")
	o.Raw("id", c.id)
	o.String("error", e.code)
	o.String("message", e.text)
	s.respondThread(w, o.End())
}

// commandDone responds with the result of a command. through is the last record before its effect.
func (s *Service) commandDone(w http.ResponseWriter, c threadCommand, through chunk.Seq, result func(o *rawjson.Object)) {
	o := rawjson.Begin(nil)
	o.String("type", "success")
	o.Raw("id", c.id)
	o.Nest("result")
	result(&o)
	o.Close()
	o.Nest("meta")
	o.Number("applied_through_seq", int64(through))
	o.Close()
	s.respondThread(w, o.End())
}

func (s *Service) respondThread(w http.ResponseWriter, text []byte) {
	w.Header().Set("Cache-Control", "no-store")
	s.respond.JSONText(w, http.StatusOK, text)
}

// threadEvents serves POST …/stream/events: the events of the last turn from its start, or those from a record on, and then those of all later turns. The response
// stays open also for a thread that does not exist yet.
func (s *Service) threadEvents(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var b struct {
		Channels   []string   `json:"channels"`
		Namespaces [][]string `json:"namespaces"`
		Depth      *int       `json:"depth"`
		Since      chunk.Seq  `json:"since"`
	}
	p := s.readBody(w, r, httpkit.Into(&b, "the body is not an object with channels, namespaces, depth and since"))
	if p == nil && (b.Channels == nil || len(b.Channels)+len(b.Namespaces) > maxThreadItems || b.Depth != nil && *b.Depth < 0) {
		p = httpkit.Invalid("want channels, at most 1000 of them and of namespaces, and a depth that is not negative")
	}
	if p != nil {
		return p
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	r, leave, p := s.admit(r, of.session)
	if p != nil {
		return p
	}
	defer leave()
	state, err := of.logic.Load(r.Context(), of.session, to.agentType)
	if err != nil {
		return problemOf(of.logic.Failed(r.Context(), of.session, "load", err))
	}
	t := httpedge.Turn{
		Session: of.session, Dialect: dialect.LangGraph, View: of.view, Waits: true, Open: true,
		LangGraph: langgraph.WriterConfig{Channels: b.Channels, Namespaces: b.Namespaces, Depth: b.Depth, HasState: true}, Present: state.Position,
	}
	if !httpkit.GrantOf(r.Context()).AllowsSession(of.id, "") { // another user may start the session, or start it again after its deletion
		t.Begun = func(ctx context.Context, _ chunk.Record, _ chunk.RunStarted) (string, []string, error) {
			state, err := of.logic.Load(ctx, of.session, to.agentType)
			if err == nil && !state.Known {
				err = chunk.ErrUnknownSession
			}
			return "", nil, err
		}
	}
	switch {
	case !state.Known:
	case state.TurnStart.Seq == 0:
		t.After = state.Position
	case b.Since == 0, b.Since == state.TurnStart.Seq, b.Since > state.MaxSeq:
		t.After, t.Whole = state.TurnStart, true
	default:
		t.After.Seq, t.Continues = b.Since-1, true // the client may not have all events of the record
	}
	return s.edge.ServeTurn(w, r, t)
}

// threadState serves GET …/state.
func (s *Service) threadState(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	_, text, p := s.loadThread(r.Context(), to, of)
	if p == nil {
		s.respondThread(w, text)
	}
	return p
}

// threadHistory serves POST …/history: the present state, of the thread or of a sub-agent whose namespace is in the checkpoint of the request.
func (s *Service) threadHistory(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var b struct {
		Checkpoint struct {
			Namespace string `json:"checkpoint_ns"`
		} `json:"checkpoint"`
	}
	if p := s.readBody(w, r, httpkit.Into(&b, "the body is not an object with limit and checkpoint")); p != nil {
		return p
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	list, text, p := s.loadThread(r.Context(), to, of)
	namespace := strings.FieldsFunc(b.Checkpoint.Namespace, func(c rune) bool { return c == '|' || c == 0 })
	if p == nil && len(namespace) > 0 {
		text, p = s.loadAgent(r.Context(), of, list, namespace)
	}
	if p != nil {
		return p
	}
	s.respondThread(w, append(append([]byte{'['}, text...), ']'))
	return nil
}

// loadThread returns the messages of a thread, and its state.
func (s *Service) loadThread(ctx context.Context, to target, of chat) (list []fold.Message, text []byte, p *httpkit.Problem) {
	if p = problemOf(of.logic.CheckAgent(to.agentType)); p != nil {
		return nil, nil, p
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	state, snap, err := of.logic.LoadPage(ctx, of.session, to.agentType)
	switch {
	case err != nil:
		return nil, nil, problemOf(of.logic.Failed(ctx, of.session, "state", err))
	case !state.Known && state.Waiting() == nil:
		return nil, nil, noChat
	}
	t := langgraph.State{Content: of.view.Snapshot(snap.Content(false)), Thread: of.id}
	if state.InFlight() || len(t.Pending) > 0 || state.SubAgentAwaitsUser() {
		t.AgentType = state.AgentType
	}
	hides := of.view.Hidden()
	for _, b := range state.Branches {
		for _, c := range b.PendingCalls {
			if b.Session == of.session || c.Kind == control.SubagentResult || c.Answer != nil || hides.SubAgentCalls {
				continue
			}
			wait := fold.PendingCall{CallID: c.UICallID, ApprovalID: c.Approval, ToolName: c.ToolName}
			if !hides.Inputs {
				wait.Input = c.Input
			}
			t.Pending = append(t.Pending, wait)
		}
	}
	return of.view.Snapshot(snap.Content(true)).Messages, langgraph.AppendState(nil, t), nil
}

// loadAgent returns the state of the sub-agent with a namespace, nil if there is none.
func (s *Service) loadAgent(ctx context.Context, of chat, list []fold.Message, namespace []string) ([]byte, *httpkit.Problem) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	var snap fold.Snapshot
	for _, segment := range namespace {
		session := ""
		for i := range list {
			for _, child := range list[i].Children {
				if child.Type+":"+dialect.CallID(snap.Session.ID, child.CallID) == segment {
					session = child.Session
				}
			}
		}
		if session == "" || of.view.Hidden().SubAgents {
			return nil, nil
		}
		var err error
		if snap, err = of.logic.Snapshots().Snapshot(ctx, of.session.Child(session)); err != nil {
			return nil, problemOf(of.logic.Failed(ctx, of.session, "state of a sub-agent", err))
		}
		list = snap.Messages(0)
	}
	return langgraph.AppendState(nil, langgraph.State{Content: of.view.Snapshot(snap.Content(true)), Thread: of.id, Namespace: namespace}), nil
}

// threadQuery responds to a command that only reads.
func (s *Service) threadQuery(w http.ResponseWriter, r *http.Request, to target, of chat, c threadCommand) *httpkit.Problem {
	list, text, p := s.loadThread(r.Context(), to, of)
	if p != nil {
		return p
	}
	id := rawjson.Get(text, "checkpoint", "checkpoint_id")
	s.commandDone(w, c, 0, func(o *rawjson.Object) {
		switch c.method {
		case "state.get":
			o.Raw("values", rawjson.Get(text, "values"))
			o.Nest("checkpoint")
			o.Raw("id", id)
			o.Close()
		case "state.listCheckpoints":
			o.List("checkpoints", 1, func(dst []byte, _ int) []byte {
				at := rawjson.Begin(dst)
				at.Raw("id", id)
				at.Raw("timestamp", rawjson.Get(text, "created_at"))
				at.Raw("step", rawjson.Get(text, "metadata", "step"))
				return at.End()
			})
		default:
			appendTree(o, list, rawjson.Get(text, "next"))
		}
	})
	return nil
}

// appendTree appends an agent and its sub-agents according to its messages, without those of sub-agents. next has its type if it runs or waits.
func appendTree(o *rawjson.Object, list []fold.Message, next chunk.Value) {
	var children []fold.Child
	for i := range list {
		children = append(children, list[i].Children...)
	}
	status, agentType := "completed", chunk.Value(`""`)
	for agentType = range rawjson.Elements(next) {
		status = "running"
	}
	o.Nest("tree")
	o.Raw("namespace", []byte(`[]`))
	o.String("status", status)
	o.Raw("graph_name", agentType)
	o.List("children", len(children), func(dst []byte, i int) []byte {
		c := rawjson.Begin(dst)
		c.List("namespace", 1, func(dst []byte, _ int) []byte {
			return rawjson.AppendQuoted(dst, children[i].Type+":"+children[i].CallID)
		})
		c.String("status", map[fold.ChildStatus]string{fold.ChildRunning: "running", fold.ChildEnded: "completed", fold.ChildFailed: "failed"}[children[i].Status])
		c.String("graph_name", children[i].Type)
		return c.End()
	})
	o.Close()
}

// threadCancel serves POST …/runs/{run}/cancel: 202, and the run ends at its next step. A run that is over, and another one, is not stopped.
func (s *Service) threadCancel(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	of, state, p := s.load(r.Context(), to)
	if p != nil {
		return p
	}
	run := r.PathValue("run")
	isOf := func(past fold.Run) bool { return past.ID == run && past.StartSeq >= state.TurnStart.Seq }
	if state.InFlight() && (run == state.Run.ID || run == state.Awaited() || slices.ContainsFunc(state.Past, isOf)) {
		if _, refusal := of.logic.StopAnswer(r.Context(), of.session, to.agentType, r.URL.Query().Get("reason")); refusal != nil {
			return problemOf(refusal)
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
