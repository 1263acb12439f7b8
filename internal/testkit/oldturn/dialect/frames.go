package dialect

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Frames builds the server-sent events of one record after another. An event is one line "data: " with a JSON object, so that clients that read frames with
// string operations accept it.
//
//	f.Begin(dst, rec.Cursor())
//	f.Open("text-delta")
//	f.Content("delta", piece)
//	f.Shut()
//	return f.End()
type Frames struct {
	rawjson.Object // of the open event

	// IDAfter writes the cursor of a record as an event of its own after the last one, "id: 17-mgj6k3gb". The clients of Kortyx and Mastra lose an event that
	// has an id line; a browser stores the cursor of an event without data too. Otherwise the cursor is the id of the last event.
	IDAfter bool

	last int // where the last event of the record begins, -1 for none
	at   chunk.Cursor
}

// Begin begins the frames of the record with a cursor, after dst. The zero cursor is for frames without an id.
func (f *Frames) Begin(dst []byte, at chunk.Cursor) { f.Dst, f.last, f.at = dst, -1, at }

// Open begins an event with the member "type". The caller adds other members, and Shut ends it.
func (f *Frames) Open(kind string) {
	f.last = len(f.Dst)
	f.Dst = append(f.Dst, `data: {"type":"`...)
	f.Dst = append(f.Dst, kind...)
	f.Dst = append(f.Dst, '"')
}

// Shut ends the open event.
func (f *Frames) Shut() { f.Dst = append(f.Dst, "}\n\n"...) }

// Mark appends an event that is not JSON, such as [DONE]. It has no id.
func (f *Frames) Mark(text string) {
	f.Dst = append(f.Dst, "data: "...)
	f.Dst = append(f.Dst, text...)
	f.Dst = append(f.Dst, "\n\n"...)
}

// End gives the last event of the record its id and returns all frames. With the id on an earlier event, a connection that breaks between the two would lose the
// rest. With IDAfter, call it before Mark, so that a client that stops reading at [DONE] has the id.
func (f *Frames) End() []byte {
	f.Identify()
	dst := f.Dst
	f.Dst = nil
	return dst
}

// Identify writes the id of the record now, because what follows is not part of it.
func (f *Frames) Identify() {
	if f.last < 0 || f.at.Seq == 0 {
		return
	}
	var buf [48]byte
	line := append(buf[:0], "id: "...)
	line = append(f.at.Append(line), '\n')
	if f.IDAfter {
		f.Dst = append(append(f.Dst, line...), '\n')
	} else {
		f.Dst = slices.Insert(f.Dst, f.last, line...)
	}
	f.last = -1
}
