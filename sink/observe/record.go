package observe

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// record is the record that is being appended, decoded at most once.
type record struct {
	cfg  *Config
	b    *row.Batch // nil: no rows are wanted
	rec  chunk.Record
	tree *tree

	c       chunk.Chunk
	decoded bool
	valid   bool

	asked    bool // of the view: shownRec and visible are known
	shownRec chunk.Record
	visible  bool
	shown    *chunk.Chunk // nil: nothing is shown, or it is not decoded yet
	read     bool         // shown is decoded
}

// decode reads the chunk, and reports whether it is valid.
func (f *record) decode() bool {
	if !f.decoded {
		c, err := f.rec.Decode()
		f.decoded, f.valid = true, err == nil && c.Type() == f.rec.Type
		if f.valid {
			f.c = c
		}
	}
	return f.valid
}

// show returns the record under the view, and false if the view does not show it.
func (f *record) show() (chunk.Record, bool) {
	if !f.asked {
		f.asked, f.shownRec, f.visible = true, f.rec, true
		if f.cfg.Show != nil {
			f.shownRec, f.visible = f.cfg.Show(f.rec)
		}
	}
	return f.shownRec, f.visible
}

// content returns what the view shows of the record, nil for nothing.
func (f *record) content() *chunk.Chunk {
	if f.read {
		return f.shown
	}
	f.read = true
	rec, ok := f.show()
	switch {
	case !ok:
	case len(rec.Data) == len(f.rec.Data) && len(rec.Data) > 0 && &rec.Data[0] == &f.rec.Data[0]: // the view hides nothing of it
		if f.decode() {
			f.shown = &f.c
		}
	default:
		if c, err := rec.Decode(); err == nil {
			f.shown = &c
		}
	}
	return f.shown
}

// shownBody returns the body of what the view shows, zero for nothing.
func shownBody[T chunk.Body](f *record) T {
	var zero T
	if c := f.content(); c != nil {
		b, _ := chunk.As[T](*c)
		return b
	}
	return zero
}

// time returns when the record was written, by the clock of its writer.
func (f *record) time() time.Time {
	if f.decode() && f.c.Timestamp > 0 {
		return time.UnixMilli(f.c.Timestamp).UTC()
	}
	return f.rec.StoredAt.UTC()
}

func (f *Folder) place() row.Place { return row.PlaceOf(f.cfg.Position, f.rec) }

// gap adds a row of gaps.
func (f *Folder) gap(g row.Gap) {
	if f.b != nil {
		g.Place = f.place()
		f.b.Gaps = append(f.b.Gaps, g)
	}
}

// event adds the row of the record.
func (f *Folder) event(s *session, fenced bool) {
	if !f.cfg.Deltas && f.isPiece() || f.rec.Type == chunk.TypeSessionSeed { // the messages are in the rows of the other session
		return
	}
	e := row.Event{
		Place: f.place(), Epoch: int64(f.rec.Epoch), Ordinal: int64(f.rec.Ordinal), Type: row.Text(string(f.rec.Type)), Time: f.time(),
		Fenced: fenced, Bytes: int64(len(f.rec.Data)), TurnID: s.turnID, TraceID: s.traceID, Body: f.body(),
	}
	if f.decode() {
		e.AgentType, e.Step = row.Text(f.c.AgentType), f.c.Step
	}
	if run := s.at(s.run); run != nil {
		e.RunID = run.row.RunID
	}
	f.b.Events = append(f.b.Events, e)
}

// isPiece reports whether the record is a piece of a text, whose number is a multiple of that of all other records.
func (f *record) isPiece() bool {
	switch f.rec.Type {
	case chunk.TypeTextDelta, chunk.TypeToolArgStreamDelta:
		return true
	case chunk.TypeThinking:
		f.decode()
		b, ok := chunk.As[chunk.Thinking](f.c)
		return !ok || !b.IsComplete
	}
	return false
}

// body returns the body of the row of the record, "" for one that is not JSON.
func (f *record) body() row.JSON {
	rec, ok := f.show()
	if !ok || !f.decode() && !jsontext.Value(rec.Data).IsValid() {
		return ""
	}
	return row.JSON(rec.Data)
}
