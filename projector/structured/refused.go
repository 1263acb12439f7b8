package structured

import (
	"errors"
	"strconv"
)

// ErrRefused reports a chunk that was not applied. A *RefusedError wraps it and
// says why. No value changed; count it and go on with the next chunk.
var ErrRefused = errors.New("structured-data chunk refused")

// RefusedError is ErrRefused with the place and the reason.
type RefusedError struct {
	Stream string // id of the stream, "" when the chunk has none that can be read
	Path   string // the chunk's path, "" when the reason is not on it
	At     string // the part of Path that led to what was in the way; "" is the root
	Want   string // e.g. "an array"
	Got    string // e.g. "a number"; "" when there is nothing
}

// Error is one line in ASCII. It shows no more than the beginnings of what the
// chunk says.
func (e *RefusedError) Error() string {
	text := "stream " + excerpt(e.Stream)
	if e.Path != "" {
		text += ", path " + excerpt(e.Path) + " at " + excerpt(e.At)
	}
	text += ": want " + e.Want
	if e.Got != "" {
		text += ", got " + e.Got
	}
	return text
}

// Is makes a RefusedError an ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

func excerpt(s string) string {
	const most = 48
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
