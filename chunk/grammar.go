package chunk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// lenient lets lone surrogate escapes through. Names are compared by sameNames
// then: with these options the tokenizer takes all lone surrogates for U+FFFD.
var lenient = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)}

// checkGrammar reports whether text is one JSON value and nothing else: UTF-8,
// no name twice in an object. The caller has traced it: it is within the limits.
func checkGrammar(text []byte, loneEscape bool) *FieldError {
	if !loneEscape {
		if jsontext.Value(text).IsValid() {
			return nil
		}
		return explain(text)
	}
	if !utf8.Valid(text) {
		return &FieldError{Want: "JSON in UTF-8", Got: "bytes that are none"}
	}
	if !jsontext.Value(text).IsValid(lenient...) {
		return explain(text, lenient...)
	}
	return sameNames(trimSpace(text))
}

// explain says in our own words what the tokenizer does not like. It shows
// nothing of the text but the path of a duplicate name.
func explain(text []byte, opts ...jsontext.Options) *FieldError {
	if len(trimSpace(text)) == 0 {
		return &FieldError{Want: "a JSON value", Got: "nothing"}
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), opts...) // of a Buffer it makes no copy
	_, err := dec.ReadValue()
	if err == nil {
		return &FieldError{Want: "one JSON value", Got: fmt.Sprintf("more behind it, at byte %d", dec.InputOffset())}
	}
	bad, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !utf8.Valid(text):
		return &FieldError{Want: "JSON in UTF-8", Got: "bytes that are none"}
	case ok && errors.Is(bad.Err, jsontext.ErrDuplicateName):
		return twice(strings.TrimPrefix(string(bad.JSONPointer), "/"))
	case ok && !errors.Is(err, io.ErrUnexpectedEOF):
		return &FieldError{Want: "JSON", Got: fmt.Sprintf("a syntax error at byte %d", bad.ByteOffset)}
	default:
		return &FieldError{Want: "JSON", Got: "an end in the middle"}
	}
}

func twice(path string) *FieldError {
	return &FieldError{Field: path, Want: "each member once", Got: "two of this name"}
}

// sameNames finds an object with two members of one name in valid JSON.
func sameNames(text []byte) *FieldError {
	switch text[0] {
	case '[':
		i := 0
		for elem := range elements(text) {
			if err := sameNames(elem); err != nil {
				return err.under(strconv.Itoa(i))
			}
			i++
		}
	case '{':
		seen := make(map[string]bool)
		for m := range membersOf(text) {
			name := string(plain(m.name.of(text)))
			if seen[name] {
				return twice(escapePointer(name))
			}
			seen[name] = true
			if err := sameNames(m.value.of(text)); err != nil {
				return err.under(escapePointer(name))
			}
		}
	}
	return nil
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// under puts the field of an error below a parent member.
func (e *FieldError) under(parent string) *FieldError {
	if e.Field == "" {
		e.Field = parent
	} else {
		e.Field = parent + "/" + e.Field
	}
	return e
}
