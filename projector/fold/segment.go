package fold

import (
	"slices"
	"sort"
)

// A segment is a run of parts of an assistant message, stored before the message is complete: the message of a step with
// thousands of calls would otherwise be in the head as a whole until the step ends, and each save would write it again.
//
// Only parts that no record can change are in a segment, and all parts before them: closed text, calls with an outcome, and raw
// parts. The bounds of the segments follow from the parts alone, and not from the time at which they are sealed, so that a fold
// that seals late, because it waits for a truncated record, stores the same segments. A truncated record rolls back to a copy of
// the snapshot from before the removed records; that copy has the segments of its time.
//
// The list of what is stored has, for each message, its segments and then the rest of it. A segment has the members of the
// message that never change, and "from", the number of parts before it.

// Bounds of a segment: it ends with the part that reaches one of them. Variables for tests.
var (
	segmentParts = 64
	segmentBytes = 64 << 10
)

// openBytes bounds what is open: each time that chunk.Record.SessionBytes passes a multiple of it, the open messages are finished if the head has more than twice as
// many bytes of them, or eight times as many while calls are open, because a call that is still open moves behind what is finished. A variable for tests.
var openBytes int64 = 2 << 20

// boundOpen finishes all open messages if they are large, after a record that followed one with the given chunk.Record.SessionBytes. What follows is a message of
// its own, which is shown in the same answer: it has the open calls, and the rest of a text as another part. Without it, a text without an end, or a call without an
// outcome and all that follows it, is in the head and in its copies up to the limit of the session.
//
// Like the bounds of segments, this depends on the records alone, and waits while a gap is unexplained.
func (s *Snapshot) boundOpen(before int64) {
	opened := s.turn != nil && s.turn.Position == s.Position // the copy is the state after this record
	if before/openBytes == s.SessionBytes/openBytes || opened || s.mustDefer() {
		return
	}
	most := 2 * openBytes
	if len(s.OpenCalls()) > 0 {
		most = 8 * openBytes
	}
	if s.openSize() <= most {
		return
	}
	h := &s.messages
	moved := message{role: Assistant, shown: h.shown, closed: h.openMessage() == nil}
	h.close()
	h.takeCalls(&moved)
	h.finish(h.count())
	if len(moved.parts) > 0 {
		moved.index, moved.first, moved.last = h.count(), s.Position.Seq, s.Position.Seq
		h.open = append(h.open, moved)
		h.calls = nil
	}
	s.forgetPending()
}

// takeCalls moves the open calls of the answer, with their sub-agents, to a message. It leaves calls that exceed openBytes: nothing can answer them any more, and
// their outcomes are those of unknown calls.
func (h *history) takeCalls(to *message) {
	size := int64(0)
	for i := range h.open {
		m := &h.open[i]
		var rest []part
		for j, p := range m.parts {
			isCall := m.shown == to.shown && h.isOpenCall(m, j)
			if isCall {
				size += int64(len(storedMessage(&message{parts: []part{p}})))
			}
			if !isCall || size > openBytes {
				rest = append(rest, p)
				continue
			}
			to.parts = append(to.parts, p)
			m.children = slices.DeleteFunc(m.children, func(c Child) bool {
				isOf := c.CallID == p.tool.ID && c.Status == ChildRunning
				if isOf {
					to.children = append(to.children, c)
				}
				return isOf
			})
		}
		m.parts = rest
	}
	h.calls = nil
}

// openSize returns the bytes of the open messages in the head, and in the copies in it.
func (s *Snapshot) openSize() (n int64) {
	for _, of := range []*Snapshot{s, s.turn, s.step} {
		if of == nil {
			continue
		}
		for i := range of.messages.open {
			n += int64(len(storedMessage(&of.messages.open[i])))
		}
	}
	return n
}

// add appends a part to an open message.
func (h *history) add(m *message, p part) {
	m.parts = append(m.parts, p)
	h.changed = true // the parts before it may be a segment
}

// seal stores the segments of m that are complete. m must be the first open message.
func (h *history) seal(m *message) {
	for n := m.segment(); n > 0; n = m.segment() {
		h.dropCalls(m, n)
		h.store(&message{
			index: m.index, shown: m.shown, role: m.role, clientID: m.clientID, // the metadata may still change: the last parts have it
			sealed: m.sealed, parts: m.parts[:n], first: m.first, closed: true,
		})
		h.segments++
		// A new array: the old one would keep the sealed parts in memory.
		m.sealed, m.parts = m.sealed+n, slices.Clone(m.parts[n:])
		if m.text > 0 {
			m.text -= n
		}
	}
}

// segment returns the number of parts of the next segment of m, 0 if a record can still change one of them or no part follows
// them.
func (m *message) segment() int {
	if m.role != Assistant {
		return 0
	}
	size := 0
	for i := range m.parts {
		if i == len(m.parts)-1 || !m.parts[i].isFinal() {
			break
		}
		if size += m.parts[i].size(); i+1 == segmentParts || size >= segmentBytes {
			return i + 1
		}
	}
	return 0
}

// isFinal reports whether no record can change p.
func (p *part) isFinal() bool {
	if p.tool != nil {
		return p.tool.State.hasOutcome()
	}
	return !p.open
}

// size returns the number of bytes of the content of p.
func (p *part) size() int {
	n := len(p.text) + len(p.raw) + len(p.meta)
	if t := p.tool; t != nil {
		n += len(t.rawInput) + len(t.Input) + len(t.Output) + len(t.Error)
		for _, m := range t.Extra {
			n += len(m.Value)
		}
	}
	return n
}

// from returns the messages in memory from an index on. It decodes the finished ones. The first one may lack its first segments.
func (s *Snapshot) from(index int) []message {
	h, r := &s.messages, reader{}
	// The first entry of a message is at its index or later.
	start := min(max(0, index-h.trimmed), len(h.finished))
	if h.segments > 0 {
		start += sort.Search(len(h.finished)-start, func(i int) bool {
			m := r.message(h.finished[start+i].Data)
			return m.index >= index
		})
	}
	list := make([]message, 0, len(h.finished)-start+len(h.open))
	for _, f := range h.finished[start:] {
		list = appendSegment(list, r.message(f.Data))
	}
	for i := range h.open {
		if h.open[i].index >= index {
			list = appendSegment(list, h.open[i])
		}
	}
	return list
}

// appendSegment appends a message, or the next segment of the last one.
func appendSegment(list []message, m message) []message {
	if n := len(list); n > 0 && list[n-1].index == m.index {
		list[n-1] = list[n-1].join(&m)
		return list
	}
	return append(list, m)
}

// join returns the message with the segments m and next. It appends to the parts of m, which must have been decoded.
func (m *message) join(next *message) message {
	joined := *next
	joined.sealed, joined.parts = m.sealed, m.parts
	joined.parts = append(joined.parts, next.parts...)
	if next.text > 0 {
		joined.text += len(m.parts)
	}
	return joined
}

// precedes reports whether next follows m without a gap.
func (m *message) precedes(next *message) bool {
	if next.sealed > 0 {
		return m.index == next.index && m.sealed+len(m.parts) == next.sealed
	}
	return m.index+1 == next.index
}
