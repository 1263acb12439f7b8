package agentserver

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// resumeRequest is the body of POST /resume.
type resumeRequest struct {
	SessionID string         `json:"sessionId"`
	Message   jsontext.Value `json:"message"`
}

// resume serves POST /resume: it continues a run that was interrupted, with a message or without, or one that has all its answers and was not resumed yet. A run
// that is in progress, or waits for answers, is returned as it is; but not if there is a message, which would be lost.
func (s *Server) resume(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	var b resumeRequest
	if p := s.read(w, r, &b); p != nil {
		return p
	}
	of, p := s.delegation(r, b.SessionID, false)
	if p != nil {
		return p
	}
	req, p := s.resumeRequest(b)
	if p != nil {
		return p
	}
	req.Session = of.session
	return s.begin(w, r, of.id, func(ctx context.Context) (string, *conversation.Refusal) { return of.logic.Resume(ctx, req) })
}

func (s *Server) resumeRequest(b resumeRequest) (req conversation.ResumeRequest, p *httpkit.Problem) {
	if isNull(b.Message) {
		return req, nil
	}
	if req.Input, p = s.readMessage(b.Message); p != nil {
		return req, p
	}
	var refusal *conversation.Refusal
	if req.Key, refusal = conversation.ResumeKey(req.Input); refusal != nil {
		return req, problemOf(refusal)
	}
	return req, s.addMetadata(req.Input, nil)
}
