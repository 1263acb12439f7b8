package codec

import (
	"bytes"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// Stored is a message of the log as it lies in its stream, not parsed yet: a reader that follows many sessions drops those of sessions without a client at
// the price of one map lookup.
type Stored struct {
	Session chunk.Session // of its subject; the zero Session if the subject is not that of a session
	Seq     chunk.Seq
	At      time.Time // when JetStream stored it
	Header  map[string][]string
	Data    []byte
}

// Decode reads a message of the log. It takes binary and structured mode, JSON and msgpack.
//
// The Data of the record is valid JSON on one line: the stored bytes themselves (it then aliases m.Data), the transcoded msgpack, or a compacted copy if
// the body has line breaks between tokens. Decode checks only what readers need that copy the body unread; chunk.Decode checks that it is a valid chunk.
//
// The error is an *EnvelopeError, also if m has no session; Decode does not panic on any input.
func Decode(m Stored) (chunk.Record, error) {
	if m.Session == (chunk.Session{}) {
		return chunk.Record{}, newEnvelopeError("subject", "the subject of a session", "")
	}
	ev, err := open(m.Header, m.Data)
	if err != nil {
		return chunk.Record{}, err
	}
	epoch, ordinal, err := ev.identity(m.Session)
	if err != nil {
		return chunk.Record{}, err
	}
	body, err := ev.jsonBody()
	if err != nil {
		return chunk.Record{}, err
	}
	typ, line, err := ev.checkBody(body)
	if err != nil {
		return chunk.Record{}, err
	}
	return chunk.Record{
		Seq:      m.Seq,
		Session:  m.Session,
		Epoch:    epoch,
		Ordinal:  ordinal,
		Type:     typ,
		StoredAt: m.At,
		Data:     line,

		SessionBytes: ev.bytes,
	}, nil
}

// open detects the mode and collects the attributes.
func open(header map[string][]string, data []byte) (event, error) {
	ev := event{data: data}
	if err := ev.readHeaders(header); err != nil {
		return ev, err
	}
	if ev.binary {
		return ev, nil
	}
	switch structured, err := isStructured(ev.attributes[attrTransport]); {
	case err != nil:
		return ev, err
	case structured:
		return readStructured(data)
	}
	return ev, newEnvelopeError("specversion", "1.0", "")
}

// checkBody checks the body against the envelope and returns it on one line. Readers copy these bytes into lines of other protocols, so they must be one
// JSON object, in UTF-8, without line breaks. The type must be that of the header: otherwise readers that filter by header and readers of bodies would see
// different logs.
func (ev *event) checkBody(body []byte) (chunk.Type, []byte, error) {
	const want = "one JSON object in UTF-8"
	var quoted []byte
	types := 0
	info, ok := rawjson.ScanObject(body, rawjson.Limits{Levels: chunk.MaxDepth}, func(name, value rawjson.Span) bool {
		if rawjson.Text(name.Of(body)).Is("type") {
			quoted = value.Of(body)
			types++
		}
		return true
	})
	if !ok {
		return "", nil, newEnvelopeError("data", want, head(body[info.End:]))
	}
	if types != 1 {
		return "", nil, newEnvelopeError("data", `one member "type"`, head(body))
	}
	typ, ok := ev.typeOf(quoted)
	if !ok {
		return "", nil, newEnvelopeError("data", "the type of the envelope, "+strconv.Quote(clip(ev.attributes[attrType])), string(quoted))
	}
	if !info.HasLineBreaks {
		return typ, body, nil
	}
	return typ, rawjson.AppendCompact(make([]byte, 0, len(body)), body), nil
}

// typeOf parses the type of the body and reports whether it is that of the envelope.
func (ev *event) typeOf(quoted []byte) (chunk.Type, bool) {
	if quoted[0] != '"' {
		return "", false
	}
	ceType := ev.attributes[attrType]
	if inner := quoted[1 : len(quoted)-1]; string(inner) == ceType && bytes.IndexByte(inner, '\\') < 0 {
		return chunk.Type(ceType), true
	}
	t, ok := unquote(quoted)
	return chunk.Type(t), ok && t != "" && isText(t) && ev.hasType(t)
}
