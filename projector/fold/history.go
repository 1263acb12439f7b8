package fold

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// ErrInconsistent reports finished messages that do not match the hash in the head.
var ErrInconsistent = errors.New("finished messages do not match the head")

// FinishedMessage is a message that no record can change, or a segment of a message: a run of parts that no record can change.
type FinishedMessage struct {
	// Index is the index in the list of what is stored, from 0. It is that of the message if no earlier message has segments.
	Index int

	// Generation distinguishes two messages with the same index, one of which was removed: it is the ordinal of the truncated
	// record before the message was finished, 0 before the first one. Index and Generation identify one content permanently.
	Generation chunk.Ordinal

	Data []byte // JSON; read-only
}

// history holds the messages of a session: the finished ones, of which only the newer ones may be in memory, then the open ones.
type history struct {
	trimmed  int               // number of finished messages and segments that are not in memory
	finished []FinishedMessage // the others, in order
	chain    [sha256.Size]byte
	spans    []span // generations of the finished messages, nil if all are 0
	segments int    // number of segments in the list: all of a message but its last ones

	open        []message
	changed     bool // since the last call of finish
	shown       int  // message that the next step of the answer is shown in, or noMessage
	firstOfTurn int  // index of the first message of the turn
	prevFirst   int  // index of the first message of the previous turn
	// dropped are calls whose records have no effect in this turn: they had their outcome in a finished message, in a segment or
	// in the previous turn, or are never shown. The latest maxDropped of them.
	dropped []string
	calls   map[string]callLocation // locations of the calls; nil: to be built from open and dropped
}

// span is the generation of the finished messages from an index on.
type span struct {
	from       int
	generation chunk.Ordinal
}

// callLocation is the location of the tool part of a call. The zero value means that no message has it.
type callLocation struct {
	index, part int
	known       bool
}

const noMessage = -1

// maxDeferred bounds the messages that wait for the truncated record that explains a gap.
const maxDeferred = 256

func (h *history) finishedCount() int { return h.trimmed + len(h.finished) }
func (h *history) count() int         { return h.finishedCount() - h.segments + len(h.open) }

// generation returns the generation of finished message n.
func (h *history) generation(n int) chunk.Ordinal {
	for _, sp := range slices.Backward(h.spans) {
		if n >= sp.from {
			return sp.generation
		}
	}
	return 0
}

// startGeneration sets the generation of all messages that are finished from now on.
func (h *history) startGeneration(g chunk.Ordinal) {
	from := h.finishedCount()
	if n := len(h.spans); n > 0 && h.spans[n-1].from == from {
		h.spans = h.spans[:n-1]
	}
	h.spans = append(slices.Clip(h.spans), span{from, g})
}

// openMessage returns the message that receives parts, nil if the next part opens one.
func (h *history) openMessage() *message {
	if n := len(h.open); n > 0 && !h.open[n-1].closed {
		return &h.open[n-1]
	}
	return nil
}

// close closes the message that receives parts, if there is one, and its open text.
func (h *history) close() {
	if m := h.openMessage(); m != nil {
		m.closeText()
		m.closed = true
		h.changed = true
	}
}

// finish moves complete messages out of the head, oldest first. It stops at the first one that may still change, because
// messages are finished in order, but it also finishes all messages before index forced. Of the message at which it stops it
// moves the complete segments.
func (h *history) finish(forced int) {
	n := 0
	for n < len(h.open) && (h.open[n].isComplete() || h.open[n].index < forced) {
		h.finishOne(&h.open[n])
		n++
	}
	if n > 0 {
		// The open messages move to a new array: the old array would keep the finished ones in memory.
		h.open = append([]message(nil), h.open[n:]...)
	}
	if len(h.open) > 0 {
		h.seal(&h.open[0])
	}
}

func (h *history) finishOne(m *message) {
	h.seal(m)
	h.dropCalls(m, len(m.parts))
	h.store(m)
}

// dropCalls drops the calls of the first n parts of m in memory, and forgets those without an outcome.
func (h *history) dropCalls(m *message, n int) {
	for i := range m.parts[:n] {
		t := m.parts[i].tool
		if t == nil {
			continue
		}
		at, ok := h.locations()[t.ID]
		switch {
		case !ok || !at.known || at.index != m.index || at.part != m.sealed+i:
		case t.State.hasOutcome():
			h.drop(t.ID)
		default:
			delete(h.calls, t.ID) // its outcome gets a part of its own
		}
	}
}

// store appends a message or a segment to what is stored.
func (h *history) store(m *message) {
	n := h.finishedCount()
	f := FinishedMessage{Index: n, Generation: h.generation(n), Data: storedMessage(m)}
	h.finished = append(h.finished, f)
	h.chain = link(h.chain, f)
}

// link chains the content of a finished message to all earlier ones.
func link(chain [sha256.Size]byte, f FinishedMessage) [sha256.Size]byte {
	sum := sha256.New()
	sum.Write(chain[:])
	sum.Write(f.Data)
	sum.Sum(chain[:0])
	return chain
}

// locations returns the locations of all calls that a record may still change: those of this turn, and those of the previous
// turn that had no outcome when it ended.
func (h *history) locations() map[string]callLocation {
	if h.calls != nil {
		return h.calls
	}
	h.calls = make(map[string]callLocation)
	for i := range h.open {
		m := &h.open[i]
		for j := range m.parts {
			t := m.parts[j].tool
			if t != nil && m.index >= h.prevFirst && (m.index >= h.firstOfTurn || !t.State.hasOutcome()) {
				h.calls[t.ID] = callLocation{index: m.index, part: m.sealed + j, known: true}
			}
		}
	}
	for _, id := range h.dropped {
		h.calls[id] = callLocation{}
	}
	return h.calls
}

// maxDropped bounds the dropped calls: the head of a turn of a hundred thousand calls would otherwise have the ids of all of
// them. A second outcome of an earlier call is treated like that of an unknown one. A variable for tests.
var maxDropped = 64

// maxDroppedID is the size of an id above which a call is not kept in dropped.
const maxDroppedID = 1 << 10

// drop makes later records of a call have no effect, until maxDropped later calls are dropped.
func (h *history) drop(callID string) {
	if at, ok := h.locations()[callID]; ok && !at.known {
		return
	}
	if len(callID) > maxDroppedID {
		delete(h.calls, callID)
		return
	}
	h.calls[callID] = callLocation{}
	h.dropped = append(h.dropped, callID)
	if n := len(h.dropped) - maxDropped; n > 0 {
		for _, id := range h.dropped[:n] {
			delete(h.calls, id)
		}
		h.dropped = slices.Clone(h.dropped[n:])
	}
}

// setLocation sets the location of a call that starts. Its id may have been used before.
func (h *history) setLocation(callID string, at callLocation) {
	if old, ok := h.locations()[callID]; ok && !old.known {
		h.dropped = slices.DeleteFunc(h.dropped, func(id string) bool { return id == callID })
	}
	h.calls[callID] = at
}

// beginTurn removes the calls that have an outcome, and those of the turn before the one that ends.
func (h *history) beginTurn() {
	h.prevFirst, h.firstOfTurn, h.shown = h.firstOfTurn, h.count(), noMessage
	h.dropped, h.calls = nil, nil
}

// at returns the open message with an index, nil if it is finished or unknown.
func (h *history) at(index int) *message {
	if len(h.open) == 0 || index < h.open[0].index || index > h.open[len(h.open)-1].index {
		return nil
	}
	return &h.open[index-h.open[0].index]
}

// base returns a copy of h without the finished messages: their number identifies them.
func (h *history) base() history {
	b := *h
	b.trimmed, b.finished = h.finishedCount(), nil
	b.spans = slices.Clone(h.spans)
	b.dropped = slices.Clone(h.dropped)
	b.calls = nil
	b.open = make([]message, len(h.open))
	for i := range h.open {
		b.open[i] = h.open[i].clone()
	}
	return b
}

// all returns the messages of s in memory. It decodes the finished ones.
func (s *Snapshot) all() []message { return s.from(0) }

// FinishedCount returns the number of finished messages of the session, in memory or not. It does not count the segments of an
// open message.
func (s Snapshot) FinishedCount() int { return s.messages.finishedCount() - s.messages.segments }

// FinishedMessages returns the finished messages and segments in memory: the last ones. They are read-only.
func (s Snapshot) FinishedMessages() []FinishedMessage { return s.messages.finished }

// Generation returns the generation of the finished message or segment with Index n, which need not be in memory.
func (s Snapshot) Generation(n int) chunk.Ordinal { return s.messages.generation(n) }

// HasAllMessages reports whether all finished messages are in memory. Only then Messages returns all of them.
func (s Snapshot) HasAllMessages() bool { return s.messages.trimmed == 0 }

// TrimmedCount returns the number of finished messages and segments that are not in memory: those before the first of
// FinishedMessages.
func (s Snapshot) TrimmedCount() int { return s.messages.trimmed }

// attachFinished adds the finished messages that are not in memory, see Folder.Attach.
func (s Snapshot) attachFinished(missing [][]byte) (Snapshot, error) {
	h := &s.messages
	if len(missing) != h.trimmed {
		return s, fmt.Errorf("%w: %d messages, want %d", ErrInconsistent, len(missing), h.trimmed)
	}
	finished := make([]FinishedMessage, 0, h.finishedCount())
	for n, data := range missing {
		finished = append(finished, FinishedMessage{Index: n, Generation: h.generation(n), Data: data})
	}
	finished = append(finished, h.finished...)
	var chain [sha256.Size]byte
	for _, f := range finished {
		chain = link(chain, f)
	}
	if chain != h.chain {
		return s, ErrInconsistent
	}
	h.trimmed, h.finished = 0, finished
	return s, nil
}

func (s *Snapshot) memoryBytes() int {
	n := s.ownMemory() + s.streams.memoryBytes()
	for _, b := range []*Snapshot{s.turn, s.step} {
		if b == nil {
			continue
		}
		n += b.ownMemory()
		if b.streams.state != s.streams.state {
			n += b.streams.memoryBytes()
		}
	}
	for i := range s.messages.finished {
		n += len(s.messages.finished[i].Data)
	}
	return n
}

func (s *Snapshot) ownMemory() int {
	const fixed, perPart = 2048, 256
	n := fixed + len(s.State) + len(s.Run.Output) + maxErrorText*len(s.Errors)
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.parts {
			n += perPart + cap(m.parts[j].text) + len(m.parts[j].raw)
			if t := m.parts[j].tool; t != nil {
				n += len(t.Input) + len(t.Output) + cap(t.rawInput) + len(t.Error)
			}
		}
		for j := range m.children {
			n += perPart + len(m.children[j].Result)
		}
	}
	return n
}
