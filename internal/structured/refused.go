package structured

import (
	"errors"
	"strconv"
)

// ErrRejected reports a chunk that was not applied. A *RejectedError wraps it and has the reason. No value has changed; count the error and continue with
// the next chunk.
var ErrRejected = errors.New("structured-data chunk refused")

// RejectedError is an ErrRejected with the place and the reason.
type RejectedError struct {
	Stream string // id of the stream, "" if the chunk has none that can be parsed
	Path   string // the chunk's path, "" if the reason is not on it
	At     string // the part of Path up to the conflicting value; "" is the root
	Want   string // e.g. "an array"
	Got    string // e.g. "a number"; "" if there is no value
}

// Error returns one line in ASCII. It contains at most the beginnings of the chunk's texts.
func (e *RejectedError) Error() string {
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

// Is reports whether target is ErrRejected.
func (e *RejectedError) Is(target error) bool { return target == ErrRejected }

func excerpt(s string) string {
	const maxExcerpt = 48
	if len(s) > maxExcerpt {
		return strconv.QuoteToASCII(s[:maxExcerpt]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
