package codec

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/tailrace/tailrace/chunk"
)

// attributeInput is the extension attribute of an InputPosition. Readers that do not know it ignore it, like any extension.
const (
	attributeInput = "inputposition"
	headerInput    = headerPrefix + attributeInput
)

// InputPosition is how much of the input of a run is stored with a record and the records before it in its session: the writer of a run that was cut continues
// behind it, see producers.Run.SetInput. It is stored as a CloudEvents extension attribute, inputposition, with each record of such a run, also with those in the
// sessions of its sub-agents. The input consists of lines, numbered from 1 over the whole run, and each line of some chunks.
//
// The zero InputPosition is that of a record without one.
type InputPosition struct {
	Run string // id of the run that has the input; of the parent for the record of a sub-agent

	Line    int64 // all lines up to this one are stored, unless Partial is set
	Partial bool
	Chunks  int64 // with Partial: how many chunks of Line are stored
	Bytes   int64 // with Partial: how many bytes of the text of the next chunk, a delta that was split, are stored

	// First and Step describe a response that is translated from another dialect: the number of its first line, and the step that the run had reached before it.
	// First is 0 for native lines.
	First, Step int64

	// Event identifies the CloudEvent that the record is of, or the request, for one whose input has no numbers of its own.
	Event string
}

// Stored reports whether a chunk of a line is stored, and otherwise how many bytes of its text are. i counts the chunks of the line from 0.
func (p InputPosition) Stored(line, i int64) (whole bool, text int64) {
	switch {
	case p.Line != line:
		return line < p.Line, 0
	case !p.Partial || i < p.Chunks:
		return true, 0
	case i == p.Chunks:
		return false, p.Bytes
	}
	return false, 0
}

// Lines returns how many lines are stored as a whole.
func (p InputPosition) Lines() int64 {
	if p.Partial {
		return p.Line - 1
	}
	return p.Line
}

// Compare compares two positions of one input.
func (p InputPosition) Compare(q InputPosition) int {
	if n := cmp.Compare(p.Line, q.Line); n != 0 {
		return n
	}
	switch {
	case p.Partial && q.Partial:
		return cmp.Or(cmp.Compare(p.Chunks, q.Chunks), cmp.Compare(p.Bytes, q.Bytes))
	case p.Partial:
		return -1
	case q.Partial:
		return 1
	}
	return 0
}

// String returns the value of the attribute: "run1:17" for all lines up to 17, "run1:17.2" for two chunks of line 17, "run1:17.2.500" for 500 bytes of the third
// in addition. A suffix "@12.3" has First and Step, and "#id" has Event.
func (p InputPosition) String() string {
	b := make([]byte, 0, 48)
	b = append(b, p.Run...)
	b = append(b, ':')
	b = strconv.AppendInt(b, p.Line, 10)
	if p.Partial {
		b = strconv.AppendInt(append(b, '.'), p.Chunks, 10)
		if p.Bytes > 0 {
			b = strconv.AppendInt(append(b, '.'), p.Bytes, 10)
		}
	}
	if p.First > 0 {
		b = strconv.AppendInt(append(b, '@'), p.First, 10)
		b = strconv.AppendInt(append(b, '.'), p.Step, 10)
	}
	if p.Event != "" {
		b = append(append(b, '#'), p.Event...)
	}
	return string(b)
}

// maxInputPosition bounds the text of a position.
const maxInputPosition = 256

// parseInputPosition parses what String returns, and nothing else.
func parseInputPosition(s string) (p InputPosition, ok bool) {
	run, rest, found := strings.Cut(s, ":")
	if !found || run == "" || len(s) > maxInputPosition {
		return InputPosition{}, false
	}
	p.Run = run
	rest, p.Event, _ = strings.Cut(rest, "#")
	rest, response, translated := strings.Cut(rest, "@")
	if translated && !parseNumbers(response, &p.First, &p.Step) {
		return InputPosition{}, false
	}
	p.Partial = strings.Contains(rest, ".")
	switch strings.Count(rest, ".") {
	case 0:
		ok = parseNumbers(rest, &p.Line)
	case 1:
		ok = parseNumbers(rest, &p.Line, &p.Chunks)
	case 2:
		ok = parseNumbers(rest, &p.Line, &p.Chunks, &p.Bytes)
	}
	if !ok || p.String() != s || !isText(s) {
		return InputPosition{}, false
	}
	return p, true
}

// parseNumbers parses numbers that are separated by dots.
func parseNumbers(s string, to ...*int64) bool {
	for i, n := range to {
		digits := s
		if i < len(to)-1 {
			digits, s, _ = strings.Cut(s, ".")
		}
		v, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || v < 0 || v > chunk.MaxInteger {
			return false
		}
		*n = v
	}
	return true
}

// SetInput adds p to the header of a message.
func (m Encoded) SetInput(p InputPosition) { m.Header[headerInput] = []string{headerValue(p.String())} }

// InputOf returns the InputPosition of a message, in binary and in structured mode; false if it has none, or a malformed one.
func InputOf(header map[string][]string, data []byte) (InputPosition, bool) {
	return parseInputPosition(extension(attributeInput, header, data))
}
