package rawjson

import "unicode/utf8"

// Two spellings of strings are stored, and hashes depend on both. They differ in backspace and form feed only: snapshots and their messages have \u0008
// and \u000c, chunks and the state of structured data have \b and \f. Everything else is as short as JSON allows; a lone surrogate is the escape that
// it was read from.

// AppendQuoted appends a WTF-8 string as JSON in the spelling of snapshots.
func AppendQuoted[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst, _ = appendEscaped(append(dst, '"'), s, &snapshotEscapes)
	return append(dst, '"')
}

// AppendEscaped is AppendQuoted without the quotes.
func AppendEscaped[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst, _ = appendEscaped(dst, s, &snapshotEscapes)
	return dst
}

// AppendQuotedChunk appends a string as JSON in the spelling of chunks and reports whether it is WTF-8. Other bytes stay as they are.
func AppendQuotedChunk[S ~string | ~[]byte](dst []byte, s S) (_ []byte, ok bool) {
	dst, ok = appendEscaped(append(dst, '"'), s, &chunkEscapes)
	return append(dst, '"'), ok
}

// AppendUnit appends the \uXXXX escape of a UTF-16 code unit.
func AppendUnit(dst []byte, unit rune) []byte {
	return append(dst, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
}

const hexDigits = "0123456789abcdef"

// escapes has what follows the backslash of each byte that needs one: the byte of a short escape, or u. A byte of 0 needs no escape.
type escapes [256]byte

var (
	snapshotEscapes = newEscapes()
	chunkEscapes    = newEscapes('\b', 'b', '\f', 'f')
)

const notASCII = 'x' // in escapes: part of a character, or of a surrogate

func newEscapes(more ...byte) (e escapes) {
	for c := range e {
		switch {
		case c < ' ':
			e[c] = 'u'
		case c >= utf8.RuneSelf:
			e[c] = notASCII
		}
	}
	for pairs := append([]byte{'"', '"', '\\', '\\', '\n', 'n', '\r', 'r', '\t', 't'}, more...); len(pairs) > 0; pairs = pairs[2:] {
		e[pairs[0]] = pairs[1]
	}
	return e
}

func appendEscaped[S ~string | ~[]byte](dst []byte, s S, e *escapes) (_ []byte, ok bool) {
	ok = true
	from := 0 // s[from:i] needs no escape
	for i := 0; i < len(s); {
		unit, size := rune(s[i]), 1
		short := e[s[i]]
		switch short {
		case 0:
			i++
			continue
		case notASCII:
			if n := runeSize(s[i:]); n > 0 {
				i += n
				continue
			}
			if unit, size = SurrogateAt(s[i:]), 3; unit == 0 {
				ok = false
				i++
				continue
			}
			short = 'u'
		}
		dst = append(dst, s[from:i]...)
		if short == 'u' {
			dst = AppendUnit(dst, unit)
		} else {
			dst = append(dst, '\\', short)
		}
		i += size
		from = i
	}
	return append(dst, s[from:]...), ok
}

// runeSize returns the size of the character of more than one byte at the start of s, 0 if it is not UTF-8.
func runeSize[S ~string | ~[]byte](s S) int {
	switch c := s[0]; {
	case c < 0xC2 || c > 0xF4 || len(s) < 2 || s[1]&0xC0 != 0x80:
		return 0
	case c < 0xE0:
		return 2
	case len(s) < 3 || s[2]&0xC0 != 0x80 || c == 0xE0 && s[1] < 0xA0 || c == 0xED && s[1] >= 0xA0:
		return 0
	case c < 0xF0:
		return 3
	case len(s) < 4 || s[3]&0xC0 != 0x80 || c == 0xF0 && s[1] < 0x90 || c == 0xF4 && s[1] >= 0x90:
		return 0
	}
	return 4
}
