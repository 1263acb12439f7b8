package aisdk

import (
	"github.com/tailrace/tailrace/internal/structured"
)

// structured writes structured data as the snapshot shows it: pieces as notices, the complete value as a part. It reports whether the event is structured data.
func (m *MessageWriter) structured(it *item) bool {
	switch it.Text("eventName") {
	case structured.PieceEvent:
		m.structuredPiece(it)
	case structured.InvalidatedEvent:
		m.structuredInvalid(it)
	default:
		return false
	}
	m.streamAt = it.rec.Ordinal
	return true
}

func (m *MessageWriter) structuredPiece(it *item) {
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
	m.beginPart(it)
	m.open("data-structured")
	m.json.String("id", stream.Labels.StreamID)
	m.json.Nest("data")
	m.json.String("dataType", stream.Labels.DataType)
	m.json.String("status", stream.Status().String())
	m.sanitized("data", stream.AppendData(nil))
	m.json.Text("schemaId", stream.Labels.SchemaID)
	m.json.Text("schemaVersion", stream.Labels.SchemaVersion)
	m.json.Close()
	m.shut()
	m.streams.ReleaseValue(stream.Labels.StreamID)
}

// structuredInvalid writes that a stream is invalid. A stream whose value is in the message is marked invalid there.
func (m *MessageWriter) structuredInvalid(it *item) {
	raw := it.Get("data", "streamId")
	if len(raw) == 0 || raw[0] != '"' {
		return
	}
	id := it.Text("data", "streamId")
	grew := false
	if m.streams != nil {
		if stream := m.streams.Stream(id); stream != nil {
			grew = stream.Status() == structured.Streaming
			m.streams.Remove(id)
		}
	}
	if grew {
		m.structuredNotice(it)
		return
	}
	m.beginPart(it)
	m.open("data-structured")
	m.json.Raw("id", raw)
	m.json.Raw("data", []byte(`{"status":"invalidated"}`))
	m.shut()
}

func (m *MessageWriter) structuredNotice(it *item) {
	if m.replay != nil {
		return
	}
	m.event(it, nil, true)
}
