package agentserver

import (
	"bytes"
	"io"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
)

// submission is what an answer to /submit-tool-result says.
type submission struct {
	Status submitStatus   `json:"status"`
	Reason string         `json:"reason,omitempty"` // of a rejected one, spec/helix.md section 6.7
	First  jsontext.Value `json:"first,omitempty"`  // the answer that counts instead
}

type submitStatus string

const (
	accepted         submitStatus = "accepted"
	alreadyCompleted submitStatus = "already_completed"
	rejected         submitStatus = "rejected"
)

// submit serves POST /submit-tool-result. The chats judge and store the answer, and
// see to it that the run goes on. Of any number of answers the first counts; the
// others are told so, CS-16. One to another kind of call, or another approval, is
// refused, CS-14.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) {
	var session chunk.Session
	var said submission
	p := s.body(w, r, func(text []byte) (p *problem) {
		var b struct {
			SessionID string `json:"sessionId"`
		}
		if err := json.Unmarshal(text, &b, reading); err != nil {
			return invalid("the body is not what this path takes")
		}
		if session, p = s.session(b.SessionID); p != nil {
			return p
		}
		said, p = verdict(s.askChats(r, session.ID, text))
		return p
	})
	if p != nil {
		s.refuse(w, p)
		return
	}
	w.Header().Set("X-Session-Id", session.ID)
	s.writeJSON(w, http.StatusOK, said)
}

// askChats hands an answer on. Of the request only its life goes with it.
func (s *Server) askChats(r *http.Request, session string, body []byte) *reply {
	to := &reply{header: make(http.Header), status: http.StatusOK}
	ask := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: "/api/chat/" + session + "/answers"},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Host: r.Host,
	}).WithContext(r.Context())
	s.cfg.Answers.ServeHTTP(to, ask)
	return to
}

// verdict puts what the chats said into the words of this surface.
func verdict(said *reply) (submission, *problem) {
	if said.status == http.StatusNoContent {
		return submission{Status: accepted}, nil
	}
	var refusal struct {
		Text  string         `json:"error"`
		Code  string         `json:"code"`
		First jsontext.Value `json:"first"`
	}
	if err := json.Unmarshal(said.body.Bytes(), &refusal, reading); err != nil || refusal.Code == "" {
		return submission{}, internal
	}
	switch refusal.Code {
	case "ALREADY_ANSWERED":
		return submission{Status: alreadyCompleted, First: refusal.First}, nil
	case "CALL_EXPIRED":
		return submission{Status: rejected, Reason: "expired", First: refusal.First}, nil
	case "CALL_NOT_FOUND":
		refusal.Code = codeNotFound
	}
	return submission{}, &problem{said.status, refusal.Text, refusal.Code}
}

// reply is an answer that is kept.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *reply) Header() http.Header         { return r.header }
func (r *reply) WriteHeader(status int)      { r.status = status }
func (r *reply) Write(b []byte) (int, error) { return r.body.Write(b) }
