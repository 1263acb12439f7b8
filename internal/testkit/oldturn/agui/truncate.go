package agui

import (
	"slices"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// truncated handles the removal of records: the step that a crashed worker left unfinished. The protocol has no event that removes messages without naming all
// others, which a Writer of one turn does not have; the client gets a CUSTOM event and loads the snapshot. The state becomes that without the removed records,
// so that a Writer which never saw them writes the same.
func (w *Writer) truncated(it *item) {
	c, err := it.rec.Decode()
	if err != nil {
		return
	}
	b, _ := chunk.As[chunk.Truncated](c)
	taken := func(o chunk.Ordinal) bool {
		return o > 0 && o < it.rec.Ordinal && slices.ContainsFunc(b.Removed, func(r chunk.OrdinalRange) bool {
			return r.First <= int64(o) && int64(o) <= r.Last
		})
	}
	a := &w.own
	w.closeStepName(a)
	a.closeStep()
	a.step = 0
	w.discardCalls(taken)
	a.hidden.Remove(taken)
	for _, s := range w.order {
		if s.child.running && s.child.by == a && taken(s.child.at) {
			if w.open {
				w.suspend(s)
			}
			s.child.running = false
		}
	}
	if taken(w.streamAt) {
		w.restoreStreams(taken)
	}
	if !w.ended {
		w.start()
		w.lifecycleEvent(it)
	}
}

// discardCalls reverts the changes of removed records to the calls of the session.
func (w *Writer) discardCalls(taken func(chunk.Ordinal) bool) {
	for _, c := range slices.Clone(w.openCalls) {
		switch {
		case !c.by.own():
		case taken(c.begunAt):
			w.callEnd(c, nil)
			w.removeCall(c)
		default:
			c.streaming = false
			c.sent = c.sent && !taken(c.sentAt)
			if taken(c.approvalAt) {
				c.approvalID, c.approved = nil, false
			}
		}
	}
	var again []*call
	for id, f := range w.finished {
		switch {
		case !f.by.own():
		case taken(f.begunAt):
			delete(w.finished, id)
		case taken(f.completedAt):
			delete(w.finished, id)
			again = append(again, &call{
				key: callKey{id: f.id}, suffix: f.suffix, by: f.by, of: f.of, name: f.name, delegated: f.delegated,
				begun: true, broken: true, begunAt: f.begunAt,
			})
		}
	}
	slices.SortFunc(again, func(a, b *call) int {
		if a.begunAt != b.begunAt {
			return int(a.begunAt) - int(b.begunAt)
		}
		return strings.Compare(a.key.id, b.key.id)
	})
	for _, c := range again {
		w.addCall(c)
	}
	for key := range w.reused {
		for n := w.reused[key]; n >= 1; n-- {
			id := key.shownID(n)
			if _, done := w.finished[id]; w.shown[id] || done {
				w.reused[key] = n
				break
			}
			delete(w.reused, key)
		}
	}
}
