package chat

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

const forkPath = "/v1/sessions/{id}/fork"

// forkBody is the body of a fork, see conversation.ForkRequest.
type forkBody struct {
	Session    string         `json:"session"`
	At         string         `json:"at"`
	Before     string         `json:"before"`
	Checkpoint string         `json:"checkpoint"`
	State      string         `json:"state"`
	AgentType  string         `json:"agentType"`
	Params     jsontext.Value `json:"params"`
	Edits      []forkEdit     `json:"edits"`
	StatePatch jsontext.Value `json:"statePatch"`
	Message    jsontext.Value `json:"message"`
	Continue   bool           `json:"continue"`
}

type forkEdit struct {
	CallID   string         `json:"callId"`
	Output   jsontext.Value `json:"output"`
	Error    *string        `json:"error"`
	Approved *bool          `json:"approved"`
}

// forkRoutes returns the route of forks.
func (s *Service) forkRoutes() []httpkit.Route {
	return []httpkit.Route{{
		Name: "fork", Method: http.MethodPost, Path: forkPath, Scope: auth.ScopeFork | auth.ScopeRead | auth.ScopeChat, Serve: s.fork,
	}}
}

// fork serves POST /v1/sessions/{id}/fork: a new session that continues this one from a point.
func (s *Service) fork(w http.ResponseWriter, r *http.Request, id string) *httpkit.Problem {
	g := httpkit.GrantOf(r.Context())
	if name, ok := access.View(g, s.shared.Views, ""); !ok || name != "" {
		return forkForbidden // the fork would show what the view hides
	}
	var req conversation.ForkRequest
	p := s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: s.cfg.MaxBody, Depth: conversation.MaxDepth}, func(text []byte) (p *httpkit.Problem) {
		req, p = readFork(text)
		return p
	})
	if p != nil {
		return p
	}
	if !g.Allows(auth.ScopeAnswer) && slices.ContainsFunc(req.Edits, func(e fold.Edit) bool { return e.Approved != nil }) {
		return httpkit.Forbidden
	}
	var err error
	if req.Origin, err = s.shared.Access.Session(r.Context(), id, id); err != nil {
		return forkProblem(s.logic.Failed(r.Context(), req.Origin, "owner", err))
	}
	by := s.logic.As(conversation.Caller{By: httpkit.PrincipalOf(g)})
	target := by.ForkTarget(req)
	if subjects.CheckID("session", target.ID) != nil {
		return httpkit.Invalid("session: want 1 to 64 characters of a URI")
	}
	if !g.AllowsSession(target.ID, g.Subject) {
		return forkForbidden // the client may not start a session with this id, whatever exists
	}
	_, caller, err := s.shared.Access.Conversation(r.Context(), target.ID, nil, true)
	if err != nil {
		return forkProblem(s.logic.Failed(r.Context(), target, "owner", err))
	}
	forked, refused := s.logic.As(caller).Fork(r.Context(), req)
	if refused != nil {
		return forkProblem(refused)
	}
	w.Header().Set("Cache-Control", "no-store")
	s.forks.JSON(w, http.StatusCreated, forked)
	return nil
}

func readFork(text []byte) (conversation.ForkRequest, *httpkit.Problem) {
	var b forkBody
	if p := httpkit.IntoExactly(&b, "the body is not a fork")(text); p != nil {
		return conversation.ForkRequest{}, p
	}
	req := conversation.ForkRequest{
		Session: b.Session, At: b.At, Before: b.Before, Checkpoint: b.Checkpoint, State: b.State, AgentType: b.AgentType, Params: chunk.Value(b.Params), Continue: b.Continue,
	}
	for _, e := range b.Edits {
		req.Edits = append(req.Edits, fold.Edit{CallID: e.CallID, Output: chunk.Value(e.Output), Error: e.Error, Approved: e.Approved})
	}
	if b.StatePatch != nil {
		patch, err := decodeAs[chunk.StatePatch]("patches", b.StatePatch)
		if err != nil {
			return req, httpkit.Invalid("statePatch: " + err.Error())
		}
		req.StatePatch = patch.Patches
	}
	if b.Message != nil {
		started, err := decodeAs[chunk.RunStarted]("input", slices.Concat([]byte("["), b.Message, []byte("]")))
		if err != nil || len(started.Input) != 1 {
			return req, httpkit.Invalid("message: want an object with content")
		}
		started.Input[0].Extra = nil
		req.Message = &started.Input[0]
	}
	return req, nil
}

// decodeAs reads a member of a chunk.
func decodeAs[T chunk.Body](member string, value jsontext.Value) (body T, err error) {
	text, err := json.Marshal(map[string]any{
		"type": chunk.Chunk{Body: body}.Type(), "agentId": "a", "agentType": "", "timestamp": 0, member: value, "runId": "r", "epoch": 1, "mode": "execute",
	})
	if err != nil {
		return body, err
	}
	c, err := chunk.DecodeUnstored(bytes.TrimSpace(text))
	if err == nil {
		body, _ = chunk.As[T](c)
	}
	return body, err
}

// The codes of forks, in addition to those of httpkit.
const (
	codeNoStream      = "STREAM_NOT_FOUND"
	codeForkTooLarge  = "FORK_TOO_LARGE"
	codeExists        = "SESSION_EXISTS"
	codeNoTurn        = "NO_OPEN_TURN"
	codeExpired       = "HISTORY_EXPIRED"
	codeUnknownEdit   = "UNKNOWN_CALL"
	codeChangedFork   = "FORK_CONTINUED"
	codeForkForbidden = "FORBIDDEN"
)

var forkForbidden = httpkit.NewProblem(http.StatusForbidden, codeForkForbidden, "the credential may not fork this session", "a fork needs a grant without a view, and an id of a session that the grant covers")

// forkProblems have the text of the refusal as their title.
var forkProblems = map[conversation.Reason]*httpkit.Problem{
	conversation.ReasonNoSession:   httpkit.NewProblem(http.StatusNotFound, codeNoStream, "", ""),
	conversation.ReasonNoMessage:   httpkit.NewProblem(http.StatusNotFound, httpkit.CodeNotFound, "", ""),
	conversation.ReasonTooLarge:    httpkit.NewProblem(http.StatusRequestEntityTooLarge, codeForkTooLarge, "", ""),
	conversation.ReasonExists:      httpkit.NewProblem(http.StatusConflict, codeExists, "", ""),
	conversation.ReasonNoTurn:      httpkit.NewProblem(http.StatusConflict, codeNoTurn, "", ""),
	conversation.ReasonChanged:     httpkit.NewProblem(http.StatusConflict, codeChangedFork, "", ""),
	conversation.ReasonLost:        httpkit.NewProblem(http.StatusGone, codeExpired, "", ""),
	conversation.ReasonUnavailable: httpkit.NewProblem(http.StatusServiceUnavailable, httpkit.CodeUnavailable, "", ""),
}

// forkProblem returns the problem of a refused fork.
func forkProblem(r *conversation.Refusal) *httpkit.Problem {
	if r.Reason == conversation.ReasonUnknownCall {
		return httpkit.NewProblem(http.StatusUnprocessableEntity, codeUnknownEdit, "there is no such call, or it cannot have this outcome", "edits")
	}
	if p, ok := forkProblems[r.Reason]; ok && r.Text != "" {
		q := *p
		q.Title = r.Text
		return &q
	}
	return problemOf(r)
}
