package rawjson

import (
	"bytes"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// Span is a part of a text: text[Start:End].
type Span struct{ Start, End int }

// Of returns the part of text that s names.
func (s Span) Of(text []byte) []byte { return text[s.Start:s.End:s.End] }

// Limits bound what a scan accepts. Values and Name of 0 mean no limit.
type Limits struct {
	Levels int // nested objects and arrays; the scan recurses once per level
	Values int // values at all levels together
	Name   int // bytes of a member name, unescaped

	// Plain also rejects valid text that is rarely written: a lone surrogate escape, a name with an escape, two members of one name, more than 32 names
	// in the objects that are open. What it accepts has no duplicate names. Name is required.
	Plain bool
}

// Limit names one of the Limits.
type Limit int

// The limits that a text can exceed.
const (
	NoLimit Limit = iota
	LevelLimit
	ValueLimit
	NameLimit
)

// Info is what a scan found. Unless the scan succeeded, it covers the text up to End.
type Info struct {
	End           int   // offset of the first byte that was not accepted; the length of the text on success
	Values        int   // number of values at all levels together
	Exceeded      Limit // the limit that stopped the scan, if a limit did
	Complete      bool  // a value ended before End: what follows it was not accepted
	HasLineBreaks bool  // a raw CR or LF occurs between two tokens
	LoneSurrogate bool  // a surrogate escape occurs without its other half
}

// Scan reports whether text is one JSON value in UTF-8 within the limits. It does not allocate and takes 1 to 2 ns per byte. Names may occur twice
// unless l.Plain is set; Duplicate finds them.
//
// encoding/json.Valid takes two to three times as long and accepts invalid UTF-8. jsontext is not faster and cannot both check UTF-8 and accept lone
// surrogate escapes. Both would need further passes for the line breaks and the members.
func Scan(text []byte, l Limits) (Info, bool) {
	var s scanner // a composite literal would be built twice
	s.init(text, l)
	s.space()
	return s.finish(s.value())
}

// ScanObject is Scan for text that must be an object. It calls member with each member of the outermost object, the name and a string value with their
// quotes, until member returns false. A nil member is not called.
func ScanObject(text []byte, l Limits, member func(name, value Span) bool) (Info, bool) {
	var s scanner // a composite literal would be built twice
	s.init(text, l)
	s.space()
	s.values = 1
	return s.finish(s.peek() == '{' && s.object(member))
}

type scanner struct {
	text   []byte
	limits Limits
	pos    int
	level  int
	values int
	info   Info

	escaped bool           // an escape was found
	names   [maxNames]Span // of the members so far of the open objects, if limits.Plain
	named   int
}

const maxNames = 32

func (s *scanner) init(text []byte, l Limits) {
	s.text, s.limits = text, l
	if l.Values == 0 {
		s.limits.Values = math.MaxInt
	}
	if l.Name == 0 {
		s.limits.Name = math.MaxInt
	}
}

func (s *scanner) finish(ok bool) (Info, bool) {
	if ok {
		s.info.Complete = true
		s.space()
		ok = s.pos == len(s.text)
	}
	s.info.End, s.info.Values = s.pos, s.values
	return s.info, ok
}

// peek returns the next byte, 0 at the end: a NUL is not allowed anywhere.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	if s.pos < len(s.text) && s.text[s.pos] > ' ' {
		return // the usual case
	}
	s.skipSpace()
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case '\r', '\n':
			s.info.HasLineBreaks = true
		case ' ', '\t':
		default:
			return
		}
		s.pos++
	}
}

func (s *scanner) exceed(l Limit) bool {
	s.info.Exceeded = l
	return false
}

func (s *scanner) value() bool {
	s.values++
	if s.values > s.limits.Values {
		return s.exceed(ValueLimit)
	}
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

func (s *scanner) object(member func(name, value Span) bool) bool {
	if !s.enter() {
		return false
	}
	if s.peek() == '}' {
		return s.leave()
	}
	first := s.named
	for {
		s.escaped = false
		name := Span{Start: s.pos}
		if s.peek() != '"' || !s.str() {
			return false
		}
		name.End = s.pos
		if s.limits.Plain {
			if !s.plainName(name, first) {
				return false
			}
		} else if name.End-name.Start-len(`""`) > s.limits.Name && s.longName(name) {
			return s.exceed(NameLimit)
		}
		s.space()
		if s.peek() != ':' {
			return false
		}
		s.pos++
		s.space()
		value := Span{Start: s.pos}
		if !s.value() {
			return false
		}
		value.End = s.pos
		if member != nil && !member(name, value) {
			return false
		}
		if more, ok := s.next('}'); !more {
			s.named = first
			return ok
		}
	}
}

// longName reports whether an unescaped name exceeds the limit. Unescaping never makes a text longer.
func (s *scanner) longName(name Span) bool {
	return len(Text(name.Of(s.text)).Bytes()) > s.limits.Name
}

// plainName adds a quoted name to an object whose earlier names begin at s.names[first].
func (s *scanner) plainName(name Span, first int) bool {
	text := name.Of(s.text)
	if s.escaped || len(text)-len(`""`) > s.limits.Name || s.named == maxNames {
		return false
	}
	for _, n := range s.names[first:s.named] {
		if bytes.Equal(n.Of(s.text), text) {
			return false
		}
	}
	s.names[s.named] = name
	s.named++
	return true
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
	s.level++
	if s.level > s.limits.Levels {
		return s.exceed(LevelLimit)
	}
	s.pos++
	s.space()
	return true
}

func (s *scanner) leave() bool {
	s.level--
	s.pos++
	return true
}

// next reads what follows an element: more after a comma, the end of the container at the closing byte.
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
	if rest := s.text[s.pos:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
		s.pos += len(word)
		return true
	}
	for i := 0; i < len(word) && s.peek() == word[i]; i++ {
		s.pos++
	}
	return false
}

func (s *scanner) str() bool {
	for s.pos++; ; {
		n := 0
		rest := s.text[s.pos:]
		for n < len(rest) && ordinary[rest[n]] {
			n++
		}
		s.pos += n
		switch c := s.peek(); {
		case c == '"':
			s.pos++
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
			s.pos += n
		}
	}
}

// ordinary has the ASCII bytes that a string contains as they are.
var ordinary = func() (is [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

func (s *scanner) escape() bool {
	s.escaped = true
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return true
	case 'u':
		unit, ok := s.unit()
		if ok && utf16.IsSurrogate(unit) {
			return s.surrogate(unit)
		}
		return ok
	}
	return false
}

// surrogate reads the other half of a surrogate pair, if it follows.
func (s *scanner) surrogate(high rune) bool {
	if low, ok := codeUnit(s.text[s.pos:]); ok && utf16.DecodeRune(high, low) != utf8.RuneError {
		s.pos += escapeSize
		return true
	}
	s.info.LoneSurrogate = true
	return !s.limits.Plain
}

// unit reads the u of an escape and its four digits.
func (s *scanner) unit() (unit rune, ok bool) {
	s.pos++
	for range 4 {
		d := digit(s.peek())
		if d < 0 {
			return 0, false
		}
		unit = unit<<4 | d
		s.pos++
	}
	return unit, true
}

// number reads an optional minus, digits without leading zeros, and optionally a fraction and an exponent.
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

// Deeper reports whether objects and arrays are nested in text more than limit levels deep. It accepts any text and stops at the first level beyond limit.
func Deeper(text []byte, limit int) bool { return depth(text, limit) > limit }

// Depth returns how many levels deep objects and arrays are nested in a value.
func Depth(value []byte) int { return depth(value, math.MaxInt) }

// depth returns the depth of text, or the first depth above limit.
func depth(text []byte, limit int) int {
	deepest, now := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			now++
			if deepest = max(deepest, now); deepest > limit {
				return deepest
			}
		case '}', ']':
			now--
		case '"':
			end := StringEnd(text, i)
			if end < 0 {
				return deepest
			}
			i = end - 1
		}
	}
	return deepest
}
