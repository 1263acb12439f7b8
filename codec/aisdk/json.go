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
