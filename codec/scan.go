package codec

import (
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

// scanner checks JSON text in one pass without allocation, a nanosecond or two
// per byte. encoding/json.Valid takes two to three times as long and passes
// bytes that are no UTF-8. jsontext is as fast, but refuses the lone surrogate
// escapes that are legal here, or else passes bytes that are no UTF-8. Both
// would need more passes for the line breaks and the type.
type scanner struct {
	data   []byte
	pos    int
	depth  int
	broken bool // a raw CR or LF stands between two tokens
}

// document reports whether the text is one JSON object and nothing else. It
// shows member each of its members, the name and a string value with their
// quotes, until member returns false.
func (s *scanner) document(member func(name, value []byte) bool) bool {
	s.space()
	if s.peek() != '{' || !s.object(member) {
		return false
	}
	s.space()
	return s.pos == len(s.data)
}

// peek is the next byte, 0 at the end (a NUL is nowhere legal).
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case '\r', '\n':
			s.broken = true
		case ' ', '\t':
		default:
			return
		}
		s.pos++
	}
}

func (s *scanner) value() bool {
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

func (s *scanner) object(member func(name, value []byte) bool) bool {
	if !s.enter() {
		return false
	}
	if s.peek() == '}' {
		return s.leave()
	}
	for {
		nameAt := s.pos
		if s.peek() != '"' || !s.str() {
			return false
		}
		name := s.data[nameAt:s.pos]
		s.space()
		if s.peek() != ':' {
			return false
		}
		s.pos++
		s.space()
		valueAt := s.pos
		if !s.value() {
			return false
		}
		if member != nil && !member(name, s.data[valueAt:s.pos:s.pos]) {
			return false
		}
		if more, ok := s.next('}'); !more {
			return ok
		}
	}
}

func (s *scanner) array() bool {
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

func (s *scanner) enter() bool {
	s.depth++
	if s.depth > chunk.MaxDepth {
		return false
	}
	s.pos++
	s.space()
	return true
}

func (s *scanner) leave() bool {
	s.depth--
	s.pos++
	return true
}

// next stands behind an element: a comma says more, the closing byte the end.
func (s *scanner) next(closing byte) (more, ok bool) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, true
	case closing:
		return false, s.leave()
	}
	return false, false
}

func (s *scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

func (s *scanner) str() bool {
	s.pos++
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return false
			}
			s.pos += n
		}
	}
	return false
}

func (s *scanner) escape() bool {
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
		s.pos++
		for range 4 {
			if !isHex(s.peek()) {
				return false
			}
			s.pos++
		}
		return true
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// number: an optional minus, digits without leading zeros, and optionally a
// fraction and an exponent.
func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else if !s.digits() {
		return false
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start
}

// excerpt is what stands where the scanner stopped, first what stands at the
// beginning.
func (s *scanner) excerpt() string { return head(s.data[s.pos:]) }
func (s *scanner) first() string   { return head(s.data) }

func head(b []byte) string { return string(b[:min(len(b), maxQuoted)]) }
