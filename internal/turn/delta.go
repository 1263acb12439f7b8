package turn

import (
	"bytes"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// BlockKind is a kind of text.
type BlockKind byte

// The kinds of text.
const (
	NoBlock        BlockKind = 0
	TextBlock      BlockKind = 't'
	ReasoningBlock BlockKind = 'r'
)

// DeltaReader reads the pieces of text and reasoning of one agent, which are most records, without parsing them: it compares them with what AppendJSON writes.
// Records in another spelling are read like other records.
type DeltaReader struct{ text, reasoning prefixReader }

// Read returns the step and the text, as the content of a JSON string, of a record that continues a block, and the kind of the block. The kind is NoBlock
// for a record that is not read here.
func (p *DeltaReader) Read(rec *chunk.Record) (kind BlockKind, step int64, text []byte) {
	kind, begins, lead, trail := TextBlock, &p.text, `,"delta":"`, `}`
	switch rec.Type {
	case chunk.TypeTextDelta:
	case chunk.TypeThinking:
		kind, begins, lead, trail = ReasoningBlock, &p.reasoning, `,"content":"`, `,"isComplete":false}`
	default:
		return NoBlock, 0, nil
	}
	step, rest, ok := begins.read(rec.Type, rec.Data)
	if !ok || !startsWith(rest, lead) {
		return NoBlock, 0, nil
	}
	end := rawjson.StringEnd(rest, len(lead)-1)
	if end < 0 || string(rest[end:]) != trail {
		return NoBlock, 0, nil
	}
	text = rest[len(lead) : end-1 : end-1]
	if breaks(text) {
		return NoBlock, 0, nil
	}
	return kind, step, text
}

// breaks reports whether data has a line break, which would end a frame.
func breaks(data []byte) bool {
	return bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0
}

func startsWith(data []byte, start string) bool {
	return len(data) >= len(start) && string(data[:len(start)]) == start
}

// prefixReader reads the start of the records of one type, up to their time. The records of an agent start alike, so it parses the start once and compares
// it afterwards.
type prefixReader struct{ seen []byte }

// read returns the step and the text after it.
func (o *prefixReader) read(typ chunk.Type, data []byte) (step int64, rest []byte, ok bool) {
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
	step, rest = Digits(rest[len(next):])
	return step, rest, true
}

// openingEnd returns the offset of the time of a record, a negative number if the record does not start as AppendJSON writes it.
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
		if i = rawjson.StringEnd(data, i-1); i < 0 {
			return -1
		}
	}
	return i
}

// maxDigits is a number of digits that fits into an int64.
const maxDigits = 18

// Digits reads the digits at the start of data.
func Digits(data []byte) (n int64, rest []byte) {
	i := 0
	for i < len(data) && i < maxDigits && data[i] >= '0' && data[i] <= '9' {
		n = n*10 + int64(data[i]-'0')
		i++
	}
	return n, data[i:]
}
