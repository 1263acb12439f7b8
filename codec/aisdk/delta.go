package aisdk

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
)

// Pieces of text and reasoning come by the million. They are read by comparing
// them with what AppendJSON writes; what is written otherwise is read as other
// records are.

// pieces reads those of one agent.
type pieces struct{ text, reasoning opening }

// read finds the step and the text, content of a JSON string, in a record that
// goes on with a block of some kind: noBlock when it is none that is read here.
func (p *pieces) read(rec *chunk.Record) (kind block, step int64, text []byte) {
	kind, begins, lead, trail := textBlock, &p.text, `,"delta":"`, `}`
	switch rec.Type {
	case chunk.TypeTextDelta:
	case chunk.TypeThinking:
		kind, begins, lead, trail = reasoningBlock, &p.reasoning, `,"content":"`, `,"isComplete":false}`
	default:
		return noBlock, 0, nil
	}
	step, rest, ok := begins.read(rec.Type, rec.Data)
	if !ok || !startsWith(rest, lead) {
		return noBlock, 0, nil
	}
	end := stringEnd(rest, len(lead)-1)
	if end < 0 || string(rest[end:]) != trail {
		return noBlock, 0, nil
	}
	text = rest[len(lead) : end-1 : end-1]
	if breaks(text) {
		return noBlock, 0, nil
	}
	return kind, step, text
}

// breaks reports whether there is a line break, which would end a frame.
func breaks(data []byte) bool {
	return bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0
}

func startsWith(data []byte, start string) bool {
	return len(data) >= len(start) && string(data[:len(start)]) == start
}

// opening is what the records of one type begin with, up to their time. Those of
// an agent begin alike: what was read once is only compared from then on.
type opening struct{ seen []byte }

// read finds the step, and what is behind it.
func (o *opening) read(typ chunk.Type, data []byte) (step int64, rest []byte, ok bool) {
	if len(o.seen) == 0 || !bytes.HasPrefix(data, o.seen) {
		n := openingEnd(typ, data)
		if n < 0 || breaks(data[:n]) {
			return 0, nil, false
		}
		o.seen = append(o.seen[:0], data[:n]...)
	}
	i := len(o.seen)
	for most := min(len(data), i+maxDigits); i < most && data[i] >= '0' && data[i] <= '9'; {
		i++
	}
	const next = `,"step":`
	if rest = data[i:]; !startsWith(rest, next) {
		return 0, nil, false
	}
	step, rest = digits(rest[len(next):])
	return step, rest, true
}

// openingEnd is where the time of a record stands, negative when it begins in
// another way than AppendJSON writes it.
func openingEnd(typ chunk.Type, data []byte) int {
	i := 0
	for _, next := range [...]string{`{"type":"` + string(typ) + `","agentId":"`, `,"agentType":"`, `,"timestamp":`} {
		if !startsWith(data[i:], next) {
			return -1
		}
		i += len(next)
		if data[i-1] != '"' {
			break
		}
		if i = stringEnd(data, i-1); i < 0 {
			return -1
		}
	}
	return i
}

// maxDigits fit into an integer.
const maxDigits = 18

// digits reads a number.
func digits(data []byte) (n int64, rest []byte) {
	i := 0
	for i < len(data) && i < maxDigits && data[i] >= '0' && data[i] <= '9' {
		n = n*10 + int64(data[i]-'0')
		i++
	}
	return n, data[i:]
}
