package agentserver

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// stopRequest is the body of POST /interrupt and POST /abort.
type stopRequest struct {
	SessionID string `json:"sessionId"`
	Reason    string `json:"reason"`
}

// stopping is the response: the run for which the stop request is stored.
type stopping struct {
	SessionID string `json:"sessionId"`
	RunID     string `json:"runId"`
}

func (s *Server) interrupt(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	return s.stop(w, r, control.StopInterrupt)
}

func (s *Server) abort(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	return s.stop(w, r, control.StopAbort)
}

// stop serves both. 202: the stop request is stored and will take effect also if the worker fails. /status and /sse report when it has taken effect.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, kind control.StopKind) *httpkit.Problem {
	var b stopRequest
	if p := s.read(w, r, &b); p != nil {
		return p
	}
	of, p := s.delegation(r, b.SessionID, false)
	if p != nil {
		return p
	}
	ctx, cancel := s.withRequestTimeout(r.Context())
	defer cancel()
	run, refusal := of.logic.Stop(ctx, of.session, kind, b.Reason)
	if refusal != nil {
		return problemOf(refusal)
	}
	w.Header().Set("X-Session-Id", of.id)
	s.respond.JSON(w, http.StatusAccepted, stopping{of.id, run})
	return nil
}
