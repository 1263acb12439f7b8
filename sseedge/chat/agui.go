package chat

import (
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/agui"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
)

// aguiPath is the URL of an HttpAgent of AG-UI.
const aguiPath = "/api/agui"

// agui serves POST /api/agui, a RunAgentInput: new messages start a run, results of the client's tools and answers to interrupts resume it, and a cursor without
// either continues a response that was cut. The thread is the session, and the response has the events of the run.
func (s *Service) agui(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var in agui.RunInput
	p := s.readBody(w, r, func(text []byte) *httpkit.Problem {
		var err error
		in, err = agui.ParseRunInput(text)
		return invalid(err)
	})
	if p != nil {
		return p
	}
	if to.id = in.ThreadID; subjects.CheckID("threadId", to.id) != nil {
		return badSession
	}
	of, p := s.chat(r.Context(), to, len(in.Messages) > 0)
	if p != nil {
		return p
	}
	of.run = &in
	req, p := s.runRequest(r, of, to)
	if p != nil {
		return p
	}
	cursor, ok, p := readCursor(r.Header)
	if p != nil {
		return p
	}
	if !ok {
		cursor, ok = in.Cursor, in.Cursor.Seq > 0
	}
	if !ok || len(req.Turn) > 0 || req.Answered != nil {
		return s.reply(w, r, of, req)
	}
	r, leave, p := s.admit(r, of.session)
	if p != nil {
		return p
	}
	defer leave()
	w.Header().Set("X-Session-Id", of.id)
	return s.edge.ServeTurn(w, r, sseedge.Turn{
		Session: of.session, View: of.view, Dialect: dialect.AGUI, After: chunk.Position{Seq: cursor.Seq}, Anchor: cursor.Anchor, Continues: true,
	})
}

// runRequest returns the request that an input is.
func (s *Service) runRequest(r *http.Request, of chat, to target) (req conversation.Request, p *httpkit.Problem) {
	in := *of.run
	req = conversation.Request{Session: of.session, AgentType: to.agentType, Post: true, Trigger: conversation.Submit, Nonce: in.RunID}
	req.Turn = turnInput(in.Messages)
	if n := len(req.Turn); n > 0 {
		s.addContext(r, &req.Turn[n-1].Message, in)
	}
	if len(in.Results)+len(in.Resume) > 0 {
		state, err := of.logic.Load(r.Context(), of.session, to.agentType)
		if err != nil {
			return req, problemOf(s.logic.Failed(r.Context(), of.session, "look", err))
		}
		if answers := answersOf(&state, in); len(answers) > 0 {
			req.Answered = &conversation.AssistantMessage{ID: state.Answer, Answers: answers}
		}
	}
	return req, nil
}

// answersOf returns the answers to the calls that wait for the client. Others were given before: a client sends the results of all its calls again.
func answersOf(state *conversation.State, in agui.RunInput) (answers []conversation.SubmittedAnswer) {
	for _, branch := range state.Branches {
		for _, call := range branch.PendingCalls {
			if a, ok := answerTo(&call, in); ok {
				a.Kind, a.CallID, a.ToolName = call.Kind, call.UICallID, call.ToolName
				answers = append(answers, a)
			}
		}
	}
	return answers
}

func answerTo(call *conversation.PendingCall, in agui.RunInput) (a conversation.SubmittedAnswer, ok bool) {
	switch call.Kind {
	case control.ClientResult:
		for _, r := range in.Results {
			if r.CallID == call.UICallID {
				a.Result, a.Error, ok = r.Result, r.Error, true
			}
		}
	case control.Approval:
		for _, r := range in.Resume {
			if r.InterruptID == call.Approval {
				a.ApprovalID = call.Approval
				a.Approved, a.Reason, ok = r.Approval()
			}
		}
	}
	return a, ok
}

// addContext adds what an agent of AG-UI gets besides the messages to the metadata of the last one. It is left out if it is too large, as the metadata of a chat
// is.
func (s *Service) addContext(r *http.Request, m *chunk.InputMessage, in agui.RunInput) {
	o := rawjson.Begin(nil)
	if m.Metadata != nil {
		for name, value := range rawjson.Members(*m.Metadata) {
			if !name.Is(agui.ContextMember) {
				o.Raw(string(name.Content()), value)
			}
		}
	}
	o.Nest(agui.ContextMember)
	o.String("runId", in.RunID)
	o.Text("parentRunId", in.ParentRunID)
	o.List("tools", len(in.Tools), func(dst []byte, i int) []byte {
		t := rawjson.Begin(dst)
		t.String("name", in.Tools[i].Name)
		t.Text("description", in.Tools[i].Description)
		t.Raw("parameters", in.Tools[i].Parameters)
		return t.End()
	})
	o.List("context", len(in.Context), func(dst []byte, i int) []byte {
		c := rawjson.Begin(dst)
		c.String("description", in.Context[i].Description)
		c.String("value", in.Context[i].Value)
		return c.End()
	})
	o.Raw("state", in.State)
	o.Raw("forwardedProps", in.ForwardedProps)
	o.Close()
	value := chunk.Value(o.End())
	if len(value) > aisdk.MaxInputMetadata {
		s.shared.Log.WarnContext(r.Context(), "context of a run over the budget dropped", "bytes", len(value))
		return
	}
	m.Metadata = &value
}
