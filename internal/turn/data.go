package turn

import (
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/structured"
)

// dataBefore is the structured data before a step. A crashed worker leaves at most one step whose records are removed.
type dataBefore struct {
	at      chunk.Ordinal // latest record of it
	streams *structured.State
}

// keep keeps the structured data before a step. It is copied when the step changes it: most steps do not.
func (d *data) keep() { d.before = dataBefore{d.at, d.streams} }

// mutable returns the structured data to change.
func (d *data) mutable() *structured.State {
	switch d.streams {
	case nil:
		d.streams = &structured.State{}
	case d.before.streams:
		d.streams = d.streams.Clone()
	}
	return d.streams
}

// remove reverts the changes of removed records.
func (d *data) remove(taken func(chunk.Ordinal) bool) {
	if !taken(d.at) {
		return
	}
	if taken(d.before.at) {
		d.before = dataBefore{}
	}
	d.streams, d.at = d.before.streams, d.before.at
}

// isPart reports whether the snapshot has a part for the event.
func (k DataKind) isPart() bool { return k == DataPart || k == ValuePart || k == InvalidPart }

// custom handles an event of the application. It does not end the text around it.
func (m *Machine) custom(it *Item) {
	is, stream := m.structured(it)
	if is.isPart() {
		it.By.openStep(it)
	}
	m.emit(&Event{Kind: Data, Item: it, Is: is, Stream: stream})
	if is == ValuePart {
		m.data.streams.ReleaseValue(stream.Labels.StreamID)
	}
}

// structured follows the structured data of an event. The value of a stream that is complete is released by the caller.
func (m *Machine) structured(it *Item) (DataKind, *structured.Stream) {
	d, name := &m.data, it.Text("eventName")
	switch {
	case !it.By.Own() || name != structured.PieceEvent && name != structured.InvalidatedEvent:
		return DataPart, nil
	case name == structured.PieceEvent:
		d.at = it.Rec.Ordinal
		stream, err := d.mutable().ApplyStream(it.OrNull("data"))
		switch {
		case err != nil:
			return NoPart, nil // the snapshot counts an error
		case stream.Status() != structured.Final:
			return PiecePart, stream
		}
		return ValuePart, stream
	}
	d.at = it.Rec.Ordinal
	if it.Content("data", "streamId") == nil {
		return NoPart, nil
	}
	kind := InvalidPart
	if id := it.Text("data", "streamId"); d.streams != nil {
		if stream := d.streams.Stream(id); stream != nil {
			if stream.Status() == structured.Streaming {
				kind = InvalidPiece
			}
			d.mutable().Remove(id)
		}
	}
	return kind, nil
}
