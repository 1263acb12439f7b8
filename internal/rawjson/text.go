package rawjson

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNotString reports that a value is not a JSON string.
var ErrNotString = errors.New("not a JSON string")

// Text is a JSON string as it is written, with its quotes.
type Text []byte

// Bytes returns the unescaped text. It may be a part of t. t must be valid.
func (t Text) Bytes() []byte { return Unescaped(t.Content()) }

// Content returns what is between the quotes.
func (t Text) Content() []byte {
	if len(t) < 2 {
		return nil
	}
	return t[1 : len(t)-1 : len(t)-1]
}

// Is reports whether t, which must be valid, is s once unescaped.
func (t Text) Is(s string) bool {
	if len(t) == len(s)+len(`""`) {
		return string(t[1:len(t)-1]) == s && bytes.IndexByte(t, '\\') < 0
	}
	return bytes.IndexByte(t, '\\') >= 0 && string(t.Bytes()) == s
}

// AppendTo appends the unescaped text. It returns ErrNotString, and dst with less than the whole, for a value that is not a string.
func (t Text) AppendTo(dst []byte) ([]byte, error) {
	if len(t) < 2 || t[0] != '"' || t[len(t)-1] != '"' {
		return dst, ErrNotString
	}
	dst, ok := AppendUnescaped(dst, t.Content())
	if !ok {
		return dst, ErrNotString
	}
	return dst, nil
}

// Unquote returns the unescaped text, or ErrNotString for a value that is not a string.
func (t Text) Unquote() (string, error) {
	if len(t) >= 2 && t[0] == '"' && t[len(t)-1] == '"' && bytes.IndexByte(t, '\\') < 0 {
		return string(t.Content()), nil
	}
	text, err := t.AppendTo(nil)
	return string(text), err
}

// Unescaped returns the WTF-8 of the content of a JSON string. It is content itself if that has no escapes.
func Unescaped(content []byte) []byte {
	if bytes.IndexByte(content, '\\') < 0 {
		return content
	}
	out, _ := AppendUnescaped(make([]byte, 0, len(content)), content)
	return out
}

// AppendUnescaped appends the WTF-8 of the content of a JSON string and reports whether all escapes were valid. The result is never longer than content.
func AppendUnescaped(dst, content []byte) (_ []byte, ok bool) {
	ok = true
	for {
		i := bytes.IndexByte(content, '\\')
		if i < 0 {
			return append(dst, content...), ok
		}
		dst = append(dst, content[:i]...)
		content = content[i:]
		var n int
		var valid bool
		dst, n, valid = DecodeEscape(dst, content)
		content = content[n:]
		ok = ok && valid
	}
}

const escapeSize = len(`\u0000`)

// DecodeEscape appends the WTF-8 of the escape at the start of text, which begins with a backslash. If the escape is the first half of a surrogate pair
// and the other half follows, it appends the character of both. It returns the size of what it read. An invalid escape becomes its second byte.
func DecodeEscape(dst, text []byte) (_ []byte, size int, ok bool) {
	if len(text) < 2 {
		return append(dst, text...), len(text), false
	}
	switch c := text[1]; c {
	case '"', '\\', '/':
		return append(dst, c), 2, true
	case 'n':
		return append(dst, '\n'), 2, true
	case 'r':
		return append(dst, '\r'), 2, true
	case 't':
		return append(dst, '\t'), 2, true
	case 'b':
		return append(dst, '\b'), 2, true
	case 'f':
		return append(dst, '\f'), 2, true
	}
	unit, ok := codeUnit(text)
	if !ok {
		return append(dst, text[1]), 2, false
	}
	if !utf16.IsSurrogate(unit) {
		return utf8.AppendRune(dst, unit), escapeSize, true
	}
	if low, ok := codeUnit(text[escapeSize:]); ok {
		if r := utf16.DecodeRune(unit, low); r != utf8.RuneError {
			return utf8.AppendRune(dst, r), 2 * escapeSize, true
		}
	}
	return append(dst, 0xED, byte(0x80|unit>>6&0x3F), byte(0x80|unit&0x3F)), escapeSize, true
}

// codeUnit reads the UTF-16 code unit of a \uXXXX escape at the start of text.
func codeUnit(text []byte) (unit rune, ok bool) {
	if len(text) < escapeSize || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:escapeSize] {
		d := digit(c)
		if d < 0 {
			return 0, false
		}
		unit = unit<<4 | d
	}
	return unit, true
}

// digit returns the value of a hexadecimal digit, a negative number for another byte.
func digit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return rune(c | 0x20 - 'a' + 10)
	}
	return -1
}

// SurrogateAt returns the surrogate at the start of a WTF-8 string, 0 if there is none.
func SurrogateAt[S ~string | ~[]byte](s S) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}
