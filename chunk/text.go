package chunk

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Strings are WTF-8: UTF-8, and the three bytes that UTF-8 would have for a
// surrogate (ED A0..BF 80..BF) where the JSON text has a \uD8xx or \uDCxx
// escape without its other half. Everything else that is no UTF-8 is refused.

func isSurrogate(u rune) bool { return u&^0x7FF == 0xD800 }
func isHigh(u rune) bool      { return u&^0x3FF == 0xD800 }
func isLow(u rune) bool       { return u&^0x3FF == 0xDC00 }

// Concat joins two WTF-8 strings: a high surrogate at the end of a and a low
// one at the start of b become the character they mean.
func Concat(a, b string) string {
	high, low := surrogateAtEnd(a), surrogateAtStart(b)
	if !isHigh(high) || !isLow(low) {
		return a + b
	}
	return a[:len(a)-3] + string(pair(high, low)) + b[3:]
}

func pair(high, low rune) rune { return (high-0xD800)<<10 + (low - 0xDC00) + 0x10000 }

// surrogateAtStart is the surrogate that s begins with, or 0.
func surrogateAtStart(s string) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

func surrogateAtEnd(s string) rune {
	if len(s) < 3 {
		return 0
	}
	return surrogateAtStart(s[len(s)-3:])
}

// appendSurrogate appends the three bytes of a lone surrogate.
func appendSurrogate(dst []byte, u rune) []byte {
	return append(dst, 0xED, byte(0x80|u>>6&0x3F), byte(0x80|u&0x3F))
}

// escapedUnit reads the UTF-16 code unit of a \uXXXX escape at the start of text.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	var u rune
	for _, c := range text[2:6] {
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return u, true
}

// unescape gives the WTF-8 that the content of a JSON string means. On text
// that is no JSON the result means nothing, but it is not longer than the text.
func unescape(content []byte) []byte {
	out := make([]byte, 0, len(content))
	for {
		i := bytes.IndexByte(content, '\\')
		if i < 0 || i+1 == len(content) {
			return append(out, content...)
		}
		out = append(out, content[:i]...)
		var n int
		out, n = appendUnescaped(out, content[i:])
		content = content[i+n:]
	}
}

// appendUnescaped appends what the escape at the start of text means, together
// with the other half of a surrogate pair, and returns how long that is in text.
func appendUnescaped(dst, text []byte) ([]byte, int) {
	unit, ok := escapedUnit(text)
	if !ok {
		return append(dst, shortEscape(text[1])), 2
	}
	if !isSurrogate(unit) {
		return utf8.AppendRune(dst, unit), 6
	}
	if low, ok := escapedUnit(text[6:]); ok && isHigh(unit) && isLow(low) {
		return utf8.AppendRune(dst, pair(unit, low)), 12
	}
	return appendSurrogate(dst, unit), 6
}

func shortEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // quote, backslash, slash
}

// appendString appends s as a JSON string with only the escapes that JSON
// requires. It reports false when s is not WTF-8.
func appendString(dst []byte, s string) ([]byte, bool) {
	dst = append(dst, '"')
	from := 0 // s[from:i] needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			if surrogateAtStart(s[i:]) == 0 {
				return dst, false
			}
			size = 3
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, s[i:])
		i += size
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"'), true
}

// appendEscape appends the escape of the character that s begins with: a
// quote, a backslash, a control character or a lone surrogate.
func appendEscape(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	switch c := s[0]; c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case 0xED:
		dst = append(dst, '\\', 'u')
		return strconv.AppendInt(dst, int64(surrogateAtStart(s)), 16)
	default:
		return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}
