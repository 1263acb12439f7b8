package agentserver

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/rawjson"
	"github.com/tailrace/tailrace/subjects"
)

// startRequest is the body of POST /start.
type startRequest struct {
	SessionID string            `json:"sessionId"`
	AgentType string            `json:"agentType"`
	Message   jsontext.Value    `json:"message"`
	State     jsontext.Value    `json:"state"`    // an object: what the agent gets as Params
	Metadata  map[string]string `json:"metadata"` // of messages without their own metadata
}

// startResponse is the response to /start and /resume.
type startResponse struct {
	SessionID string `json:"sessionId"`
	StreamID  string `json:"streamId"`
	RunID     string `json:"runId"`
}

// start serves POST /start. If the session is running or paused, the response names its run and the request has no effect. If it is complete, the request is
// refused, AS-3.
func (s *Server) start(w http.ResponseWriter, r *http.Request) *httpkit.Problem {
	var b startRequest
	if p := s.read(w, r, &b); p != nil {
		return p
	}
	of, p := s.delegation(r, b.SessionID, true)
	if p != nil {
		return p
	}
	req, p := s.startRequest(b)
	if p != nil {
		return p
	}
	req.Session = of.session
	return s.begin(w, r, of.id, func(ctx context.Context) (string, *conversation.Refusal) { return of.logic.Start(ctx, req) })
}

func (s *Server) startRequest(b startRequest) (req conversation.StartRequest, p *httpkit.Problem) {
	if subjects.CheckToken("agentType", b.AgentType) != nil {
		return req, badAgentType
	}
	req.AgentType = b.AgentType
	if p := problemOf(s.logic.CheckAgent(b.AgentType)); p != nil {
		return req, p
	}
	if !isNull(b.State) {
		if b.State.Kind() != '{' {
			return req, httpkit.Invalid("state: want an object")
		}
		req.Params = chunk.Value(b.State)
	}
	if req.Input, p = s.readMessage(b.Message); p != nil {
		return req, p
	}
	return req, s.addMetadata(req.Input, b.Metadata)
}

// begin requests a run of the session with an id, and writes the response to /start and /resume.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, id string, request func(context.Context) (run string, _ *conversation.Refusal)) *httpkit.Problem {
	ctx, cancel := s.withRequestTimeout(r.Context())
	defer cancel()
	run, refusal := request(ctx)
	if refusal != nil {
		return problemOf(refusal)
	}
	w.Header().Set("X-Session-Id", id)
	s.respond.JSON(w, http.StatusOK, startResponse{SessionID: id, StreamID: id, RunID: run})
	return nil
}

// inputMessage is one message of a parent, CS-8.
type inputMessage struct {
	Content         *string        `json:"content"`
	Files           []inputFile    `json:"files"`
	Metadata        jsontext.Value `json:"metadata"`
	ClientMessageID *string        `json:"clientMessageId"`
}

type inputFile struct {
	URL       string  `json:"url"`
	MediaType string  `json:"mediaType"`
	Filename  *string `json:"filename"`
}

const (
	maxMessages = 64
	maxMetadata = 64 << 10 // bytes of one message's metadata, CS-10
)

// readMessage reads a text, or a list of messages.
func (s *Server) readMessage(raw jsontext.Value) ([]chunk.InputMessage, *httpkit.Problem) {
	switch {
	case isNull(raw):
		return nil, badMessage
	case raw.Kind() == '"':
		var text string
		if err := json.Unmarshal(raw, &text, httpkit.Lenient); err != nil || text == "" {
			return nil, badMessage
		}
		return []chunk.InputMessage{{Content: text}}, nil
	}
	var list []inputMessage
	if err := json.Unmarshal(raw, &list, httpkit.Lenient); err != nil || len(list) == 0 || len(list) > maxMessages {
		return nil, badMessage
	}
	out := make([]chunk.InputMessage, len(list))
	for i, m := range list {
		if m.Content == nil {
			return nil, badMessage
		}
		out[i] = chunk.InputMessage{Content: *m.Content, ClientMessageID: m.ClientMessageID}
		for _, f := range m.Files {
			if f.URL == "" || f.MediaType == "" {
				return nil, httpkit.Invalid("files: want url and mediaType")
			}
			out[i].Files = append(out[i].Files, chunk.InputFile{URL: f.URL, MediaType: f.MediaType, Filename: f.Filename})
		}
		if isNull(m.Metadata) {
			continue
		}
		if m.Metadata.Kind() != '{' {
			return nil, httpkit.Invalid("metadata: want an object")
		}
		value := chunk.Value(rawjson.AppendCompact(nil, m.Metadata)) // white space does not count towards the limit
		out[i].Metadata = &value
	}
	return out, nil
}

// addMetadata adds the metadata of the session to messages without metadata, CS-9. Metadata that exceeds its limit is removed from all messages, CS-10; the
// messages are kept.
func (s *Server) addMetadata(messages []chunk.InputMessage, session map[string]string) *httpkit.Problem {
	var own *chunk.Value
	if len(session) > 0 {
		text, err := json.Marshal(session, json.Deterministic(true))
		if err != nil {
			return httpkit.Invalid("metadata: want texts")
		}
		value := chunk.Value(text)
		own = &value
	}
	dropped := 0
	for i := range messages {
		m := &messages[i]
		if m.Metadata == nil {
			m.Metadata = own
		}
		if m.Metadata != nil && len(*m.Metadata) > maxMetadata {
			m.Metadata = nil
			dropped++
		}
	}
	if dropped > 0 {
		s.shared.Log.Warn("metadata over the budget dropped", "messages", dropped)
	}
	return nil
}

func isNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }
