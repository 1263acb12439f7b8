package fold

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

var errString = errors.New("not a JSON string")

const hexDigits = "0123456789abcdef"

// appendString writes a WTF-8 string as JSON: a lone surrogate becomes the
// escape it came as.
func appendString(dst []byte, s string) []byte { return appendWTF8(dst, s) }

func appendStringBytes(dst, s []byte) []byte { return appendWTF8(dst, s) }

func appendWTF8[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 && s[i+1] <= 0xBF && s[i+2]&0xC0 == 0x80:
			dst = append(dst, s[start:i]...)
			u := 0xD000 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F)
			dst = append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
			i += 3
			start = i
		case c >= 0x20 && c != '"' && c != '\\':
			i++
		default:
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

// unquote reads a JSON string into WTF-8.
func unquote(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return nil, errString
	}
	raw = raw[1 : len(raw)-1]
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		grown, n, ok := unescape(out, raw[i:])
		if !ok {
			return nil, errString
		}
		out = grown
		i += n
	}
	return out, nil
}

// unescape reads the escape at the start of raw, of a pair both halves.
func unescape(out, raw []byte) (_ []byte, n int, ok bool) {
	if len(raw) < 2 {
		return out, 0, false
	}
	switch raw[1] {
	case 'n':
		return append(out, '\n'), 2, true
	case 'r':
		return append(out, '\r'), 2, true
	case 't':
		return append(out, '\t'), 2, true
	case 'b':
		return append(out, '\b'), 2, true
	case 'f':
		return append(out, '\f'), 2, true
	case '"', '\\', '/':
		return append(out, raw[1]), 2, true
	case 'u':
	default:
		return out, 0, false
	}
	u, ok := codeUnit(raw)
	if !ok {
		return out, 0, false
	}
	if !utf16.IsSurrogate(u) {
		return utf8.AppendRune(out, u), 6, true
	}
	if low, ok := codeUnit(raw[6:]); ok {
		if r := utf16.DecodeRune(u, low); r != utf8.RuneError {
			return utf8.AppendRune(out, r), 12, true
		}
	}
	return append(out, 0xED, byte(0x80|u>>6&0x3F), byte(0x80|u&0x3F)), 6, true
}

// codeUnit reads \uXXXX.
func codeUnit(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	u, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(u), err == nil
}
