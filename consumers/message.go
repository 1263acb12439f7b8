package consumers

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/subjects"
)

// Message is one message of a partition as it came, not looked into yet: a
// hub that knows its sessions by subject drops what nobody watches for the
// price of one look into a map. Header and body are parsed by Session, Type
// and Record, each time they are called. A Message may be kept and read by
// several goroutines.
type Message struct {
	Seq     chunk.Seq
	Subject string // see subjects.Layout.Subject

	stored int64 // Unix nanoseconds
	layout subjects.Layout
	header nats.Header
	data   []byte
}

// Session reads the subject; *subjects.ParseError.
func (m Message) Session() (chunk.Session, error) { return m.layout.Parse(m.Subject) }

// Type is the type that the header gives, "" when it gives none: in structured
// mode only Record knows it.
func (m Message) Type() chunk.Type { return typeOf(m.header) }

// Stored is when JetStream stored the message.
func (m Message) Stored() time.Time { return time.Unix(0, m.stored).UTC() }

// Size is the length of the body in bytes.
func (m Message) Size() int { return len(m.data) }

// Record reads the whole message. The error is a *subjects.ParseError or a
// *codec.EnvelopeError: such a message is no record. The record shares its
// memory with the message.
func (m Message) Record() (chunk.Record, error) {
	s, err := m.Session()
	if err != nil {
		return chunk.Record{}, err
	}
	return m.RecordOf(s)
}

// RecordOf is Record for a caller that knows which session the subject is.
func (m Message) RecordOf(s chunk.Session) (chunk.Record, error) {
	return codec.Decode(s, m.Seq, m.Stored(), m.header, m.data)
}

// typeOf finds the type in a header without reading the rest of it. Names of
// attributes may come in any case; ours are lower.
func typeOf(header nats.Header) chunk.Type {
	const name = "ce-type"
	if values := header[name]; len(values) == 1 {
		return chunk.Type(values[0])
	}
	for key, values := range header {
		if len(key) == len(name) && len(values) == 1 && strings.EqualFold(key, name) {
			return chunk.Type(values[0])
		}
	}
	return ""
}
