package httpagent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// errEventSize reports an event over the limit.
var errEventSize = errors.New("event exceeds the limit")

// eventReader reads the data of server-sent events, or the lines of NDJSON, as they arrive. It holds one event.
type eventReader struct {
	in    *bufio.Reader
	lines bool // NDJSON: each line is an event
	max   int
	line  []byte
	data  []byte
	skip  bool // the previous line ended with CR: the LF after it belongs to it
	first bool // the first line was not read
}

func newEventReader(r io.Reader, lines bool, maxBytes int) *eventReader {
	return &eventReader{in: bufio.NewReader(r), lines: lines, max: maxBytes, first: true}
}

// next returns the data of the next event, which is valid until the following call, or io.EOF at the end. The data of an event that the body ends in is not
// returned, because more of it may be missing: the specification of server-sent events discards it. The last line of NDJSON needs no line break.
func (r *eventReader) next() ([]byte, error) {
	r.data = r.data[:0]
	for some := false; ; {
		line, err := r.readLine()
		if err != nil {
			if r.lines && err == io.EOF && len(bytes.TrimSpace(line)) > 0 { //nolint:errorlint // of readLine
				return line, nil
			}
			return nil, err
		}
		switch {
		case r.lines:
			if line = bytes.TrimSpace(line); len(line) > 0 {
				return line, nil
			}
			continue
		case len(line) == 0:
			if some && len(r.data) > 0 {
				return r.data, nil
			}
			r.data, some = r.data[:0], false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue // a comment, or a field that no dialect uses
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if some {
			r.data = append(r.data, '\n')
		}
		if some = true; len(r.data)+len(value) > r.max {
			return nil, errEventSize
		}
		r.data = append(r.data, value...)
	}
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// readLine returns a line without its end: LF, CR or CR LF.
func (r *eventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return r.line, err
		}
		if r.skip {
			if r.skip = false; b == '\n' {
				continue
			}
		}
		if b == '\n' || b == '\r' && !r.lines {
			r.skip = b == '\r'
			if r.first {
				r.first, r.line = false, bytes.TrimPrefix(r.line, byteOrderMark)
			}
			return r.line, nil
		}
		if len(r.line) >= r.max+len("data: ") {
			return nil, errEventSize
		}
		r.line = append(r.line, b)
	}
}
