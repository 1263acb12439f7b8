package fold

import (
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Window is a part of the conversation: so many messages before one of them. It
// counts messages as people are shown them.
type Window struct {
	Before  string // the id of a message; "" is behind the last one
	Limit   int    // at least 1
	Partial bool   // an answer in flight counts, too
}

// Page puts a Window together. Of the finished messages that the snapshot misses
// it needs the last ones before the window's end, how many shows when they are
// read: the steps of a turn are one message, and hidden ones are none.
//
//	page, err := snap.Page(window)
//	for from, to := page.Needs(); from < to; from, to = page.Needs() {
//		err = page.Add(read(from, to))
//	}
//	return page.Frontend(now)
type Page struct {
	snap Snapshot // whose conversation is shown
	now  Snapshot // what it was asked of

	list   []message // all from an index to the end of the window, or a longer way
	from   int       // the index
	before int       // message at the end of list that is only looked at, or noMessage

	limit int
	more  int // how many messages to ask for
}

// Page begins the page of a window. s need not be Complete. The error is
// chunk.ErrUnknownMessage when there is no message with the id, or not yet.
func (s Snapshot) Page(w Window) (*Page, error) {
	if w.Limit < 1 {
		return nil, fmt.Errorf("Limit is %d, want 1 or more", w.Limit)
	}
	at := s.shownAt(w.Partial)
	p := &Page{snap: at, now: s, before: noMessage, limit: w.Limit, more: 2*w.Limit + 2}
	end := at.messages.count()
	if w.Before != "" {
		index, ok := messageIndex(w.Before)
		p.before = index
		if !ok || p.before >= end {
			return nil, chunk.ErrUnknownMessage
		}
		end = p.before + 1
	}
	p.from = min(end, at.messages.released)
	p.list = at.all()[:end-p.from]
	if err := p.look(); err != nil {
		return nil, err
	}
	return p, nil
}

// At is the snapshot that the messages which Needs names belong to.
func (p *Page) At() Snapshot { return p.snap }

// Needs says that finished messages from..to-1 are needed next; none when from is
// to.
func (p *Page) Needs() (from, to int) {
	// The oldest that is shown may miss its beginning. But then it is one more than
	// was asked for, and only says that there are older ones.
	if len(p.snap.shownMessages(p.list)) > p.limit {
		return p.from, p.from
	}
	return max(0, p.from-p.more), p.from
}

// Add takes the data of the messages that Needs has named. It is ErrTorn when they
// are not messages of these numbers.
func (p *Page) Add(data [][]byte) error {
	older := make([]message, 0, len(data)+len(p.list))
	r := reader{}
	for i, d := range data {
		m := r.message(d)
		if n := p.from - len(data) + i; r.err != nil || m.index != n {
			return fmt.Errorf("%w: message %d cannot be read", ErrTorn, n)
		}
		older = append(older, m)
	}
	p.list, p.from = append(older, p.list...), p.from-len(data)
	p.more *= 2
	return p.look()
}

// look checks that the message which the window ends before has its id, and lets
// go of it. A later step of a turn is shown under the id of the first one.
func (p *Page) look() error {
	if p.before == noMessage || len(p.list) == 0 {
		return nil
	}
	last := len(p.list) - 1
	if p.list[last].shown != p.before {
		return chunk.ErrUnknownMessage
	}
	p.list, p.before = p.list[:last], noMessage
	return nil
}

// Frontend is what a browser loads, with the messages of the window alone, and
// the sub-agents that they called.
func (p *Page) Frontend(timestamp int64) FrontendSnapshot {
	messages, list, older := p.snap.shownMessages(p.list), p.list, ""
	if n := len(messages) - p.limit; n > 0 {
		messages = slices.Clip(messages[n:])
		older = messages[0].ID
		first := slices.IndexFunc(list, func(m message) bool { return MessageID(m.shown) == older })
		list = list[first:]
	}
	f := p.snap.frontend(&p.now, list, timestamp)
	f.Messages, f.Before = messages, &older
	return f
}
