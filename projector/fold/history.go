package fold

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// ErrTorn reports finished messages that are not those which the head counts.
var ErrTorn = errors.New("the finished messages do not belong to this head")

// Finished is a message that no record can change any more.
type Finished struct {
	Index int // number in the session, from 0

	// Generation tells apart two messages that had the same index, one of which
	// was taken back: the ordinal of the mark it was finished behind, 0 before
	// the first. Index and Generation together name one content for ever.
	Generation chunk.Ordinal

	Data []byte // JSON; not to be changed
}

// history is the messages of a session: finished ones, of which only the newer
// ones may be in memory, then those that may still change.
type history struct {
	released int        // how many finished messages are not held
	finished []Finished // those that are, in order
	chain    [sha256.Size]byte
	spans    []span // generations of the finished messages, nil while all are 0

	open      []message
	changed   bool // since the last look at what may be finished
	shown     int  // message that the next step of the answer joins, or noMessage
	turnFirst int  // first message of the turn
	prevFirst int  // first message of the turn before
	// dropped are calls whose records change nothing any more in this turn: they
	// had their outcome in a message that is finished or of the turn before, or
	// are never shown.
	dropped []string
	calls   map[string]callPlace // where calls are; nil: to be built from open and dropped
}

// span says that finished messages from an index on have a generation.
type span struct {
	from       int
	generation chunk.Ordinal
}

// callPlace is where the tool part of a call is. The zero one: in no message.
type callPlace struct {
	index, part int
	known       bool
}

const noMessage = -1

// maxHeld bounds how many messages wait for the mark that explains a hole.
const maxHeld = 256

func (h *history) finishedCount() int { return h.released + len(h.finished) }
func (h *history) count() int         { return h.finishedCount() + len(h.open) }

// generation of finished message n.
func (h *history) generation(n int) chunk.Ordinal {
	for _, sp := range slices.Backward(h.spans) {
		if n >= sp.from {
			return sp.generation
		}
	}
	return 0
}

// startGeneration gives all messages finished from now on another generation.
func (h *history) startGeneration(g chunk.Ordinal) {
	from := h.finishedCount()
	if n := len(h.spans); n > 0 && h.spans[n-1].from == from {
		h.spans = h.spans[:n-1]
	}
	h.spans = append(slices.Clip(h.spans), span{from, g})
}

// writing is the message that takes parts, nil when the next part opens one.
func (h *history) writing() *message {
	if n := len(h.open); n > 0 && !h.open[n-1].closed {
		return &h.open[n-1]
	}
	return nil
}

// close ends the message that takes parts, if there is one, and its open text.
func (h *history) close() {
	if m := h.writing(); m != nil {
		m.closeText()
		m.closed = true
		h.changed = true
	}
}

// finish moves messages that are complete out of the head, oldest first. It
// stops at the first that may still change, because messages are finished in
// order, but for those before index forced, which have had their time.
func (h *history) finish(forced int) {
	n := 0
	for n < len(h.open) && (h.open[n].settled() || h.open[n].index < forced) {
		h.finishOne(&h.open[n])
		n++
	}
	if n > 0 {
		// What is left moves to an array of its own: a finished message must not
		// stay in memory behind the open ones.
		h.open = append([]message(nil), h.open[n:]...)
	}
}

func (h *history) finishOne(m *message) {
	for i := range m.parts {
		t := m.parts[i].tool
		if t == nil {
			continue
		}
		if place, ok := h.places()[t.callID]; ok && place.known && place.index == m.index && place.part == i {
			h.drop(t.callID)
		}
	}
	f := Finished{Index: m.index, Generation: h.generation(m.index), Data: appendMessage(nil, m)}
	h.finished = append(h.finished, f)
	h.chain = link(h.chain, f)
}

// link chains the content of one more finished message to all before it.
func link(chain [sha256.Size]byte, f Finished) [sha256.Size]byte {
	sum := sha256.New()
	sum.Write(chain[:])
	sum.Write(f.Data)
	sum.Sum(chain[:0])
	return chain
}

// places is where every call is that a record may still mean: those of this
// turn, and of the turn before those that had no outcome when it ended.
func (h *history) places() map[string]callPlace {
	if h.calls != nil {
		return h.calls
	}
	h.calls = make(map[string]callPlace)
	for i := range h.open {
		m := &h.open[i]
		for j := range m.parts {
			t := m.parts[j].tool
			if t != nil && m.index >= h.prevFirst && (m.index >= h.turnFirst || !t.state.settled()) {
				h.calls[t.callID] = callPlace{index: m.index, part: j, known: true}
			}
		}
	}
	for _, id := range h.dropped {
		h.calls[id] = callPlace{}
	}
	return h.calls
}

// drop makes further records of a call change nothing.
func (h *history) drop(callID string) {
	if place, ok := h.places()[callID]; ok && !place.known {
		return
	}
	h.calls[callID] = callPlace{}
	h.dropped = append(h.dropped, callID)
}

// place notes where a call is that starts. Its id may have been used before.
func (h *history) place(callID string, at callPlace) {
	if old, ok := h.places()[callID]; ok && !old.known {
		h.dropped = slices.DeleteFunc(h.dropped, func(id string) bool { return id == callID })
	}
	h.calls[callID] = at
}

// beginTurn forgets the calls that have their outcome, and those of the turn
// before the one that ends: they have had their time.
func (h *history) beginTurn() {
	h.prevFirst, h.turnFirst, h.shown = h.turnFirst, h.count(), noMessage
	h.dropped, h.calls = nil, nil
}

// at is the open message with an index, nil when it is finished or unknown.
func (h *history) at(index int) *message {
	if len(h.open) == 0 || index < h.open[0].index || index > h.open[len(h.open)-1].index {
		return nil
	}
	return &h.open[index-h.open[0].index]
}

// base is h without the finished messages: their number says which they were.
func (h *history) base() history {
	b := *h
	b.released, b.finished = h.finishedCount(), nil
	b.spans = slices.Clone(h.spans)
	b.dropped = slices.Clone(h.dropped)
	b.calls = nil
	b.open = make([]message, len(h.open))
	for i := range h.open {
		b.open[i] = h.open[i].clone()
	}
	return b
}

// FinishedCount is how many finished messages the session has, held or not.
func (s Snapshot) FinishedCount() int { return s.messages.finishedCount() }

// Finished are the finished messages that s holds: the last ones. They are not
// to be changed.
func (s Snapshot) Finished() []Finished { return s.messages.finished }

// Generation of finished message n, which s need not hold.
func (s Snapshot) Generation(n int) chunk.Ordinal { return s.messages.generation(n) }

// Complete reports whether s holds all its finished messages. Only then
// Frontend shows all of them.
func (s Snapshot) Complete() bool { return s.messages.released == 0 }

// Release lets go of the finished messages, which somebody has stored. The fold
// goes on without them.
func (s Snapshot) Release() Snapshot {
	s.messages.released, s.messages.finished = s.FinishedCount(), nil
	return s
}

// Missing is how many finished messages s does not hold: those before the first
// of Finished.
func (s Snapshot) Missing() int { return s.messages.released }

// Hold gives a snapshot the finished messages back that it misses: the data of
// all of them, in order. It is ErrTorn when they are not the very ones that s
// was folded with.
func (s Snapshot) Hold(missing [][]byte) (Snapshot, error) {
	h := &s.messages
	if len(missing) != h.released {
		return s, fmt.Errorf("%w: %d messages, want %d", ErrTorn, len(missing), h.released)
	}
	finished := make([]Finished, 0, h.finishedCount())
	for n, data := range missing {
		finished = append(finished, Finished{Index: n, Generation: h.generation(n), Data: data})
	}
	finished = append(finished, h.finished...)
	var chain [sha256.Size]byte
	for _, f := range finished {
		chain = link(chain, f)
	}
	if chain != h.chain {
		return s, ErrTorn
	}
	h.released, h.finished = 0, finished
	return s, nil
}

// Weight is about how many bytes of memory s takes.
func (s Snapshot) Weight() int {
	n := s.weight()
	for _, b := range []*Snapshot{s.turn, s.step} {
		if b != nil {
			n += b.weight()
		}
	}
	for i := range s.messages.finished {
		n += len(s.messages.finished[i].Data)
	}
	return n
}

func (s *Snapshot) weight() int {
	const fixed, perPart = 2048, 256
	n := fixed + len(s.State) + len(s.Run.Output) + maxErrorText*len(s.Errors)
	if s.streams.state != nil && !s.streams.shared {
		n += s.streams.state.Weight()
	}
	for i := range s.messages.open {
		m := &s.messages.open[i]
		for j := range m.parts {
			n += perPart + cap(m.parts[j].text) + len(m.parts[j].raw)
			if t := m.parts[j].tool; t != nil {
				n += len(t.input) + len(t.output) + cap(t.rawInput) + len(t.errorText)
			}
		}
		for j := range m.children {
			n += perPart + len(m.children[j].Result)
		}
	}
	return n
}
