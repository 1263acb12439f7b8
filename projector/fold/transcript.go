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
