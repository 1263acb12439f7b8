package fold

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// ReplacesMember is the member of the first input message of a turn that names the message it replaces. That message and all
// later ones are not shown any more, for example after an edit or a regenerated answer. They stay in the log and keep their
// indexes.
//
//	{"content":"…","clientMessageId":"…","replaces":"msg-4"}
const ReplacesMember = "replaces"

// indexRange is messages from..to-1.
type indexRange struct{ from, to int }

// replace hides the messages that the new inputs replace. An invalid id is ignored.
func (s *Snapshot) replace(inputs []chunk.InputMessage) {
	if len(inputs) == 0 {
		return
	}
	extra := inputs[0].Extra
	i := slices.IndexFunc(extra, func(m chunk.Member) bool { return m.Name == ReplacesMember })
	if i < 0 {
		return
	}
	id, err := unquote(extra[i].Value)
	from, ok := MessageIndex(id)
	to := s.messages.count()
	if err != nil || !ok || from >= to {
		return
	}
	// Copy: earlier snapshots share the old list. Ranges that start after the new one are part of it.
	kept := len(s.replaced)
	for kept > 0 && s.replaced[kept-1].to >= from {
		kept--
		from = min(from, s.replaced[kept].from)
	}
	s.replaced = append(slices.Clone(s.replaced[:kept]), indexRange{from, to})
}

// isReplaced reports whether message n was replaced.
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

// MessageIndex returns the index of a message id, and whether MessageID can return that id.
func MessageIndex(id string) (int, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, messagePrefix), 10, 31)
	return int(n), err == nil && MessageID(int(n)) == id
}

// Input is a user message in the history of a session.
type Input struct {
	Index    int
	ClientID string // the id that the client gave to it, "" for none
	Replaced bool   // another message has replaced it
	Message  chunk.InputMessage
}

// Inputs returns all user messages, oldest first. The snapshot must be HasAllMessages.
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

// asInput returns the message as the client sent it.
func (m *message) asInput() chunk.InputMessage {
	var in chunk.InputMessage
	for i := range m.parts {
		if p := &m.parts[i]; p.kind == textPart {
			in.Content = string(p.text)
			continue
		}
		r := reader{}
		if d := typedRaw(m.parts[i].raw).Data; d != nil {
			in.Data = append(in.Data, chunk.InputData{Name: d.Name, ID: d.ID, Data: d.Value})
			continue
		}
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

// MessageCount returns the number of messages of the session, including hidden and replaced ones: a next turn with n inputs is
// answered by the message MessageID(MessageCount()+n).
func (s Snapshot) MessageCount() int { return s.messages.count() }

// TurnCalls returns the calls that had no outcome when the turn opened: their records in this turn belong to an earlier
// message.
func (s Snapshot) TurnCalls() []string {
	if s.turn == nil {
		return nil
	}
	var out []string
	for i := range s.turn.messages.open {
		for _, p := range s.turn.messages.open[i].parts {
			if p.tool != nil && !p.tool.State.hasOutcome() {
				out = append(out, p.tool.ID)
			}
		}
	}
	return out
}

// TurnRun returns the run that opened the turn, as it was then.
func (s Snapshot) TurnRun() Run {
	if s.turn == nil {
		return Run{}
	}
	return s.turn.Run
}

// IsReplaced reports whether the message with an index was replaced.
func (s Snapshot) IsReplaced(index int) bool { return s.isReplaced(index) }
