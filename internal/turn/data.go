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
	found := dataEvent{kind: DataPart}
	if it.By.Own() {
		found = m.structured(it)
	}
	if found.kind.isPart() {
		it.By.openStep(it)
	}
	kind := Data
	if found.isStructured {
		kind = Structured
	}
	m.emit(&Event{Kind: kind, Item: it, Is: found.kind, Stream: found.stream})
	if found.kind == ValuePart {
		m.data.streams.ReleaseValue(found.stream.Labels.StreamID)
	}
}

// dataEvent is what an event of the application is.
type dataEvent struct {
	kind         DataKind
	isStructured bool
	stream       *structured.Stream // of a piece and of a value
}

// structured follows the structured data of an event. The value of a stream that is complete is released by the caller.
func (m *Machine) structured(it *Item) dataEvent {
	switch d := &m.data; it.Text("eventName") {
	case structured.PieceEvent:
		d.at = it.Rec.Ordinal
		stream, err := d.mutable().ApplyStream(it.OrNull("data"))
		switch {
		case err != nil:
			return dataEvent{isStructured: true} // the snapshot counts an error
		case stream.Status() != structured.Final:
			return dataEvent{kind: PiecePart, isStructured: true, stream: stream}
		}
		return dataEvent{kind: ValuePart, isStructured: true, stream: stream}
	case structured.InvalidatedEvent:
		d.at = it.Rec.Ordinal
		raw := it.Get("data", "streamId")
		if len(raw) == 0 || raw[0] != '"' {
			return dataEvent{isStructured: true}
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
		return dataEvent{kind: kind, isStructured: true}
	}
	return dataEvent{kind: DataPart}
}
