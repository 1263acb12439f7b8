package aisdk

import (
	"github.com/tailrace/tailrace/chunk"
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
func (m *Message) structured(it *item, b chunk.Custom) bool {
	switch b.EventName {
	case structuredData:
		m.structuredPiece(it, b)
	case structuredInvalidated:
		m.structuredInvalid(it)
	default:
		return false
	}
	m.streamAt = it.rec.Ordinal
	return true
}

func (m *Message) structuredPiece(it *item, b chunk.Custom) {
	if m.streams == nil {
		m.streams = &structured.State{}
	}
	stream, err := m.streams.ApplyStream(b.Data)
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
	var data object
	data.read(it.obj.get("data"))
	raw, ok := data.text("streamId")
	id, err := unescape(nil, raw)
	if !ok || err != nil {
		return
	}
	grew := false
	if m.streams != nil {
		if stream := m.streams.Stream(string(id)); stream != nil {
			grew = stream.Status() == structured.Streaming
			m.streams.Drop(string(id))
		}
	}
	if grew {
		m.structuredNotice(it)
		return
	}
	m.speak(it)
	m.open("data-structured")
	m.text("id", raw)
	m.value("data", []byte(`{"status":"invalidated"}`))
	m.shut()
}

func (m *Message) structuredNotice(it *item) {
	if m.replay != nil {
		return
	}
	name, _ := it.obj.text("eventName")
	m.open("data-" + string(name))
	m.guarded("data", it.obj.get("data"))
	m.flag("transient", true)
	m.shut()
}
