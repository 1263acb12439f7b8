package fold

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// Replaces is the member of a turn's first input message that says whose place the turn
// takes: the id of a message. That one and all that followed it are not shown
// any more, as after an edit or when an answer is asked for once more. They stay
// in the log, and keep their numbers.
//
//	{"content":"…","clientMessageId":"…","replaces":"msg-4"}
const Replaces = "replaces"

// stretch is messages from..to-1.
type stretch struct{ from, to int }

// replace hides what the inputs that are about to be added take the place of.
// What cannot be such a place says nothing.
func (s *Snapshot) replace(inputs []chunk.InputMessage) {
	if len(inputs) == 0 {
		return
	}
	extra := inputs[0].Extra
	i := slices.IndexFunc(extra, func(m chunk.Member) bool { return m.Name == Replaces })
	if i < 0 {
		return
	}
	id, err := unquote(extra[i].Value)
	from, ok := messageIndex(string(id))
	to := s.messages.count()
	if err != nil || !ok || from >= to {
		return
	}
	// Copied: earlier snapshots have the old list. Whatever begins behind the new
	// stretch lies within it.
	kept := len(s.replaced)
	for kept > 0 && s.replaced[kept-1].to >= from {
		kept--
		from = min(from, s.replaced[kept].from)
	}
	s.replaced = append(slices.Clone(s.replaced[:kept]), stretch{from, to})
}

// isReplaced reports whether another message has taken the place of message n.
func (s *Snapshot) isReplaced(n int) bool {
	for _, r := range slices.Backward(s.replaced) {
		if n >= r.to {
			return false
		}
		if n >= r.from {
			return true
		}
	}
	return false
}

// messageIndex reads what MessageID wrote.
func messageIndex(id string) (int, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, messagePrefix), 10, 31)
	return int(n), err == nil && MessageID(int(n)) == id
}

// MessageIndex is the number of the message with an id that MessageID made.
func MessageIndex(id string) (int, bool) { return messageIndex(id) }

// Input is a message of a person in the history of a session.
type Input struct {
	Index    int
	ClientID string // the id that the client gave it, "" for none
	Replaced bool   // another one has taken its place
	Message  chunk.InputMessage
}

// Inputs are all messages of people, oldest first. The snapshot must be Complete.
func (s Snapshot) Inputs() []Input {
	var out []Input
	for _, m := range s.all() {
		if m.role != User {
			continue
		}
		out = append(out, Input{Index: m.index, ClientID: m.clientID, Replaced: s.isReplaced(m.index), Message: m.asInput()})
	}
	return out
}

// asInput is the message as the person sent it.
func (m *message) asInput() chunk.InputMessage {
	var in chunk.InputMessage
	for i := range m.parts {
		if p := &m.parts[i]; p.kind == textPart {
			in.Content = string(p.text)
			continue
		}
		r := reader{}
		file := r.members(m.parts[i].raw)
		in.Files = append(in.Files, chunk.InputFile{URL: r.str(file["url"]), MediaType: r.str(file["mediaType"]), Filename: r.maybe(file["filename"])})
	}
	if m.metadata != nil {
		in.Metadata = &m.metadata
	}
	if m.clientID != "" {
		in.ClientMessageID = &m.clientID
	}
	return in
}

// MessageCount is how many messages the session has, hidden and replaced ones
// included: a turn that begins next with n inputs is answered by the message
// MessageID(MessageCount()+n).
func (s Snapshot) MessageCount() int { return s.messages.count() }

// TurnCalls are the calls that had no outcome when the turn opened: what is said
// of them in this turn belongs to a message before it.
func (s Snapshot) TurnCalls() []string {
	if s.turn == nil {
		return nil
	}
	var out []string
	for i := range s.turn.messages.open {
		for _, p := range s.turn.messages.open[i].parts {
			if p.tool != nil && !p.tool.state.settled() {
				out = append(out, p.tool.callID)
			}
		}
	}
	return out
}

// TurnRun is the run that opened the turn, as it stood then.
func (s Snapshot) TurnRun() Run {
	if s.turn == nil {
		return Run{}
	}
	return s.turn.Run
}

// IsReplaced reports whether another message has taken the place of the one with
// an index.
func (s Snapshot) IsReplaced(index int) bool { return s.isReplaced(index) }
