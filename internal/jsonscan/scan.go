// Package jsonscan checks JSON text in one pass without allocation, a nanosecond
// or two per byte. encoding/json.Valid takes two to three times as long and passes
// bytes that are no UTF-8. jsontext is not faster and refuses the lone surrogate
// escapes that are legal here, or else passes bytes that are no UTF-8. Both would
// need more passes for the line breaks and the members.
package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Span is a stretch of a text: text[Start:End].
type Span struct{ Start, End int }

// Of is the stretch.
func (s Span) Of(text []byte) []byte { return text[s.Start:s.End:s.End] }

// Scanner reads one text.
type Scanner struct {
	Data   []byte
	Levels int // objects and arrays inside one another, at most

	// Plain refuses also what JSON allows, or leaves open, and plain texts do not
	// have: a lone surrogate escape, a name with an escape, a name over MaxName
	// bytes, two members of one name, more than maxNames names in the objects that
	// are open. Whether such a text is fit is for another reader to say.
	Plain   bool
	MaxName int

	Pos    int  // where it stands; when it has refused, at what
	Values int  // that it has seen, at all levels together
	Broken bool // a raw CR or LF stands between two tokens

	level   int
	escaped bool           // an escape was seen
	names   [maxNames]Span // of the members so far of the open objects, if Plain
	named   int
}

const maxNames = 32

// Object reports whether the text is one JSON object and nothing else. It shows
// member each of its members, the name and a string value with their quotes,
// until member returns false.
func (s *Scanner) Object(member func(name, value Span) bool) bool {
	s.space()
	s.Values++
	if s.peek() != '{' || !s.object(member) {
		return false
	}
	s.space()
	return s.Pos == len(s.Data)
}

// peek is the next byte, 0 at the end (a NUL is nowhere legal).
func (s *Scanner) peek() byte {
	if s.Pos < len(s.Data) {
		return s.Data[s.Pos]
	}
	return 0
}

func (s *Scanner) space() {
	if s.Pos < len(s.Data) && s.Data[s.Pos] > ' ' {
		return // as nearly everywhere
	}
	s.skipSpace()
}

func (s *Scanner) skipSpace() {
	for s.Pos < len(s.Data) {
		switch s.Data[s.Pos] {
		case '\r', '\n':
			s.Broken = true
		case ' ', '\t':
		default:
			return
		}
		s.Pos++
	}
}

func (s *Scanner) value() bool {
	s.Values++
	switch s.peek() {
	case '"':
		return s.str()
	case '{':
		return s.object(nil)
	case '[':
		return s.array()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *Scanner) object(member func(name, value Span) bool) bool {
	if !s.enter() {
		return false
	}
	if s.peek() == '}' {
		return s.leave()
	}
	first := s.named
	for {
		s.escaped = false
		name := Span{Start: s.Pos}
		if s.peek() != '"' || !s.str() {
			return false
		}
		name.End = s.Pos
		if s.Plain && !s.plainName(name, first) {
			return false
		}
		s.space()
		if s.peek() != ':' {
			return false
		}
		s.Pos++
		s.space()
		value := Span{Start: s.Pos}
		if !s.value() {
			return false
		}
		value.End = s.Pos
		if member != nil && !member(name, value) {
			return false
		}
		if more, ok := s.next('}'); !more {
			s.named = first
			return ok
		}
	}
}

// plainName takes a name, in its quotes, of an object of which those from first on
// are known.
func (s *Scanner) plainName(name Span, first int) bool {
	text := name.Of(s.Data)
	if s.escaped || len(text) > s.MaxName+len(`""`) || s.named == maxNames {
		return false
	}
	for _, n := range s.names[first:s.named] {
		if bytes.Equal(n.Of(s.Data), text) {
			return false
		}
	}
	s.names[s.named] = name
	s.named++
	return true
}

func (s *Scanner) array() bool {
	if !s.enter() {
		return false
	}
	if s.peek() == ']' {
		return s.leave()
	}
	for {
		if !s.value() {
			return false
		}
		if more, ok := s.next(']'); !more {
			return ok
		}
	}
}

func (s *Scanner) enter() bool {
	s.level++
	if s.level > s.Levels {
		return false
	}
	s.Pos++
	s.space()
	return true
}

func (s *Scanner) leave() bool {
	s.level--
	s.Pos++
	return true
}

// next stands behind an element: a comma says more, the closing byte the end.
func (s *Scanner) next(closing byte) (more, ok bool) {
	s.space()
	switch s.peek() {
	case ',':
		s.Pos++
		s.space()
		return true, true
	case closing:
		return false, s.leave()
	}
	return false, false
}

func (s *Scanner) literal(word string) bool {
	if len(s.Data)-s.Pos < len(word) || string(s.Data[s.Pos:s.Pos+len(word)]) != word {
		return false
	}
	s.Pos += len(word)
	return true
}

func (s *Scanner) str() bool {
	for s.Pos++; ; {
		n := 0
		rest := s.Data[s.Pos:]
		for n < len(rest) && ordinary[rest[n]] {
			n++
		}
		s.Pos += n
		switch c := s.peek(); {
		case c == '"':
			s.Pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		default:
			r, n := utf8.DecodeRune(rest[n:])
			if r == utf8.RuneError && n == 1 {
				return false
			}
			s.Pos += n
		}
	}
}

// ordinary are the bytes of a string that mean themselves and nothing else.
var ordinary = func() (is [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

func (s *Scanner) escape() bool {
	s.escaped = true
	s.Pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.Pos++
		return true
	case 'u':
		unit, ok := s.unit()
		if s.Plain && utf16.IsSurrogate(unit) {
			return ok && s.pair(unit)
		}
		return ok
	}
	return false
}

// pair takes the other half of a surrogate pair.
func (s *Scanner) pair(high rune) bool {
	if !s.literal(`\`) || s.peek() != 'u' {
		return false
	}
	low, ok := s.unit()
	return ok && utf16.DecodeRune(high, low) != utf8.RuneError
}

// unit reads the u of an escape, and its digits.
func (s *Scanner) unit() (unit rune, ok bool) {
	s.Pos++
	for range 4 {
		c := s.peek()
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
		s.Pos++
	}
	return unit, true
}

// number: an optional minus, digits without leading zeros, and optionally a
// fraction and an exponent.
func (s *Scanner) number() bool {
	if s.peek() == '-' {
		s.Pos++
	}
	if s.peek() == '0' {
		s.Pos++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.Pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.Pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.Pos++
		}
		return s.digits()
	}
	return true
}

func (s *Scanner) digits() bool {
	start := s.Pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.Pos++
	}
	return s.Pos > start
}
