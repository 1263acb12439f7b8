package fold

import (
	"github.com/tailrace/tailrace/chunk"
)

// Message is one message as a model's history counts them: what a person said,
// or what one step of an answer said.
type Message struct {
	Index    int // its number in the session; its id is MessageID(Index)
	Shown    int // number of the message that people are shown it in
	Role     Role
	Hidden   bool   // people are not shown it
	ClientID string // the id that the client gave it, "" for none
	Metadata chunk.Value
	Parts    []chunk.Value // those of an AI SDK message, as they are stored
	Children []Child       // sub-agents that the step called
}

// Transcript is the history for a model from message number from on: every step
// by itself, the hidden messages and what an unfinished answer has said so far
// included. Messages that others took the place of are not in it. Finished ones
// before those that s holds are left out.
func (s Snapshot) Transcript(from int) []Message {
	var out []Message
	add := func(m *message) {
		if m.index < from || s.isReplaced(m.index) {
			return
		}
		shown := Message{
			Index: m.index, Shown: m.shown, Role: m.role, Hidden: hidden(m.metadata), ClientID: m.clientID,
			Metadata: m.metadata, Children: m.children,
		}
		for i := range m.parts {
			shown.Parts = append(shown.Parts, appendPart(nil, &m.parts[i]))
		}
		out = append(out, shown)
	}
	r := reader{}
	for i := max(0, from-s.messages.released); i < len(s.messages.finished); i++ {
		m := r.message(s.messages.finished[i].Data)
		add(&m)
	}
	for i := range s.messages.open {
		add(&s.messages.open[i])
	}
	return out
}

// Unsettled are the calls without an outcome that a record may still give one,
// with the names of their tools, oldest first.
func (s Snapshot) Unsettled() []Call {
	var out []Call
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.parts {
			t := m.parts[j].tool
			if t == nil || t.state.settled() {
				continue
			}
			if place := s.messages.places()[t.callID]; !place.known || place.index != m.index || place.part != j {
				continue
			}
			c := Call{ID: t.callID, ToolName: t.name, Input: t.input}
			if t.approval != nil {
				c.ApprovalID = t.approval.id
				c.Granted = t.approval.approved != nil && *t.approval.approved
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

// Call is a tool call that has no outcome yet.
type Call struct {
	ID         string
	ToolName   string
	Input      chunk.Value // nil while it streams
	ApprovalID string      // of one that asked for approval, "" otherwise
	Granted    bool        // the approval was given
	Child      *Child      // the sub-agent that is at work on it, nil when none is
}
