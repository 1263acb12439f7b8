package observe

import (
	"maps"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// truncated applies a cleanup: what began in the removed records is forgotten, and what ended there is open again.
func (f *Folder) truncated(s *session, b chunk.Truncated) {
	for _, r := range b.Removed {
		f.b.Gaps = append(f.b.Gaps, row.Gap{Place: f.place, Reason: row.Removed, FromOrdinal: r.First, ToOrdinal: r.Last})
	}
	gone := func(o chunk.Ordinal) bool { return o > 0 && b.Removes(o) }
	began := func(o *row.Observation) bool { return o != nil && gone(chunk.Ordinal(o.FirstOrdinal)) }
	maps.DeleteFunc(s.calls, func(_ string, c *call) bool { return began(&c.row) })
	if s.run != nil {
		if s.run.step != nil && began(&s.run.step.row) {
			s.run.step = nil
		}
		s.run.marks = slices.DeleteFunc(s.run.marks, func(m mark) bool { return gone(m.ordinal) })
	}
	for _, c := range slices.SortedFunc(maps.Values(s.calls), func(a, b *call) int { return int(a.row.FirstOrdinal - b.row.FirstOrdinal) }) {
		f.undo(c, gone, began)
	}
}

// undo opens a call again whose outcome, or whose decision, was removed.
func (f *Folder) undo(c *call, gone func(chunk.Ordinal) bool, began func(*row.Observation) bool) {
	for _, w := range []*wait{&c.approval, &c.client} {
		switch {
		case began(w.row):
			*w = wait{}
		case gone(w.decidedAt):
			w.decidedAt = 0
			o := w.row
			open(o)
			o.Approved, o.DecidedAutomatically, o.Status = nil, nil, row.Waiting
			f.emit(o)
		}
	}
	if gone(c.outcomeAt) {
		c.outcomeAt = 0
		open(&c.row)
		f.emit(&c.row)
	}
}

// open removes the end from a row.
func open(o *row.Observation) {
	o.Status, o.Level, o.StatusMessage, o.ErrorCode = row.Running, levelDefault, "", ""
	o.EndTime, o.DurationMS, o.Output, o.OutputBytes = nil, nil, "", nil
}
