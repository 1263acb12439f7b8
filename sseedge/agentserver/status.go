package agentserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector/fold"
)

// runStatus is how a run stands, spec/helix.md RL-2.
type runStatus string

const (
	statusRunning     runStatus = "running"
	statusCompleted   runStatus = "completed"
	statusFailed      runStatus = "failed"
	statusInterrupted runStatus = "interrupted"
	statusClient      runStatus = "suspended_client_tool"
	statusChildren    runStatus = "suspended_awaiting_children"
)

// report is the answer of GET /status.
type report struct {
	SessionID          string      `json:"sessionId"`
	RunID              string      `json:"runId"`
	Status             runStatus   `json:"status"`
	Output             chunk.Value `json:"output,omitempty"` // of a completed run
	Error              *failure    `json:"error,omitempty"`  // of a failed one
	Suspended          *suspended  `json:"suspended,omitempty"`
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"`
	StreamStatus       fold.Status `json:"streamStatus"`
	LatestSequence     chunk.Seq   `json:"latestSequence"`
}

type failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// suspended is what a run waits for: calls that somebody must answer by
// /submit-tool-result, and sub-agents that will end by themselves.
type suspended struct {
	ToolCallIDs []string `json:"toolCallIds,omitempty"`
	Children    []child  `json:"children,omitempty"`
}

type child struct {
	SessionID string `json:"sessionId"`
	AgentType string `json:"agentType"`
	CallID    string `json:"callId"`
}

func (s suspended) none() bool { return len(s.ToolCallIDs)+len(s.Children) == 0 }

// status serves GET /status. A parent that lost its stream finds here what came of
// the session.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	session, p := s.session(r.URL.Query().Get("sessionId"))
	if p != nil {
		s.refuse(w, p)
		return
	}
	ctx, cancel := s.patient(r.Context())
	defer cancel()
	rep, p := s.report(ctx, session)
	if p != nil {
		s.refuse(w, p)
		return
	}
	w.Header().Set("X-Session-Id", session.ID)
	s.writeJSON(w, http.StatusOK, rep)
}

func (s *Server) report(ctx context.Context, session chunk.Session) (report, *problem) {
	st, err := s.look(ctx, session)
	if err != nil {
		return report{}, s.failed(ctx, session, "look", err)
	}
	if !st.exists() {
		return report{}, noSession
	}
	rep := report{
		SessionID: session.ID, RunID: st.run(), Status: statusRunning,
		StreamStatus: st.snap.Status, LatestSequence: st.snap.Position.Seq,
	}
	if st.waiting() != nil {
		rep.StreamStatus = fold.Active // it will be in a moment
		return rep, nil
	}
	switch {
	case st.snap.Status == fold.Ended:
		rep.Status, rep.Output = statusCompleted, output(st.snap)
	case st.snap.Status == fold.Failed:
		rep.Status, rep.Error = statusFailed, failureOf(st.snap)
	case st.snap.Run.Status == fold.RunInterrupted:
		rep.Status = statusInterrupted
	case st.snap.Status == fold.Paused:
		open, p := s.openCalls(ctx, &st.snap)
		if p != nil {
			return report{}, p
		}
		rep.Suspended, rep.PendingToolCallIDs = &open, open.ToolCallIDs
		rep.Status = statusClient
		if len(open.ToolCallIDs) == 0 && len(open.Children) > 0 {
			rep.Status = statusChildren
		}
	}
	return rep, nil
}

// openCalls are those that a paused run waits for and nobody has answered.
func (s *Server) openCalls(ctx context.Context, snap *fold.Snapshot) (suspended, *problem) {
	var open suspended
	answers, err := s.cfg.Inbox.Answers(ctx, snap.Session, snap.Run.ID)
	if err != nil {
		return open, s.failed(ctx, snap.Session, "answers", err)
	}
	answered := make(map[string]bool, len(answers))
	for _, a := range answers {
		answered[a.CallID] = true
	}
	for _, c := range snap.Unsettled() {
		switch {
		case answered[c.ID] || c.Granted:
		case c.Child != nil:
			open.Children = append(open.Children, child{c.Child.Session, c.Child.Type, c.ID})
		case slices.ContainsFunc(snap.Pending, func(p fold.Pending) bool { return p.CallID == c.ID && p.RunID == snap.Run.ID }):
			open.ToolCallIDs = append(open.ToolCallIDs, c.ID)
		}
	}
	return open, nil
}

// output is what a run came to, as a parent of ours would hear it: its structured
// output, or else the last text of its answer.
func output(snap fold.Snapshot) chunk.Value {
	if len(snap.Run.Output) > 0 {
		return snap.Run.Output
	}
	for _, m := range slices.Backward(snap.Transcript(snap.TurnMessages())) {
		if text := textOf(m); m.Role == fold.Assistant && text != "" {
			v, err := chunk.ValueOf(text)
			if err != nil { // the log has no text that is none
				return nil
			}
			return v
		}
	}
	return nil
}

func textOf(m fold.Message) string {
	var text strings.Builder
	for _, raw := range m.Parts {
		var part struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &part, reading) == nil && part.Type == "text" {
			text.WriteString(part.Text)
		}
	}
	return text.String()
}

func failureOf(snap fold.Snapshot) *failure {
	f := &failure{Message: "the run failed"}
	if snap.Failure == nil {
		return f
	}
	f.Message = snap.Failure.Message
	if d := snap.Failure.Detail; d != nil && d.Code != nil {
		f.Code = *d.Code
	}
	return f
}
