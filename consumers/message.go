package consumers

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
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
