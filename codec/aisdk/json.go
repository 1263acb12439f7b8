package aisdk

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Values and texts travel as the JSON they came in: decoding and encoding would
// turn half a pair of surrogates into U+FFFD and a large integer into another.

// maxMembers is more than any record of a delta has.
const maxMembers = 16

// object is the outermost members of a JSON object, as they lie in its text.
type object struct {
	name, value [maxMembers][]byte
	n           int
}

// read finds the members of data. It reports false for what is not plainly
// written: no object, names with escapes, line breaks, too many members. data is
// mostly known to be valid; other data makes it fail or find nonsense within
// the bytes.
func (o *object) read(data []byte) bool {
	o.n = 0
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		return false
	}
	i := space(data, 0)
	if i == len(data) || data[i] != '{' {
		return false
	}
	for i = space(data, i+1); i < len(data) && data[i] == '"'; i = space(data, i+1) {
		end := stringEnd(data, i)
		if o.n == maxMembers || end < 0 {
			return false
		}
		name := data[i+1 : end-1]
		i = space(data, end)
		if i == len(data) || data[i] != ':' || bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		i = space(data, i+1)
		if end = valueEnd(data, i); end < 0 {
			return false
		}
		o.name[o.n], o.value[o.n] = name, data[i:end:end]
		o.n++
		i = space(data, end)
		if i == len(data) || data[i] != ',' {
			break
		}
	}
	return i < len(data) && data[i] == '}' && space(data, i+1) == len(data)
}

// get is the value of a member, nil when there is none.
func (o *object) get(name string) []byte {
	for i := range o.n {
		if string(o.name[i]) == name {
			return o.value[i]
		}
	}
	return nil
}

// is reports whether a member is the string s.
func (o *object) is(name, s string) bool {
	var room [64]byte
	raw, ok := o.text(name)
	plain, err := unescape(room[:0], raw)
	return ok && err == nil && string(plain) == s
}

// text is the content of a member that is a string, still escaped.
func (o *object) text(name string) ([]byte, bool) {
	v := o.get(name)
	if len(v) < 2 || v[0] != '"' {
		return nil, false
	}
	return v[1 : len(v)-1], true
}

// isDelta reports whether o has what every delta has. What looks otherwise is
// read with more care.
func (o *object) isDelta() bool {
	if _, ok := o.text("delta"); !ok {
		if _, ok = o.text("content"); !ok {
			return false
		}
	}
	return o.get("agentId") != nil && o.get("agentType") != nil && o.get("timestamp") != nil
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// valueEnd is where the value at i ends, negative when it does not.
func valueEnd(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			if i = stringEnd(data, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			i = wordEnd(data, i)
		}
		if depth <= 0 {
			if depth < 0 {
				return -1
			}
			return i
		}
	}
	return -1
}

// stringEnd is the place behind the string that opens at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		if data[i-1] != '\\' {
			return i + 1
		}
		escapes := 1
		for data[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
	return -1
}

// wordEnd is where a number, true, false or null ends.
func wordEnd(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ',', ':', ' ', '\t', '\n', '\r', '{', '}', '[', ']', '"':
			return i
		}
		i++
	}
	return i
}

const hexDigits = "0123456789abcdef"

// appendString appends a WTF-8 string as JSON: a lone surrogate becomes the
// escape it came as.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		size := 1
		switch {
		case c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 && s[i+1] <= 0xBF && s[i+2]&0xC0 == 0x80:
			size = 3
		case c >= ' ' && c != '"' && c != '\\':
			continue
		}
		dst = append(dst, s[from:i]...)
		switch {
		case size == 3:
			u := 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
			dst = append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i += size - 1
		from = i + 1
	}
	return append(dst, s[from:]...)
}

var errEscape = errors.New("no JSON escape")

// unescape appends what the content of a JSON string means, in WTF-8.
func unescape(dst, content []byte) ([]byte, error) {
	for len(content) > 0 {
		if content[0] != '\\' {
			n := bytes.IndexByte(content, '\\')
			if n < 0 {
				n = len(content)
			}
			dst = append(dst, content[:n]...)
			content = content[n:]
			continue
		}
		if len(content) < 2 {
			return dst, errEscape
		}
		n := 2
		switch c := content[1]; c {
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case '"', '\\', '/':
			dst = append(dst, c)
		default:
			u, ok := codeUnit(content)
			if !ok {
				return dst, errEscape
			}
			dst, n = appendUnit(dst, u, content[6:])
		}
		content = content[n:]
	}
	return dst, nil
}

// appendUnit appends the character of a code unit, together with the half that
// may follow in rest, and says how long the escapes were.
func appendUnit(dst []byte, u rune, rest []byte) ([]byte, int) {
	if !utf16.IsSurrogate(u) {
		return utf8.AppendRune(dst, u), 6
	}
	if low, ok := codeUnit(rest); ok {
		if r := utf16.DecodeRune(u, low); r != utf8.RuneError {
			return utf8.AppendRune(dst, r), 12
		}
	}
	return append(dst, 0xED, byte(0x80|u>>6&0x3F), byte(0x80|u&0x3F)), 6
}

// codeUnit reads \uXXXX.
func codeUnit(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(u), err == nil
}
