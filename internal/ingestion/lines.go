package ingestion

import (
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLarge reports a line that exceeds the limit.
var ErrLineTooLarge = errors.New("line too large")

// Format is how a body has its lines.
type Format int

// The formats.
const (
	NDJSON Format = iota // every line counts, also an empty one
	SSE                  // every event with data counts, and its data is the line; the last one may lack the empty line after it

	// WholeEvents is SSE, but an event that the body ends in is discarded, as the specification says. It is for responses, which may be cut without an error.
	WholeEvents
)

func (f Format) isEvents() bool { return f != NDJSON }

// Lines reads the lines of a body as they arrive. It holds one line in memory.
type Lines struct {
	in     io.Reader
	format Format
	limit  int
	resize func(bytes int) bool
	sized  int  // what resize was called with
	again  bool // Next was called, and the body was not read since then

	buf        []byte
	start, end int // of what was read and not returned
	number     int64
	scanned    int // bytes after start without a line break
	data       []byte
	hasData    bool
	skipLF     bool // the last line ended with CR
	begun      bool // the first line was read
	err        error
}

// smallLine is the size of the buffers of which resize is not asked.
const smallLine = 4 << 10

// NewLines returns a reader of a body. A line may have at most limit bytes. resize is called with the memory of an unfinished long line, in bytes, before the body is read
// for it and before that memory grows, and with 0 when there is none; false ends the reading with ErrLineMemory. nil allows all.
func NewLines(in io.Reader, format Format, limit int, resize func(bytes int) bool) *Lines {
	return &Lines{in: in, format: format, limit: limit, resize: resize}
}

// ErrLineMemory reports that there is no memory for a long line.
var ErrLineMemory = errors.New("no memory for a long line")

// Next returns the next line without its end, which is valid until the next call, and its number in the body, from 1. It returns io.EOF at the end of the body. A line that was cut by
// another error is not returned. After ErrLineTooLarge and ErrLineMemory the number is that of the line.
func (l *Lines) Next() (line []byte, number int64, err error) {
	l.again = true
	if l.format == NDJSON {
		line, err = l.physical()
		if err != nil && !isLineError(err) {
			return nil, l.number, err
		}
		l.number++
		return line, l.number, err
	}
	return l.event()
}

func isLineError(err error) bool {
	return errors.Is(err, ErrLineTooLarge) || errors.Is(err, ErrLineMemory)
}

// event returns the data of the next event. The data of several lines is joined by line feeds, as EventSource does.
func (l *Lines) event() ([]byte, int64, error) {
	l.data, l.hasData = l.data[:0], false
	if cap(l.data) > smallLine {
		l.data = nil
	}
	for {
		line, err := l.physical()
		switch {
		case isLineError(err):
			return nil, l.number + 1, err
		case errors.Is(err, io.EOF) && l.hasData && l.format == SSE, err == nil && len(line) == 0 && l.hasData:
			l.number++
			return l.data, l.number, nil
		case err != nil:
			return nil, l.number, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if string(name) != "data" {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		need := len(l.data) + len(value)
		if l.hasData {
			need++
		}
		if need > l.limit {
			return nil, l.number + 1, ErrLineTooLarge
		}
		if need > cap(l.data) {
			size := max(need, 2*cap(l.data))
			if !l.allow(len(l.buf), size) {
				return nil, l.number + 1, ErrLineMemory
			}
			l.data = append(make([]byte, 0, size), l.data...)
		}
		if l.hasData {
			l.data = append(l.data, '\n')
		}
		l.data, l.hasData = append(l.data, value...), true
	}
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// physical returns the next line of text, without a byte order mark at the start of the body.
func (l *Lines) physical() ([]byte, error) {
	line, err := l.untilBreak()
	if !l.begun && err == nil {
		l.begun, line = true, bytes.TrimPrefix(line, byteOrderMark)
	}
	return line, err
}

// untilBreak returns the next line of text. Lines end with LF, CRLF or, in server-sent events, CR.
func (l *Lines) untilBreak() ([]byte, error) {
	limit := l.limit
	if l.format.isEvents() {
		limit += len("data: ")
	}
	for {
		if l.skipLF && l.start < l.end {
			if l.buf[l.start] == '\n' {
				l.start++
			}
			l.skipLF = false
		}
		if i := l.lineEnd(l.buf[l.start+l.scanned : l.end]); i >= 0 {
			at := l.start + l.scanned + i
			if at-l.start > limit {
				return nil, ErrLineTooLarge
			}
			line := l.buf[l.start:at]
			l.skipLF = l.buf[at] == '\r'
			l.start, l.scanned = at+1, 0
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		l.scanned = l.end - l.start
		switch {
		case l.scanned > limit:
			return nil, ErrLineTooLarge
		case l.err != nil && errors.Is(l.err, io.EOF) && l.scanned > 0:
			line := l.buf[l.start:l.end]
			l.start, l.scanned = l.end, 0
			return bytes.TrimSuffix(line, []byte("\r")), nil
		case l.err != nil:
			return nil, l.err
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

func (l *Lines) lineEnd(text []byte) int {
	if l.format.isEvents() {
		return bytes.IndexAny(text, "\r\n")
	}
	return bytes.IndexByte(text, '\n')
}

// fill reads once. It keeps no long buffer for a short rest: a client that is silent between two lines would hold that memory.
func (l *Lines) fill() error {
	if l.start > 0 {
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	}
	size := len(l.buf)
	switch {
	case l.end == size:
		size = max(min(2*size, l.limit+smallLine), smallLine) // the old buffer counts until it is copied
	case l.end < smallLine:
		size = smallLine
	}
	if !l.allow(size, cap(l.data)) {
		return ErrLineMemory
	}
	l.again = false
	if size != len(l.buf) {
		l.buf = append(make([]byte, 0, size), l.buf[:l.end]...)[:size]
	}
	n, err := l.in.Read(l.buf[l.end:])
	l.end += n
	l.err = err
	return nil
}

// allow asks for the memory of two buffers, and reports whether there is enough.
func (l *Lines) allow(buffer, data int) bool {
	size := 0
	for _, n := range []int{buffer, data} {
		if n > smallLine {
			size += n
		}
	}
	if l.resize == nil || size == l.sized && (size == 0 || !l.again) {
		return true
	}
	l.sized = size
	return l.resize(size)
}
