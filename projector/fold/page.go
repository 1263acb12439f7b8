package fold

import (
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// PageQuery selects a part of the conversation: a number of messages before one of them. It counts messages as they are shown
// to users.
type PageQuery struct {
	Before  string // the id of a message; "" for after the last one
	Limit   int    // at least 1
	Partial bool   // include an answer in flight
}

// MessagePage builds a page. It needs the last finished messages before the end of the page that the snapshot does not hold.
// Their number is known only after reading them: the steps of a turn are shown as one message, and hidden messages are not
// shown.
//
//	page, err := snap.MessagePage(query)
//	for from, to := page.MissingRange(); from < to; from, to = page.MissingRange() {
//		err = page.AddMessages(read(from, to))
//	}
//	return aisdk.Page(page, now)
type MessagePage struct {
	snap Snapshot // the snapshot whose messages are shown
	now  Snapshot // the current snapshot

	list   []message // all messages from one on to the end of the page; the first one may lack its first segments
	from   int       // Index of the first of them in the list of what is stored
	end    int       // index of the message after the page
	before int       // last message of list, which is only checked, or noMessage

	// While list is empty and it is unknown where the message before end ends, from is the highest possible Index after it, and
	// low the lowest; otherwise both are equal.
	low int

	limit     int
	batchSize int // number of messages to request
}

// MessagePage starts a page. s need not be HasAllMessages. It returns chunk.ErrUnknownMessage if there is no message with the
// id of w.Before.
func (s Snapshot) MessagePage(w PageQuery) (*MessagePage, error) {
	if w.Limit < 1 {
		return nil, fmt.Errorf("Limit is %d, want 1 or more", w.Limit)
	}
	at := s
	if !w.Partial {
		at = s.BeforeAnswer()
	}
	p := &MessagePage{snap: at, now: s, before: noMessage, limit: w.Limit, batchSize: 2*w.Limit + 2}
	p.end = at.messages.count()
	if w.Before != "" {
		index, ok := messageIndex(w.Before)
		p.before = index
		if !ok || p.before >= p.end {
			return nil, chunk.ErrUnknownMessage
		}
		p.end = p.before + 1
	}
	p.list = at.all()
	p.list = p.list[:len(p.list)-min(len(p.list), at.messages.count()-p.end)]
	if p.from = at.messages.trimmed; len(p.list) == 0 && p.end < at.messages.count() {
		p.from, p.low = min(p.from, p.end+at.messages.segments), min(p.from, p.end)
	} else {
		p.low = p.from
	}
	if err := p.checkBefore(); err != nil {
		return nil, err
	}
	return p, nil
}

// Snapshot returns the snapshot whose messages are shown, and which MissingRange names.
func (p *MessagePage) Snapshot() Snapshot { return p.snap }

// Current returns the snapshot with the answer in flight.
func (p *MessagePage) Current() Snapshot { return p.now }

// MissingRange returns that finished messages from..to-1 are needed next; none if from equals to.
func (p *MessagePage) MissingRange() (from, to int) {
	// The first step of the oldest visible message may be missing. But that message is one more than requested, and only shows
	// that older ones exist.
	if len(p.snap.shown(p.list)) > p.limit {
		return p.from, p.from
	}
	if p.low < p.from {
		middle := (p.low + p.from) / 2
		return middle, middle + 1
	}
	return max(0, p.from-p.batchSize), p.from
}

// AddMessages adds the data of the messages that MissingRange has named. It returns ErrInconsistent if they have other indexes.
func (p *MessagePage) AddMessages(data [][]byte) error {
	if p.low < p.from {
		return p.search(data)
	}
	older := make([]message, 0, len(data)+len(p.list))
	r := reader{}
	next := &message{index: p.end}
	if len(p.list) > 0 {
		next = &p.list[0]
	}
	decoded := make([]message, len(data))
	for i, d := range slices.Backward(data) {
		n := p.from - len(data) + i
		m := &decoded[i]
		if *m = r.message(d); r.err != nil || !m.precedes(next) || m.index > n || m.index < n-p.snap.messages.segments {
			return fmt.Errorf("%w: message %d cannot be read", ErrInconsistent, n)
		}
		next = m
	}
	for _, m := range decoded {
		older = appendSegment(older, m)
	}
	for _, m := range p.list {
		older = appendSegment(older, m)
	}
	p.list, p.from = older, p.from-len(data)
	p.low = p.from
	p.batchSize *= 2
	return p.checkBefore()
}

// search halves the range in which the page ends.
func (p *MessagePage) search(data [][]byte) error {
	r := reader{}
	middle := (p.low + p.from) / 2
	if len(data) != 1 {
		return fmt.Errorf("%w: %d messages, want 1", ErrInconsistent, len(data))
	}
	m := r.message(data[0])
	switch {
	case r.err != nil:
		return fmt.Errorf("%w: message %d cannot be read", ErrInconsistent, middle)
	case m.index < p.end:
		p.low = middle + 1
	default:
		p.from = middle
	}
	return nil
}

// checkBefore checks that the message before which the page ends has its id, and removes it from the list. A later step of a
// turn is shown under the id of the first one.
func (p *MessagePage) checkBefore() error {
	if p.before == noMessage || len(p.list) == 0 {
		return nil
	}
	last := len(p.list) - 1
	if p.list[last].shown != p.before {
		return chunk.ErrUnknownMessage
	}
	if p.list[last].sealed > 0 { // its first segments are not needed: search for the message before it
		p.low = min(p.from, p.before)
	}
	p.list, p.end, p.before = p.list[:last], p.before, noMessage
	return nil
}

// Messages returns the messages of the page, and the hidden and replaced ones between them. older is the id to request the page
// before it with, "" if there are no older messages.
func (p *MessagePage) Messages() (list []Message, older string) {
	shown, first := p.snap.shown(p.list), 0
	if n := len(shown) - p.limit; n > 0 {
		older = MessageID(shown[n])
		first = slices.IndexFunc(p.list, func(m message) bool { return m.shown == shown[n] })
	}
	return p.snap.typedAll(p.list[first:]), older
}

// shown returns the indexes under which users see the messages of a list: the steps of a turn are shown as one message, hidden,
// replaced and empty ones are not shown.
func (s *Snapshot) shown(list []message) []int {
	var out []int
	for i := range list {
		m := &list[i]
		if len(m.parts) == 0 || isHidden(m.metadata) || s.isReplaced(m.index) {
			continue
		}
		if n := len(out); n == 0 || out[n-1] != m.shown {
			out = append(out, m.shown)
		}
	}
	return out
}
