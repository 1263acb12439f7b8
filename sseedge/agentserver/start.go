package agentserver

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/subjects"
)

// startRequest is the body of POST /start.
type startRequest struct {
	SessionID string            `json:"sessionId"`
	AgentType string            `json:"agentType"`
	Message   jsontext.Value    `json:"message"`
	State     jsontext.Value    `json:"state"`    // an object: what the agent gets as Params
	Metadata  map[string]string `json:"metadata"` // of messages that have none of their own
}

// begun is the answer to /start and /resume.
type begun struct {
	SessionID string `json:"sessionId"`
	StreamID  string `json:"streamId"`
	RunID     string `json:"runId"`
}

// start serves POST /start. A session that is at work or waits is returned as it
// is, whatever the request says; one that is over is refused, AS-3.
func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var b startRequest
	if p := s.read(w, r, &b); p != nil {
		s.refuse(w, p)
		return
	}
	session, c, p := s.startCommand(b)
	if p != nil {
		s.refuse(w, p)
		return
	}
	ctx, cancel := s.patient(r.Context())
	defer cancel()
	st, p := s.settle(ctx, session, func(st *standing) (*commands.Command, *problem) {
		switch {
		case st.exists() && st.agentType != c.AgentType:
			return nil, otherAgent
		case !st.exists():
			return &c, nil
		case st.over():
			return nil, completed
		}
		return nil, nil
	})
	s.answerBegun(w, &st, p)
}

// startCommand reads what is to be done. Its run is a function of the session
// alone: of two that start it at the same time, each gets the same run.
func (s *Server) startCommand(b startRequest) (chunk.Session, commands.Command, *problem) {
	var c commands.Command
	session, p := s.session(b.SessionID)
	if p != nil {
		return session, c, p
	}
	if subjects.CheckToken("agentType", b.AgentType) != nil {
		return session, c, badAgentType
	}
	if !slices.Contains(s.cfg.AgentTypes, b.AgentType) {
		return session, c, unknownAgent
	}
	c = commands.Command{Kind: commands.Execute, AgentType: b.AgentType, RunID: commands.ExecuteRunID(session, "/start")}
	if !isNull(b.State) {
		if b.State.Kind() != '{' {
			return session, c, invalid("state: want an object")
		}
		c.Params = chunk.Value(b.State)
	}
	c.Input, p = s.readMessage(b.Message)
	if p != nil {
		return session, c, p
	}
	return session, c, s.addMetadata(c.Input, b.Metadata)
}

func (s *Server) answerBegun(w http.ResponseWriter, st *standing, p *problem) {
	if p != nil {
		s.refuse(w, p)
		return
	}
	id := st.session.ID
	w.Header().Set("X-Session-Id", id)
	s.writeJSON(w, http.StatusOK, begun{SessionID: id, StreamID: id, RunID: st.run()})
}

// inputMessage is one message of a parent, spec/helix.md CS-8.
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
func (s *Server) readMessage(raw jsontext.Value) ([]chunk.InputMessage, *problem) {
	switch {
	case isNull(raw):
		return nil, badMessage
	case raw.Kind() == '"':
		var text string
		if err := json.Unmarshal(raw, &text, reading); err != nil || text == "" {
			return nil, badMessage
		}
		return []chunk.InputMessage{{Content: text}}, nil
	}
	var list []inputMessage
	if err := json.Unmarshal(raw, &list, reading); err != nil || len(list) == 0 || len(list) > maxMessages {
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
				return nil, invalid("files: want url and mediaType")
			}
			out[i].Files = append(out[i].Files, chunk.InputFile{URL: f.URL, MediaType: f.MediaType, Filename: f.Filename})
		}
		if isNull(m.Metadata) {
			continue
		}
		if m.Metadata.Kind() != '{' {
			return nil, invalid("metadata: want an object")
		}
		value, p := s.metadata(m.Metadata)
		if p != nil {
			return nil, p
		}
		out[i].Metadata = &value
	}
	return out, nil
}

// addMetadata gives messages without metadata that of the session, CS-9. What is
// over the budget is left out everywhere, CS-10; the messages go on.
func (s *Server) addMetadata(messages []chunk.InputMessage, session map[string]string) *problem {
	var own *chunk.Value
	if len(session) > 0 {
		text, err := json.Marshal(session, json.Deterministic(true))
		if err != nil {
			return invalid("metadata: want texts")
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
		s.cfg.Log.Warn("metadata over the budget was dropped", "messages", dropped)
	}
	return nil
}

// metadata is an object without white space, which counts for nothing.
func (s *Server) metadata(raw jsontext.Value) (chunk.Value, *problem) {
	raw = raw.Clone()
	if err := raw.Compact(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, invalid("metadata: want an object")
	}
	return chunk.Value(raw), nil
}

func isNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == 'n' }
