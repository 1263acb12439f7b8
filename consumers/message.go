package consumers

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/subjects"
)

// entry is one message of a read: of the log, or of an archive.
type entry struct {
	jsreader.Entry

	archived *chunk.Record // what was read from the archive, instead of header and data
}

// record reads the entry as a record of s; *codec.EnvelopeError.
func (e *entry) record(s chunk.Session) (chunk.Record, error) {
	if e.archived != nil {
		return *e.archived, nil
	}
	return decode(e.Message, s)
}

// LogMessage is one message of a partition as it came, not parsed yet: a hub that knows its sessions by subject drops messages of sessions without a
// client at the price of one map lookup. Session, Type and Record parse the subject, the header and the body, each time they are called. A LogMessage may
// be kept and read by several goroutines.
type LogMessage struct {
	Seq     chunk.Seq
	Subject string // see subjects.Layout.Subject

	stored time.Time
	layout subjects.Layout
	header nats.Header
	data   []byte
}

// Session parses the subject; *subjects.ParseError.
func (m LogMessage) Session() (chunk.Session, error) { return m.layout.Parse(m.Subject) }

// Type returns the type in the header, or "" if there is none: in structured mode only Record returns it.
func (m LogMessage) Type() chunk.Type { return typeOf(m.header) }

// StoredAt returns when JetStream stored the message.
func (m LogMessage) StoredAt() time.Time { return m.stored }

// Size returns the length of the body in bytes.
func (m LogMessage) Size() int { return len(m.data) }

// Record parses the whole message. The error is a *subjects.ParseError or a *codec.EnvelopeError of a malformed message. The record shares its memory
// with the message.
func (m LogMessage) Record() (chunk.Record, error) {
	s, err := m.Session()
	if err != nil {
		return chunk.Record{}, err
	}
	return m.RecordOf(s)
}

// RecordOf is Record for a caller that has parsed the subject.
func (m LogMessage) RecordOf(s chunk.Session) (chunk.Record, error) {
	return codec.Decode(codec.Stored{Session: s, Seq: m.Seq, At: m.StoredAt(), Header: m.header, Data: m.data})
}

// typeOf finds the type in a header without parsing the rest. Names of attributes may come in any case; those of this project are lower case.
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
