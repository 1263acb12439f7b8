package agentserver

import (
	"net/http"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/projector/fold"
)

// report is the response to GET /status.
type report struct {
	SessionID          string             `json:"sessionId"`
	RunID              string             `json:"runId"`
	Status             conversation.Phase `json:"status"`
	Output             chunk.Value        `json:"output,omitempty"` // of a completed run
	Error              *failure           `json:"error,omitempty"`  // of a failed one
	Suspended          *suspended         `json:"suspended,omitempty"`
	PendingToolCallIDs []string           `json:"pendingToolCallIds,omitempty"`
	StreamStatus       fold.Status        `json:"streamStatus"`
	LatestSequence     chunk.Seq          `json:"latestSequence"`
}

type failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// suspended lists the pending calls of a run: calls to answer with /submit-tool-result, and sub-agents.
type suspended struct {
	ToolCallIDs []string `json:"toolCallIds,omitempty"`
	Children    []child  `json:"children,omitempty"`
}

type child struct {
	SessionID string `json:"sessionId"`
	AgentType string `json:"agentType"`
	CallID    string `json:"callId"`
}

// status serves GET /status, from which a parent that has lost its stream gets the result of the session.
func (s *Server) status(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	of, p := s.delegation(r, r.URL.Query().Get("sessionId"), false)
	if p != nil {
		return p
	}
	ctx, cancel := s.withRequestTimeout(r.Context())
	defer cancel()
	st, refusal := of.logic.Status(ctx, of.session)
	if refusal != nil {
		return problemOf(refusal)
	}
	w.Header().Set("X-Session-Id", of.id)
	s.respond.JSON(w, http.StatusOK, reportOf(of.id, st))
	return nil
}

func reportOf(id string, st conversation.Status) report {
	rep := report{SessionID: id, RunID: st.RunID, Status: st.Phase, Output: st.Output, StreamStatus: st.StreamStatus, LatestSequence: st.Sequence}
	switch st.Phase {
	case conversation.PhaseFailed:
		rep.Error = failureOf(st.Failure)
	case conversation.PhaseClient, conversation.PhaseChildren:
		rep.Suspended = &suspended{ToolCallIDs: st.Open.CallIDs}
		for _, c := range st.Open.Children {
			rep.Suspended.Children = append(rep.Suspended.Children, child{c.Session, c.AgentType, c.CallID})
		}
		rep.PendingToolCallIDs = st.Open.CallIDs
	case conversation.PhaseRunning, conversation.PhaseCompleted, conversation.PhaseInterrupted:
	}
	return rep
}

func failureOf(from *fold.Failure) *failure {
	f := &failure{Message: "the run failed"}
	if from == nil {
		return f
	}
	f.Message = from.Message
	if d := from.Detail; d != nil && d.Code != nil {
		f.Code = *d.Code
	}
	return f
}
