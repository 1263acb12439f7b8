package chunk

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// The texts of these errors are stored with records that cannot be folded, so they do not change.

// checkWithin checks that text is one JSON value within limits without duplicate names.
func checkWithin(text []byte, l rawjson.Limits) (rawjson.Info, *FieldError) {
	info, ok := rawjson.Scan(text, l)
	if !ok {
		return info, explain(text, info)
	}
	return info, checkNames(text)
}

// checkNames rejects valid JSON in which an object has two members of one name.
func checkNames(text []byte) *FieldError {
	path := rawjson.Duplicate(text)
	if path == nil {
		return nil
	}
	for i, name := range path {
		path[i] = escapePointer(name)
	}
	return twice(strings.Join(path, "/"))
}

// explain returns why a scan rejected text. The error contains nothing of the text.
func explain(text []byte, info rawjson.Info) *FieldError {
	switch info.Exceeded {
	case rawjson.LevelLimit:
		return &FieldError{Want: fmt.Sprintf("at most %d levels", MaxDepth), Got: "more"}
	case rawjson.ValueLimit:
		return &FieldError{Want: fmt.Sprintf("at most %d values", MaxValues), Got: "more"}
	case rawjson.NameLimit:
		return &FieldError{Want: fmt.Sprintf("member names of at most %d bytes", MaxName), Got: "a longer one"}
	}
	switch {
	case len(rawjson.TrimSpace(text)) == 0:
		return &FieldError{Want: "a JSON value", Got: "nothing"}
	case !utf8.Valid(text):
		return &FieldError{Want: "JSON in UTF-8", Got: "bytes that are none"}
	case info.Complete:
		return &FieldError{Want: "one JSON value", Got: fmt.Sprintf("more behind it, at byte %d", info.End)}
	case info.End == len(text):
		return &FieldError{Want: "JSON", Got: "an end in the middle"}
	}
	return &FieldError{Want: "JSON", Got: fmt.Sprintf("a syntax error at byte %d", info.End)}
}

func twice(path string) *FieldError {
	return &FieldError{Field: path, Want: "each member once", Got: "two of this name"}
}

func isNumber(s string) bool {
	_, ok := rawjson.Scan([]byte(s), limits)
	return ok && (s[0] == '-' || s[0] >= '0' && s[0] <= '9')
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
