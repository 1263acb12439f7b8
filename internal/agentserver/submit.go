package agentserver

import (
	"net/http"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// submission is the response to /submit-tool-result.
type submission struct {
	Status submitStatus          `json:"status"`
	Reason string                `json:"reason,omitempty"` // of a rejected one, docs/protocol/chat.md#helix-6.7
	First  *conversation.Outcome `json:"first,omitempty"`  // the answer that was stored first
}

type submitStatus string

const (
	accepted         submitStatus = "accepted"
	alreadyCompleted submitStatus = "already_completed"
	rejected         submitStatus = "rejected"
)

// submit serves POST /submit-tool-result. The first answer to a call is stored; the responses to later ones contain it, CS-16. An answer to another kind of
// call, or to another approval, is refused, CS-14.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	var of delegation
	var answer control.Answer
	p := s.shared.Bodies.JSON(w, r, httpkit.JSONLimits{Bytes: s.cfg.MaxBody}, func(text []byte) (p *httpkit.Problem) {
		var b struct {
			SessionID string `json:"sessionId"`
		}
		if p := httpkit.Into(&b, wrongBody)(text); p != nil {
			return p
		}
		if of, p = s.delegation(r, b.SessionID, false); p != nil {
			return p
		}
		if rawjson.Deeper(text, conversation.MaxDepth) {
			return httpkit.BodyTooDeep
		}
		var refusal *conversation.Refusal
		answer, refusal = conversation.ParseAnswer(text)
		return problemOf(refusal)
	})
	if p != nil {
		return p
	}
	result, p := resultOf(of.logic.Answer(r.Context(), of.session, "", answer))
	if p != nil {
		return p
	}
	w.Header().Set("X-Session-Id", of.id)
	s.respond.JSON(w, http.StatusOK, result)
	return nil
}

func resultOf(r *conversation.Refusal) (submission, *httpkit.Problem) {
	switch {
	case r == nil:
		return submission{Status: accepted}, nil
	case r.Reason == conversation.ReasonAnswered:
		return submission{Status: alreadyCompleted, First: conversation.NewOutcome(*r.First)}, nil
	case r.Reason == conversation.ReasonExpired:
		return submission{Status: rejected, Reason: "expired", First: conversation.NewOutcome(*r.First)}, nil
	case r.Reason == conversation.ReasonLost:
		return submission{}, streamLost // an answer needs the records of its call, which do not come back: 503 would invite retries
	}
	return submission{}, problemOf(r)
}
