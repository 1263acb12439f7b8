package fold

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Seeding is the status of a fork whose first records are not all stored: readers of snapshots do not know such a session yet.
const Seeding Status = "seeding"

// Limits of a fork.
const (
	maxForkBytes    = 8 << 20
	maxForkMessages = 20_000
)

// maxSeedBytes is the maximum number of bytes of the messages in one record, and of the state. A variable for tests.
var maxSeedBytes = 448 << 10

// Fork is what a fork has otherwise than the session that it continues.
type Fork struct {
	Edits []Edit
	State chunk.Value // nil for none

	// Open keeps the turn of the snapshot open. Otherwise its messages are those of an earlier turn.
	Open bool

	// Rewrite, if not nil, returns the stored form of a message with other references to large values.
	Rewrite func(message []byte) ([]byte, error)
}

// Edit replaces the outcome of a call, the latest one with the id. One of Output, Error and Approved is set.
type Edit struct {
	CallID   string      `json:"callId"`
	Output   chunk.Value `json:"output,omitempty"`
	Error    *string     `json:"error,omitempty"`
	Approved *bool       `json:"approved,omitempty"` // of a call that waits for an approval
}

// ErrUnknownCall reports an Edit of a call that the messages do not have, or an approval of one that does not wait for it.
var ErrUnknownCall = errors.New("unknown call")

// abandoned is the error of a call that has no outcome at the point of a fork, as that of a call which a user does not answer.
const abandoned = "no answer to the call"

// Seed returns the first records of a session that continues s, of which By and Origin.Depth are not set. The new session has the messages of s with their ids. A call
// without an outcome fails, and sub-agents are left out. s must be HasAllMessages. The error is chunk.ErrTooLarge for a session that is too large for a fork, or
// ErrUnknownCall.
func (s Snapshot) Seed(f Fork) (seeds []chunk.SessionSeed, end chunk.SessionForked, omitted int, err error) {
	list := s.all()
	if len(list) > maxForkMessages || len(f.State) > maxSeedBytes {
		return nil, end, 0, fmt.Errorf("%w: %d messages, %d bytes of state", chunk.ErrTooLarge, len(list), len(f.State))
	}
	children := make(map[string]bool)
	for i := range list {
		m := list[i].clone()
		m.closeText()
		for _, c := range m.children {
			children[c.Session] = true
		}
		m.children, m.first, m.last, m.closed = nil, 0, 0, true
		list[i] = m
	}
	if err := s.complete(list, f); err != nil {
		return nil, end, 0, err
	}
	if seeds, err = seedsOf(list, f.Rewrite); err != nil {
		return nil, end, 0, err
	}
	end = chunk.SessionForked{
		Origin:   chunk.ForkOrigin{Session: s.Session.ID, Sequence: int64(s.Position.Seq), Step: s.Run.Step},
		Messages: int64(len(s.shown(list))), CheckpointID: s.CheckpointID,
	}
	if s.Anchor != 0 {
		_, anchor, _ := strings.Cut(string(chunk.Cursor{Seq: s.Position.Seq, Anchor: s.Anchor}.Append(nil)), "-")
		end.Origin.Anchor = &anchor
	}
	if s.Run.ID != "" {
		end.Origin.Run = &s.Run.ID
	}
	if f.State != nil {
		end.State = new(string(f.State))
	}
	for _, b := range s.branches {
		end.Replaced = append(end.Replaced, chunk.OrdinalRange{First: int64(b.from), Last: int64(b.to) - 1})
	}
	if f.Open {
		end.Turn = &chunk.ForkedTurn{First: int64(s.messages.firstOfTurn)}
		if s.messages.shown != noMessage {
			end.Turn.Answer = new(int64(s.messages.shown))
		}
	}
	return seeds, end, len(children), nil
}

// Before returns a snapshot with the messages before an index, without state and runs. It has no position, because the records of these messages may have expired.
// s must be HasAllMessages.
func (s Snapshot) Before(index int) Snapshot {
	b := newSnapshot(s.Session)
	b.AgentType, b.Origin = s.AgentType, s.Origin
	for _, m := range s.all() {
		if m.index < index {
			b.messages.open = append(b.messages.open, m.clone())
		}
	}
	for _, r := range s.branches {
		if r.to < index { // the message that replaces others follows them
			b.branches = append(b.branches, r)
		}
	}
	return b
}

// complete sets the outcomes of calls.
func (s *Snapshot) complete(list []message, f Fork) error {
	left := slices.Clone(f.Edits)
	for i := range slices.Backward(list) {
		m := &list[i]
		for j := range slices.Backward(m.parts) {
			t := m.parts[j].tool
			if t == nil {
				continue
			}
			at := slices.IndexFunc(left, func(e Edit) bool { return e.CallID == t.ID })
			switch {
			case at >= 0:
				if !t.edit(left[at], f.Open && m.index >= s.messages.firstOfTurn) {
					return fmt.Errorf("%w: %q does not wait for an approval", ErrUnknownCall, t.ID)
				}
				left = slices.Delete(left, at, at+1)
			case !t.State.hasOutcome():
				t.State, t.Error = CallFailed, abandoned
				t.Input = orNull(t.Input)
			}
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: %q", ErrUnknownCall, left[0].CallID)
	}
	return nil
}

// edit sets the outcome of a call, and reports whether it can have it. A call that is approved is executed by the run that continues.
func (c *ToolCall) edit(e Edit, continues bool) bool {
	c.Input = orNull(c.Input)
	switch {
	case e.Approved != nil:
		if c.State != CallAwaitingApproval || *e.Approved && !continues {
			return false
		}
		c.Approval = &Approval{ID: c.Approval.ID, Approved: e.Approved}
		c.State = CallDenied
		if *e.Approved {
			c.State = CallApproved
		}
	case e.Error != nil:
		c.State, c.Error, c.Output = CallFailed, *e.Error, nil
	default:
		c.State, c.Output, c.Error = CallDone, orNull(e.Output), ""
	}
	return true
}

// seedsOf divides messages into records. A message that is too large for one is divided between its parts.
func seedsOf(list []message, rewrite func([]byte) ([]byte, error)) ([]chunk.SessionSeed, error) {
	var seeds []chunk.SessionSeed
	var text []byte
	size, total := 0, 0
	flush := func() {
		if size > 0 {
			seeds = append(seeds, chunk.SessionSeed{Form: Version, Messages: string(text)})
		}
		text, size = nil, 0
	}
	for i := range list {
		for rest := &list[i]; rest != nil; {
			line, next, err := rest.line(rewrite)
			if err != nil {
				return nil, err
			}
			n := len(rawjson.AppendQuoted(nil, line))
			if total += n; n > maxSeedBytes || total > maxForkBytes {
				return nil, fmt.Errorf("%w: %d bytes of messages, a part of %s has %d", chunk.ErrTooLarge, total, MessageID(rest.index), n)
			}
			if size+n > maxSeedBytes {
				flush()
			}
			if size > 0 {
				text = append(text, '\n')
			}
			text, size, rest = append(text, line...), size+n, next
		}
	}
	flush()
	return seeds, nil
}

// line returns the stored form of the first parts of a message, as many as fit into a record, and the rest of it, nil for none.
func (m *message) line(rewrite func([]byte) ([]byte, error)) (line []byte, rest *message, err error) {
	head := *m
	for n := len(m.parts); ; n = (n + 1) / 2 {
		head.parts, head.closed = m.parts[:n], n == len(m.parts)
		if !head.closed {
			head.metadata = nil // the last parts have it, as in segments
		}
		line = storedMessage(&head)
		if n <= 1 || len(rawjson.AppendQuoted(nil, line)) <= maxSeedBytes {
			break
		}
	}
	if !head.closed {
		next := *m
		next.sealed, next.parts = m.sealed+len(head.parts), m.parts[len(head.parts):]
		rest = &next
	}
	if rewrite != nil {
		line, err = rewrite(line)
	}
	return line, rest, err
}

// applySeed folds messages of a fork. They are the first records of its session.
func (s Snapshot) applySeed(rec chunk.Record, agentType string, b chunk.SessionSeed) (Snapshot, error) {
	h := &s.messages
	if b.Form > Version || s.Status != Seeding && s.Chain() != (Chain{FirstOrdinal: rec.Ordinal}) {
		return s, fmt.Errorf("%w: form %d, ordinal %d", ErrInvalidRecord, b.Form, rec.Ordinal)
	}
	var list []message
	r := reader{}
	last := &message{index: h.count() - 1, closed: true}
	if n := len(h.open); n > 0 {
		last = &h.open[n-1]
	}
	for line := range strings.SplitSeq(b.Messages, "\n") {
		m := r.message([]byte(line))
		if r.err == nil && (!last.precedes(&m) || last.closed == (m.sealed > 0)) {
			r.fail(fmt.Sprintf("message %d follows message %d", m.index, last.index))
		}
		if r.err != nil {
			return s, fmt.Errorf("%w: %w", ErrInvalidRecord, r.err)
		}
		m.first, m.last = rec.Seq, rec.Seq
		list = append(list, m)
		last = &list[len(list)-1]
	}
	s.link(rec)
	s.moveTo(rec)
	s.Status, s.AgentType = Seeding, agentType
	for _, m := range list {
		if m.role == User {
			s.setTitle([]chunk.InputMessage{m.asInput()}, m.index)
		}
		h.open = appendSegment(h.open, m)
	}
	h.changed, h.calls = true, nil
	s.finish()
	return s, nil
}

// applyForked folds the end of the first records of a fork.
func (s Snapshot) applyForked(rec chunk.Record, agentType string, b chunk.SessionForked) (Snapshot, error) {
	h := &s.messages
	count := int64(h.count())
	switch t := b.Turn; {
	case s.Status != Seeding && s.Chain() != (Chain{FirstOrdinal: rec.Ordinal}), len(h.open) > 0 && !h.open[len(h.open)-1].closed:
		return s, fmt.Errorf("%w: it does not follow the messages of a fork", ErrInvalidRecord)
	case t != nil && (t.First < 0 || t.First > count || t.Answer != nil && (*t.Answer < t.First || *t.Answer >= count)):
		return s, fmt.Errorf("%w: the turn begins with message %d of %d", ErrInvalidRecord, t.First, count)
	}
	if b.State != nil {
		if _, ok := rawjson.Scan([]byte(*b.State), rawjson.Limits{Levels: maxDepth}); !ok || len(*b.State) > MaxState {
			return s, fmt.Errorf("%w: the state cannot be read", ErrInvalidRecord)
		}
		s.State = chunk.Value(*b.State)
	}
	s.link(rec)
	s.moveTo(rec)
	s.Status, s.AgentType, s.Origin, s.CheckpointID = Ended, agentType, &b.Origin, b.CheckpointID
	if b.By != nil {
		s.Owner = &chunk.Principal{Subject: b.By.Subject, Issuer: b.By.Issuer}
	}
	for _, r := range b.Replaced {
		s.branches = append(s.branches, branch{int(r.First), int(r.Last) + 1})
	}
	h.firstOfTurn, h.prevFirst, h.shown, h.calls = int(count), int(count), noMessage, nil
	if t := b.Turn; t != nil {
		h.firstOfTurn, h.prevFirst = int(t.First), int(t.First)
		if t.Answer != nil {
			h.shown = int(*t.Answer)
		}
		s.Status = Paused
		s.Run = Run{Status: RunInterrupted, Epoch: rec.Epoch, StartSeq: rec.Seq, StartedAt: millis(rec), Step: b.Origin.Step, Interrupted: true}
		if b.Origin.Run != nil {
			s.Run.ID = *b.Origin.Run
		}
		s.turn = s.base()
	}
	return s, nil
}
