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
func newEventReader(r io.Reader, lines bool, maxBytes int, resize func(bytes int) bool) *eventReader {
	format := ingestion.WholeEvents
	if lines {
		format = ingestion.NDJSON
	}
	return &eventReader{ingestion.NewLines(r, format, maxBytes, resize)}
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

// smallEvent is the size of the buffers of an event that any number of responses may have at a time.
const smallEvent = 1 << 20

// largeEvents has a place for the one response of an Agent that reads or writes an event over smallEvent. Without it a worker with a hundred runs of an endpoint
// would need the memory of a hundred of the largest events.
type largeEvents chan struct{}

// largeSlot is the place of one response, which waits for it. Its methods are called from the goroutine of the response.
type largeSlot struct {
	of    largeEvents
	done  <-chan struct{} // the request has ended
	taken bool
}

// resize is for ingestion.NewLines: it is called before the buffers grow, and when the next event is read.
func (s *largeSlot) resize(bytes int) bool {
	switch large := bytes > smallEvent; {
	case large && !s.taken:
		select {
		case s.of <- struct{}{}:
			s.taken = true
		case <-s.done:
			return false
		}
	case !large && s.taken:
		<-s.of
		s.taken = false
	}
	return true
}
