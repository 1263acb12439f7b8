package aisdk

import (
	"github.com/tailrace/tailrace/projector/structured"
)

// The events in which the log carries the structured data of Kortyx agents. The
// data of the first is one chunk of that dialect, of the second the id of a
// stream that was taken back. The snapshot shows them as these do.
const (
	structuredData        = "kortyx.structured-data"
	structuredInvalidated = "kortyx.structured-data-invalidated"
)

// structured tells structured data, and whether the event was of it: its pieces
// as notices, its value, when it is complete, as a part.
func (m *Message) structured(it *item) bool {
	switch it.Text("eventName") {
	case structuredData:
		m.structuredPiece(it)
	case structuredInvalidated:
		m.structuredInvalid(it)
	default:
		return false
	}
	m.streamAt = it.rec.Ordinal
	return true
}

func (m *Message) structuredPiece(it *item) {
	if m.streams == nil {
		m.streams = &structured.State{}
	}
	stream, err := m.streams.ApplyStream(it.orNull("data"))
	if err != nil {
		return // counted by the snapshot
	}
	if stream.Status() != structured.Final {
		m.structuredNotice(it)
		return
	}
	m.speak(it)
	m.open("data-structured")
	m.str("id", stream.Labels.StreamID)
	m.nest("data")
	m.str("dataType", stream.Labels.DataType)
	m.str("status", stream.Status().String())
	m.guarded("data", stream.AppendData(nil))
	m.label("schemaId", stream.Labels.SchemaID)
	m.label("schemaVersion", stream.Labels.SchemaVersion)
	m.dst = append(m.dst, '}')
	m.shut()
	m.streams.Forget(stream.Labels.StreamID)
}

func (m *Message) label(name, v string) {
	if v != "" {
		m.str(name, v)
	}
}

// structuredInvalid tells that a stream is void. One whose value is in the
// message already is marked there.
func (m *Message) structuredInvalid(it *item) {
	raw := it.Get("data", "streamId")
	if len(raw) == 0 || raw[0] != '"' {
		return
	}
	id := it.Text("data", "streamId")
	grew := false
	if m.streams != nil {
		if stream := m.streams.Stream(id); stream != nil {
			grew = stream.Status() == structured.Streaming
			m.streams.Drop(id)
		}
	}
	if grew {
		m.structuredNotice(it)
		return
	}
	m.speak(it)
	m.open("data-structured")
	m.value("id", raw)
	m.value("data", []byte(`{"status":"invalidated"}`))
	m.shut()
}

func (m *Message) structuredNotice(it *item) {
	if m.replay != nil {
		return
	}
	m.event(it, true)
}
