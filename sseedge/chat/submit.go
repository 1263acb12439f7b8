package chat

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// answers serves POST /api/chat/{id}/answers: one answer, for clients that do not post whole messages. 204: it is stored, and the run continues if it was the
// last one that the run waits for. If another answer was first the response is 409 with that answer, also if both are equal.
func (s *Service) answers(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	if p := s.submit(w, r, to); p != nil {
		return p
	}
	w.Header().Set("X-Session-Id", to.id)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Service) submit(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	var c conversation.SubmittedAnswer
	p := s.readBody(w, r, func(text []byte) (p *httpkit.Problem) {
		var refusal *conversation.Refusal
		c, refusal = conversation.ParseAnswer(text)
		return problemOf(refusal)
	})
	if p != nil {
		return p
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return p
	}
	return problemOf(of.logic.Answer(r.Context(), of.session, to.agentType, c))
}

// stopRequest is the body of POST /api/chat/{id}/stop. Without a body it is empty.
type stopRequest struct {
	Reason string `json:"reason"`
}

// stop serves POST /api/chat/{id}/stop: the answer in flight ends at its next step. 202 with the run, or 204 when there is none. A closed connection is not a
// stop request.
func (s *Service) stop(w http.ResponseWriter, r *http.Request, to target) *httpkit.Problem {
	run, p := s.interrupt(w, r, to)
	if p != nil {
		return p
	}
	w.Header().Set("X-Session-Id", to.id)
	if run == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	s.respond.JSON(w, http.StatusAccepted, map[string]string{"runId": run})
	return nil
}

func (s *Service) interrupt(w http.ResponseWriter, r *http.Request, to target) (run string, p *httpkit.Problem) {
	var b stopRequest
	if hasBody(r) {
		if p := s.readBody(w, r, httpkit.Into(&b, "the body is not an object with a reason")); p != nil {
			return "", p
		}
	}
	of, p := s.chat(r.Context(), to, false)
	if p != nil {
		return "", p
	}
	run, refusal := of.logic.StopAnswer(r.Context(), of.session, to.agentType, b.Reason)
	return run, problemOf(refusal)
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
