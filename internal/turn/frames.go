package turn

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

	// Merge extends a piece of a text by those that follow it, see Grow: the frames of a history.
	Merge bool

	last int // where the last event of the record begins, -1 for none
	at   chunk.Cursor
	tail tail
}

// PieceOf names a text: what it belongs to, and the sequence of its first piece if there are several.
type PieceOf struct {
	Part any
	At   chunk.Seq
}

// tail is a piece at the end of the frames that may be extended. It gets its id when it is complete.
type tail struct {
	of PieceOf // without a part: there is none
	at int
	id chunk.Cursor // of the last record in it
}

// Begin begins the frames of the record with a cursor, after dst. The zero cursor is for frames without an id.
func (f *Frames) Begin(dst []byte, at chunk.Cursor) { f.Dst, f.last, f.at = dst, -1, at }

// Open begins an event with the member "type". The caller adds other members, and Shut ends it.
func (f *Frames) Open(kind string) {
	f.Release()
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

// Piece ends the open event with a piece of a text, the content of a JSON string.
func (f *Frames) Piece(name string, content []byte, of PieceOf) {
	f.Content(name, content)
	f.Shut()
	if f.Merge {
		f.tail = tail{of, f.last, f.at}
		f.last = -1
	}
}

// Grow extends the last event if it is a piece of the same text, whose last member has the text. This joins the halves of a surrogate pair of two records.
func (f *Frames) Grow(content []byte, of PieceOf) bool {
	const end = "\"}\n\n"
	if !f.Merge || f.tail.of != of {
		return false
	}
	f.Dst = append(append(f.Dst[:len(f.Dst)-len(end)], content...), end...)
	f.tail.id = f.at
	return true
}

// Complete reports whether no later record extends the last event.
func (f *Frames) Complete() bool { return f.tail.of.Part == nil }

// Release gives the piece at the end of the frames its id, unless it is of the current record: then the id is for the last event of the record.
func (f *Frames) Release() {
	if f.Complete() {
		return
	}
	if f.tail.id != f.at {
		f.identify(f.tail.at, f.tail.id)
	}
	f.tail = tail{}
}

// Last returns the last event of the record, without its id.
func (f *Frames) Last() []byte { return f.Dst[f.last:] }

// Again appends an event that Last returned.
func (f *Frames) Again(event []byte) {
	f.Release()
	f.last = len(f.Dst)
	f.Dst = append(f.Dst, event...)
}

// Bare leaves the events so far without an id.
func (f *Frames) Bare() { f.last = -1 }

// End gives the last event of the record its id and returns all frames. With the id on an earlier event, a connection that breaks between the two would lose the
// rest. With IDAfter, call it before Mark, so that a client that stops reading at [DONE] has the id.
func (f *Frames) End() []byte {
	f.Identify()
	dst := f.Dst
	f.Dst = nil
	return dst
}

// IdentifyEmpty writes the id of the record as an event of its own if the record has no other.
func (f *Frames) IdentifyEmpty() {
	if f.last < 0 && f.at.Seq > 0 {
		f.Dst = append(f.at.Append(append(f.Dst, "id: "...)), "\n\n"...)
	}
}

// Identify writes the id of the record now, because what follows is not part of it.
func (f *Frames) Identify() {
	if f.last < 0 || f.at.Seq == 0 {
		return
	}
	f.identify(f.last, f.at)
	f.last = -1
}

func (f *Frames) identify(at int, id chunk.Cursor) {
	var buf [48]byte
	line := append(buf[:0], "id: "...)
	line = append(id.Append(line), '\n')
	if f.IDAfter {
		f.Dst = append(append(f.Dst, line...), '\n')
	} else {
		f.Dst = slices.Insert(f.Dst, at, line...)
	}
}
