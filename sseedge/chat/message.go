package chat

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/view"
)

// message is a MessageWriter that gets what a view shows. A stream needs the records themselves, to determine which of them belong to the message and when the
// response ends, so the view is applied last.
type message struct {
	*aisdk.MessageWriter

	view *view.Chat
}

func (m message) append(dst []byte, rec chunk.Record) []byte {
	shown, ok := m.view.Record(rec)
	if !ok {
		return m.Hide(dst, rec)
	}
	return m.Append(dst, shown)
}

func (m message) advance(rec chunk.Record) {
	shown, ok := m.view.Record(rec)
	if !ok {
		m.Hide(nil, rec)
		return
	}
	m.Advance(shown)
}

// replay is an aisdk.Replay that gets what a view shows. FindRemoved gets the records themselves: it has no output.
type replay struct {
	*aisdk.Replay

	view *view.Chat
}

func (m message) beginReplay() replay { return replay{m.BeginReplay(), m.view} }

func (r replay) scan(rec chunk.Record) {
	if shown, ok := r.view.Record(rec); ok {
		r.Scan(shown)
	}
}

func (r replay) append(dst []byte, rec chunk.Record) []byte {
	shown, ok := r.view.Record(rec)
	if !ok {
		return r.Hide(dst, rec)
	}
	return r.Append(dst, shown)
}
