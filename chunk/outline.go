package chunk

import (
	"fmt"

	"github.com/tailrace/tailrace/internal/jsonscan"
)

// span is a stretch of a text: text[start:end].
type span struct{ start, end int }

func (s span) of(text []byte) []byte { return text[s.start:s.end] }

// member is one member of an object as it lies in the text.
type member struct {
	name  span // between the quotes, still escaped
	value span
}

// outline is what one pass over a text finds out before the text is known to be
// JSON. Nothing of it may be trusted until checkGrammar has accepted the text.
type outline struct {
	members    []member // of the outermost object
	loneEscape bool     // a surrogate escape without its other half
	newline    bool     // a line break outside strings, assuming valid JSON
	plain      bool     // no name has an escape, among other things
}

// outlineOf makes the outline of what must be one JSON object within the limits.
func outlineOf(text []byte, room []member) (outline, *FieldError) {
	if out, ok := plainOutline(text, room); ok {
		return out, nil
	}
	out, err := trace(text, room)
	if err == nil {
		err = checkGrammar(text, out.loneEscape)
	}
	if err == nil && text[0] != '{' {
		err = &FieldError{Want: "an object", Got: wordFor(text)}
	}
	return out, err
}

// plainOutline makes the outline of an object in one pass that finds out as well
// that it is JSON and within the limits. It reports false of a text that is not, or
// that is not plainly written: trace and checkGrammar know about that, and have the
// same to say about the others.
func plainOutline(text []byte, room []member) (outline, bool) {
	out := outline{members: room[:0]}
	sc := jsonscan.Scanner{Data: text, Levels: MaxDepth, Plain: true, MaxName: MaxName}
	ok := sc.Object(func(name, value jsonscan.Span) bool {
		out.members = append(out.members, member{name: span{name.Start + 1, name.End - 1}, value: span{value.Start, value.End}})
		return true
	})
	out.newline, out.plain = sc.Broken, true
	return out, ok && sc.Values <= MaxValues
}

// tracer makes an outline. It counts depth, values and names as it goes, so
// that the grammar check, which remembers every name to find duplicates, never
// sees a text over the limits.
type tracer struct {
	text       []byte
	depth      int
	values     int
	inValue    bool // at depth 1: behind the colon of pending
	pending    member
	loneEscape bool
}

// trace outlines text. The members are put into room, and elsewhere only if it
// is too small.
func trace(text []byte, room []member) (out outline, err *FieldError) {
	t := tracer{text: text, values: 1}
	out.members = room[:0]
	for i := 0; i < len(text) && err == nil; i++ {
		switch text[i] {
		case '"':
			i, err = t.str(i)
		case '{', '[':
			err = t.open(i)
		case ',', '}', ']':
			if t.depth == 1 && t.inValue {
				out.members = append(out.members, t.close(i))
			}
			if text[i] != ',' {
				t.depth--
			} else {
				err = t.count()
			}
		case ':':
			if t.depth == 1 && !t.inValue {
				t.inValue = true
				t.pending.value.start = skipSpace(text, i+1)
			}
		case '\n', '\r':
			out.newline = true
		}
	}
	out.loneEscape = t.loneEscape
	return out, err
}

func (t *tracer) open(i int) *FieldError {
	t.depth++
	if t.depth > MaxDepth {
		return &FieldError{Want: fmt.Sprintf("at most %d levels", MaxDepth), Got: "more"}
	}
	if next := skipSpace(t.text, i+1); next < len(t.text) && (t.text[next] == '}' || t.text[next] == ']') {
		return nil // empty: no value in it
	}
	return t.count()
}

func (t *tracer) count() *FieldError {
	t.values++
	if t.values > MaxValues {
		return &FieldError{Want: fmt.Sprintf("at most %d values", MaxValues), Got: "more"}
	}
	return nil
}

// str passes the string that opens at i and returns the place of its closing
// quote.
func (t *tracer) str(i int) (int, *FieldError) {
	end := t.closingQuote(i + 1)
	if next := skipSpace(t.text, end+1); next >= len(t.text) || t.text[next] != ':' {
		return end, nil
	}
	name := span{i + 1, end}
	// Unescaping never makes a text longer.
	if end-i-1 > MaxName && len(unescape(name.of(t.text))) > MaxName {
		return end, &FieldError{Want: fmt.Sprintf("member names of at most %d bytes", MaxName), Got: "a longer one"}
	}
	if t.depth == 1 && !t.inValue {
		t.pending.name = name
	}
	return end, nil
}

// closingQuote finds the quote that closes the string whose content starts at
// i, or the end of the text.
func (t *tracer) closingQuote(i int) int {
	for i < len(t.text) {
		switch t.text[i] {
		case '"':
			return i
		case '\\':
			unit, ok := escapedUnit(t.text[i:])
			if !ok || !isSurrogate(unit) {
				i += 2
				continue
			}
			i += 6
			if low, ok := escapedUnit(t.text[i:]); ok && isHigh(unit) && isLow(low) {
				i += 6
			} else {
				t.loneEscape = true
			}
		default:
			i++
		}
	}
	return len(t.text)
}

// close ends the pending member of the outermost object before i.
func (t *tracer) close(i int) member {
	for i > t.pending.value.start && isSpace(t.text[i-1]) {
		i--
	}
	done := t.pending
	done.value.end = i
	t.pending, t.inValue = member{}, false
	return done
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func skipSpace(text []byte, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

// trimSpace cuts JSON white space off both ends.
func trimSpace(text []byte) []byte {
	text = text[skipSpace(text, 0):]
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}
