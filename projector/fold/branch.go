package fold

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// Members of the first input message of a turn that begins a branch: its messages do not follow the latest one. Messages that are not on the branch are not
// shown any more. They stay in the log and keep their indexes, and a later turn may continue them.
//
//	{"content":"…","clientMessageId":"…","replaces":"msg-4"}   takes the place of a message, after an edit or for another answer
//	{"content":"…","clientMessageId":"…","follows":"msg-3"}    follows a message, the last one of its turn
const (
	ReplacesMember = "replaces"
	FollowsMember  = "follows"
)

// branch is a turn that begins with message to in the place of message from, which is the one after the message that it follows.
type branch struct{ from, to int }

// maxBranches bounds the branches of a session that are not on the path to its latest message. A variable for tests.
var maxBranches = 1000

// beginBranch adds a branch if the new inputs begin one.
func (s *Snapshot) beginBranch(inputs []chunk.InputMessage) {
	to := s.messages.count()
	if from := s.placeOf(inputs); from < to {
		s.branches = append(slices.Clip(s.branches), branch{from, to}) // copied: earlier snapshots share the list
		s.dropBranch(to)
	}
}

// placeOf returns the place of a turn with new inputs: after the last message, if they do not begin a branch. An invalid id is ignored.
func (s *Snapshot) placeOf(inputs []chunk.InputMessage) int {
	to := s.messages.count()
	if len(inputs) == 0 {
		return to
	}
	for _, m := range inputs[0].Extra {
		if m.Name != ReplacesMember && m.Name != FollowsMember {
			continue
		}
		id, err := unquote(m.Value)
		switch n, ok := MessageIndex(id); {
		case err != nil || !ok || n >= to:
			return to
		case m.Name == FollowsMember:
			return n + 1
		default:
			return s.place(n)
		}
	}
	return to
}

// Predecessor returns the index of the message that message n follows, -1 if it is the first one.
func (s Snapshot) Predecessor(n int) int { return s.place(n) - 1 }

// FollowedBy returns the snapshot with the messages that a turn with new inputs will follow.
func (s Snapshot) FollowedBy(inputs []chunk.InputMessage) Snapshot {
	s.tip = new(s.placeOf(inputs) - 1)
	return s
}

// place returns the place of message n: that of its branch, if it begins one.
func (s *Snapshot) place(n int) int {
	i, ok := slices.BinarySearchFunc(s.branches, n, func(b branch, n int) int { return cmp.Compare(b.to, n) })
	if ok {
		return s.branches[i].from
	}
	return n
}

// dropBranch forgets the oldest branch that is not on the path to message last, if there are too many.
func (s *Snapshot) dropBranch(last int) {
	if len(s.branches) <= maxBranches {
		return
	}
	var off []int
	for i, b := range s.branches {
		if !s.leads(b.to, last) {
			off = append(off, i)
		}
	}
	if len(off) > maxBranches {
		s.branches = slices.Delete(slices.Clone(s.branches), off[0], off[0]+1)
	}
}

// leads reports whether message n is on the path to message last: whether last follows it, or a message that does.
func (s *Snapshot) leads(n, last int) bool {
	for _, b := range slices.Backward(s.branches) {
		switch {
		case n > last:
			return false
		case b.to > last: // it is later, or not on the path
		case n >= b.to:
			return true
		default:
			last = b.from - 1
		}
	}
	return n <= last
}

// isReplaced reports whether message n is not on the branch of the snapshot.
func (s *Snapshot) isReplaced(n int) bool {
	if s.tip != nil {
		return !s.leads(n, *s.tip)
	}
	return !s.leads(n, math.MaxInt)
}

// OnBranch returns the snapshot with the messages of the latest branch that has a message. It returns chunk.ErrUnknownMessage if there is no message with the id.
func (s Snapshot) OnBranch(id string) (Snapshot, error) {
	n, ok := MessageIndex(id)
	count := s.messages.count()
	if !ok || n >= count {
		return s, chunk.ErrUnknownMessage
	}
	tip := count - 1
	for _, b := range slices.Backward(s.branches) {
		if s.leads(n, tip) {
			break
		}
		tip = b.to - 1 // the last message of the turn before the branch
	}
	s.tip = &tip
	return s, nil
}

// maxAlternatives bounds the turns of one place that Branches returns: the latest ones.
const maxAlternatives = 200

// Branches returns the alternatives of the branch of the snapshot: by the first message of a turn, the first messages of all turns in its place, oldest first.
func (s Snapshot) Branches() map[string][]string {
	var out map[string][]string
	for i := range s.branches {
		from := s.branches[i].from
		var turns []int
		if s.place(from) == from {
			turns = append(turns, from)
		}
		for _, b := range s.branches {
			if b.from == from {
				turns = append(turns, b.to)
			}
		}
		shown := slices.IndexFunc(turns, func(n int) bool { return !s.isReplaced(n) })
		if len(turns) == 1 || shown < 0 || out[MessageID(turns[shown])] != nil {
			continue
		}
		ids := make([]string, 0, len(turns))
		for _, n := range turns[max(0, len(turns)-maxAlternatives):] {
			ids = append(ids, MessageID(n))
		}
		if out == nil {
			out = make(map[string][]string)
		}
		out[MessageID(turns[shown])] = ids
	}
	return out
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
