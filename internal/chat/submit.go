package chat

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// answers serves POST /api/chat/{id}/answers: one answer, for clients that do not post whole messages. 204: it is stored, and the run continues if it was the
// last one that the run waits for. If another answer was first the response is 409 with that answer, also if both are equal.
func (s *Service) answers(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var answer control.Answer
	p := s.readBody(w, r, func(text []byte) *httpkit.Problem {
		var refusal *conversation.Refusal
		answer, refusal = conversation.ParseAnswer(text)
		return problemOf(refusal)
	})
	if p != nil {
		return p
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	return noContent(w, to.id, of.logic.Answer(r.Context(), of.session, to.agentType, answer))
}

// noContent responds with 204, or returns the problem of a refusal.
func noContent(w http.ResponseWriter, id string, r *conversation.Refusal) *httpkit.Problem {
	if r != nil {
		return problemOf(r)
	}
	w.Header().Set("X-Session-Id", id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stop serves POST /api/chat/{id}/stop, whose body may be empty: the answer in flight ends at its next step. 202 with the run, or 204 when there is none. A closed
// connection is not a stop request.
func (s *Service) stop(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var b struct {
		Reason string `json:"reason"`
	}
	if hasBody(r) {
		if p := s.readBody(w, r, httpkit.Into(&b, "the body is not an object with a reason")); p != nil {
			return p
		}
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	run, refusal := of.logic.StopAnswer(r.Context(), of.session, to.agentType, b.Reason)
	if run == "" || refusal != nil {
		return noContent(w, to.id, refusal)
	}
	w.Header().Set("X-Session-Id", to.id)
	s.respond.JSON(w, http.StatusAccepted, map[string]string{"runId": run})
	return nil
}

// hasBody reports whether the body of a request is not empty: a proxy may convert an empty body to one of unknown length.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	body := bufio.NewReader(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	_, err := body.Peek(1)
	return !errors.Is(err, io.EOF)
}
