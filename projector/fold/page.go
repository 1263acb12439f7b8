package fold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// PageQuery selects a part of the conversation: a number of messages before one of them. It counts messages as they are shown
// to users.
type PageQuery struct {
	Before  string // the id of a message, or a position in one that MessagePage.Messages returned; "" for after the last one
	Limit   int    // at least 1
	Parts   int    // the maximum number of parts, so that the page can begin in a message; 0 for no limit
	Partial bool   // include an answer in flight
	Branch  string // the id of a message: its latest branch is shown; "" for that of the latest message
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
	clip   int       // number of parts of the last message before end that are in the page, 0 for all
	before int       // the message of PageQuery.Before, until it is checked, or noMessage: with clip that in which the page ends is shown in it

	// While list is empty and it is unknown where the message before end ends, from is the highest possible Index after it, and
	// low the lowest; otherwise both are equal.
	low int

	limit     int
	parts     int // PageQuery.Parts
	batchSize int // number of messages to request
}

// MessagePage starts a page. s need not be HasAllMessages. It returns chunk.ErrUnknownMessage if there is no message with the
// id of w.Before.
func (s Snapshot) MessagePage(w PageQuery) (*MessagePage, error) {
	if w.Limit < 1 {
		return nil, fmt.Errorf("Limit is %d, want 1 or more", w.Limit)
	}
	if w.Branch != "" {
		var err error
		if s, err = s.OnBranch(w.Branch); err != nil {
			return nil, err
		}
	}
	at := s
	if !w.Partial {
		at = s.BeforeAnswer()
	}
	if w.Parts < 0 {
		return nil, fmt.Errorf("Parts is %d, want 0 or more", w.Parts)
	}
	p := &MessagePage{snap: at, now: s, before: noMessage, limit: w.Limit, parts: w.Parts, batchSize: 2*w.Limit + 2}
	if w.Parts > 0 {
		p.batchSize = min(p.batchSize, w.Parts/segmentParts+2)
	}
	p.end = at.messages.count()
	if w.Before != "" {
		before, ok := parsePagePosition(w.Before)
		if !ok || before.index >= p.end {
			return nil, chunk.ErrUnknownMessage
		}
		p.before, p.end, p.clip = before.shown, before.index+1, before.parts
	}
	p.list = at.all()
	p.list = p.list[:len(p.list)-min(len(p.list), at.messages.count()-p.end)]
	if p.from = at.messages.trimmed; len(p.list) == 0 && (p.end < at.messages.count() || p.clip > 0) {
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
	// that older ones exist. The same holds for the oldest part.
	if len(p.snap.shown(p.list)) > p.limit || p.parts > 0 && p.snap.shownParts(p.list) > p.parts {
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
	case m.index < p.end-1, m.index == p.end-1 && (p.clip == 0 || m.sealed < p.clip):
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
	m := &p.list[last]
	if m.shown != p.before {
		return chunk.ErrUnknownMessage
	}
	if p.clip > 0 {
		if n := p.clip - m.sealed; n > 0 {
			m.parts = m.parts[:min(n, len(m.parts))]
			p.before = noMessage
		} else { // the page ends in an earlier segment: search for it
			p.list, p.low = p.list[:last], min(p.from, m.index)
		}
		return nil
	}
	if m.sealed > 0 { // its first segments are not needed: search for the message before it
		p.low = min(p.from, p.before)
	}
	p.list, p.end, p.before = p.list[:last], p.before, noMessage
	return nil
}

// Messages returns the messages of the page, and the hidden and replaced ones between them. older is the position to request the
// page before it with, "" if there are no older messages. With PageQuery.Parts the first message may lack its first parts: then
// older is a position in it, which begins with its id and a slash.
func (p *MessagePage) Messages() (list []Message, older string) {
	shown, first := p.snap.shown(p.list), 0
	if n := len(shown) - p.limit; n > 0 {
		older = MessageID(shown[n])
		first = slices.IndexFunc(p.list, func(m message) bool { return m.shown == shown[n] })
	}
	from := p.list[first:]
	if p.parts > 0 {
		if last, cutOlder := p.lastParts(from); cutOlder != "" {
			from, older = last, cutOlder
		}
	}
	return p.snap.typedAll(from), older
}

// lastParts returns the end of a list that has the maximum number of parts, and the position before it, "" if that is the whole
// list.
func (p *MessagePage) lastParts(list []message) (last []message, older string) {
	left := p.parts
	first := -1 // the oldest message with a part in the page
	for i := range slices.Backward(list) {
		m := &list[i]
		switch n := len(m.parts); {
		case !p.snap.isShown(m):
			continue
		case n <= left:
			left, first = left-n, i
		case left > 0:
			cut := *m
			cut.sealed, cut.parts = m.sealed+n-left, m.parts[n-left:]
			return append([]message{cut}, list[i+1:]...), pagePosition{m.shown, m.index, cut.sealed}.String()
		case m.shown != list[first].shown:
			return list[first:], MessageID(list[first].shown)
		default:
			return list[first:], pagePosition{m.shown, m.index, m.sealed + n}.String()
		}
	}
	return list, ""
}

// pagePosition is the position at which a page ends: before a message, or after a number of its parts.
type pagePosition struct {
	shown int // the message that users see it in
	index int // the same, or a later step of it
	parts int // 0: before the message
}

// String returns msg-3/17/640: after 640 parts of message 17, which is shown in message 3.
func (p pagePosition) String() string {
	return fmt.Sprintf("%s/%d/%d", MessageID(p.shown), p.index, p.parts)
}

func parsePagePosition(text string) (p pagePosition, ok bool) {
	id, inside, isInside := strings.Cut(text, "/")
	if p.shown, ok = MessageIndex(id); !ok || !isInside {
		p.index = p.shown
		return p, ok
	}
	index, parts, _ := strings.Cut(inside, "/")
	p.index, ok = MessageIndex(messagePrefix + index)
	if n, err := strconv.ParseInt(parts, 10, 32); err == nil && n > 0 {
		p.parts = int(n)
	}
	return p, ok && p.index >= p.shown && p.String() == text && p.parts > 0
}

// shown returns the indexes under which users see the messages of a list: the steps of a turn are shown as one message, hidden,
// replaced and empty ones are not shown.
func (s *Snapshot) shown(list []message) []int {
	var out []int
	for i := range list {
		m := &list[i]
		if n := len(out); s.isShown(m) && (n == 0 || out[n-1] != m.shown) {
			out = append(out, m.shown)
		}
	}
	return out
}

func (s *Snapshot) isShown(m *message) bool {
	return len(m.parts) > 0 && (m.role != User || !IsHidden(m.metadata)) && !s.isReplaced(m.index)
}

// shownParts returns the number of parts that users see of a list.
func (s *Snapshot) shownParts(list []message) (n int) {
	for i := range list {
		if m := &list[i]; s.isShown(m) {
			n += len(m.parts)
		}
	}
	return n
}
