package codec

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// guard checks a msgpack body before the library reads it, because the library allocates memory by a length prefix: five bytes may request 34 GB. Every length
// is compared with the remaining bytes, so the check needs no more memory than the input has members.
type guard struct {
	data   []byte
	pos    int
	values int
	wrong  string // the first problem, "" if there is none
}

// checkMsgpack returns an *EnvelopeError for a body that is not exactly one map with unique UTF-8 string keys and values that JSON can represent.
func checkMsgpack(data []byte) error {
	g := guard{data: data}
	if len(data) == 0 || !isMap(data[0]) {
		return newEnvelopeError("data", "a msgpack map", describe(data))
	}
	g.value(0)
	if g.wrong == "" && g.pos != len(data) {
		g.wrong = "nothing after the map"
	}
	if g.wrong != "" {
		return newEnvelopeError("data", g.wrong, "msgpack at byte "+strconv.Itoa(g.pos))
	}
	return nil
}

func describe(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	return "msgpack code 0x" + strconv.FormatUint(uint64(data[0]), 16)
}

func isPackedText(code byte) bool { return code&0xE0 == 0xA0 || 0xD9 <= code && code <= 0xDB }

func isMap(code byte) bool { return code&0xF0 == 0x80 || code == 0xDE || code == 0xDF }

// fail stores the first problem: the expected value.
func (g *guard) fail(want string) bool {
	if g.wrong == "" {
		g.wrong = want
	}
	return false
}

// take skips n bytes if they are there.
func (g *guard) take(n uint64) ([]byte, bool) {
	if n > uint64(len(g.data)-g.pos) {
		return nil, g.fail("as many bytes as the length says")
	}
	b := g.data[g.pos : g.pos+int(n)]
	g.pos += int(n)
	return b, true
}

// length reads a big-endian number of size bytes.
func (g *guard) length(size uint64) (uint64, bool) {
	b, ok := g.take(size)
	if !ok {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n, true
}

func (g *guard) value(depth int) bool {
	g.values++
	if g.values > chunk.MaxValues {
		return g.fail("at most 20000 values")
	}
	b, ok := g.take(1)
	if !ok {
		return false
	}
	code := b[0]
	switch {
	case code <= 0x7F, code >= 0xE0, code == 0xC0, code == 0xC2, code == 0xC3:
		return true // small integer, nil, false, true
	case code <= 0x8F:
		return g.mapping(uint64(code&0x0F), depth)
	case code <= 0x9F:
		return g.array(uint64(code&0x0F), depth)
	case code <= 0xBF:
		return g.text(uint64(code & 0x1F))
	}
	return g.sized(code, depth)
}

// sized reads a value whose length or number follows the code.
func (g *guard) sized(code byte, depth int) bool {
	switch code {
	case 0xCA, 0xCB:
		return g.float(code)
	case 0xCC, 0xD0:
		_, ok := g.take(1)
		return ok
	case 0xCD, 0xD1:
		_, ok := g.take(2)
		return ok
	case 0xCE, 0xD2:
		_, ok := g.take(4)
		return ok
	case 0xCF, 0xD3:
		_, ok := g.take(8)
		return ok
	case 0xD9, 0xDA, 0xDB:
		n, ok := g.length(1 << (code - 0xD9))
		return ok && g.text(n)
	case 0xDC, 0xDD:
		n, ok := g.length(2 << (code - 0xDC))
		return ok && g.array(n, depth)
	case 0xDE, 0xDF:
		n, ok := g.length(2 << (code - 0xDE))
		return ok && g.mapping(n, depth)
	}
	return g.fail("no binary, extension or unused code: JSON has nothing of the kind")
}

func (g *guard) float(code byte) bool {
	var f float64
	if code == 0xCA {
		b, ok := g.take(4)
		if !ok {
			return false
		}
		f = float64(math.Float32frombits(binary.BigEndian.Uint32(b)))
	} else {
		b, ok := g.take(8)
		if !ok {
			return false
		}
		f = math.Float64frombits(binary.BigEndian.Uint64(b))
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return g.fail("a finite number")
	}
	return true
}

func (g *guard) text(n uint64) bool {
	b, ok := g.take(n)
	if !ok {
		return false
	}
	if !utf8.Valid(b) {
		return g.fail("UTF-8 text")
	}
	return true
}

func (g *guard) array(n uint64, depth int) bool {
	if !g.container(n, 1, depth) {
		return false
	}
	for range n {
		if !g.value(depth + 1) {
			return false
		}
	}
	return true
}

// container checks that n elements of at least size bytes each can follow, before anything is allocated or counted for them.
func (g *guard) container(n, size uint64, depth int) bool {
	if depth >= chunk.MaxDepth {
		return g.fail("at most 32 levels")
	}
	if n > uint64(len(g.data)-g.pos)/size {
		return g.fail("as many elements as the length says")
	}
	return true
}

func (g *guard) mapping(n uint64, depth int) bool {
	if !g.container(n, 2, depth) {
		return false
	}
	var keys rawjson.NameSet
	for range n {
		key, ok := g.key()
		if !ok {
			return false
		}
		if !keys.Add(key) {
			return g.fail("each key once")
		}
		if !g.value(depth + 1) {
			return false
		}
	}
	return true
}

// key reads a string and returns its text.
func (g *guard) key() ([]byte, bool) {
	if g.pos < len(g.data) && !isPackedText(g.data[g.pos]) {
		return nil, g.fail("strings as keys")
	}
	start := g.pos
	g.values-- // a name does not count as a value
	if !g.value(0) {
		return nil, false
	}
	return packedText(g.data[start:g.pos]), true
}

// packedText returns the text of one packed string.
func packedText(b []byte) []byte {
	switch b[0] {
	case 0xD9:
		return b[2:]
	case 0xDA:
		return b[3:]
	case 0xDB:
		return b[5:]
	}
	return b[1:]
}
