package fold

import (
	"github.com/tailrace/tailrace/chunk"
)

// TranscriptMessage is one message of the history of a model: a user input, or the output of one step of an answer.
type TranscriptMessage struct {
	Index        int // index in the session; its id is MessageID(Index)
	DisplayIndex int // index of the message that users see it in
	Role         Role
	Hidden       bool   // users do not see it
	ClientID     string // the id that the client gave to it, "" for none
	Metadata     chunk.Value
	Parts        []chunk.Value // parts of an AI SDK message, as stored
	Children     []Child       // sub-agents that the step called
}

// Transcript returns the history for a model from message number from on: every step separately, including hidden messages and
// the output of an unfinished answer, without replaced messages. It omits finished messages that are not in memory.
func (s Snapshot) Transcript(from int) []TranscriptMessage {
	var out []TranscriptMessage
	add := func(m *message) {
		if m.index < from || s.isReplaced(m.index) {
			return
		}
		shown := TranscriptMessage{
			Index: m.index, DisplayIndex: m.shown, Role: m.role, Hidden: isHidden(m.metadata), ClientID: m.clientID,
			Metadata: m.metadata, Children: m.children,
		}
		for i := range m.parts {
			shown.Parts = append(shown.Parts, appendPart(nil, &m.parts[i]))
		}
		out = append(out, shown)
	}
	r := reader{}
	for i := max(0, from-s.messages.trimmed); i < len(s.messages.finished); i++ {
		m := r.message(s.messages.finished[i].Data)
		add(&m)
	}
	for i := range s.messages.open {
		add(&s.messages.open[i])
	}
	return out
}

// OpenCalls returns the calls without an outcome that a record may still complete, with the names of their tools, oldest first.
func (s Snapshot) OpenCalls() []Call {
	var out []Call
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.parts {
			t := m.parts[j].tool
			if t == nil || t.state.hasOutcome() {
				continue
			}
			if at := s.messages.locations()[t.callID]; !at.known || at.index != m.index || at.part != j {
				continue
			}
			c := Call{ID: t.callID, ToolName: t.name, Input: t.input}
			if t.approval != nil {
				c.ApprovalID = t.approval.id
				c.Approved = t.approval.approved != nil && *t.approval.approved
			}
			for k := range m.children {
				if m.children[k].CallID == t.callID && m.children[k].Status == ChildRunning {
					c.Child = &m.children[k]
				}
			}
			out = append(out, c)
		}
	}
	return out
}

// Call is a tool call without an outcome.
type Call struct {
	ID         string
	ToolName   string
	Input      chunk.Value // nil while it is streaming
	ApprovalID string      // of a call that requested approval, "" otherwise
	Approved   bool        // the call was approved
	Child      *Child      // the sub-agent that is running for it, nil if there is none
}
