package httpagent

import (
	"bytes"
	"errors"
	"io"

	"github.com/tailrace/tailrace/internal/ingestion"
)

// errEventSize reports an event over the limit.
var errEventSize = errors.New("event exceeds the limit")

// eventReader reads the data of server-sent events, or the lines of NDJSON, as they arrive. It holds one event.
type eventReader struct{ lines *ingestion.Lines }

// newEventReader returns a reader of a response. The data of a server-sent event that the body ends in is not returned, because more of it may be missing. The last
// line of NDJSON needs no line break.
func newEventReader(r io.Reader, lines bool, maxBytes int) *eventReader {
	format := ingestion.WholeEvents
	if lines {
		format = ingestion.NDJSON
	}
	return &eventReader{ingestion.NewLines(r, format, maxBytes, nil)}
}

// next returns the next event that is not blank, which is valid until the following call, or io.EOF at the end.
func (r *eventReader) next() ([]byte, error) {
	for {
		data, _, err := r.lines.Next()
		if errors.Is(err, ingestion.ErrLineTooLarge) {
			return nil, errEventSize
		}
		if err != nil {
			return nil, err
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			return data, nil
		}
	}
}
