package codec

import (
	"fmt"
	"strconv"
)

// EnvelopeError reports why a message is malformed. Readers count and skip such a message: it has no ordinal, so no record is missing.
type EnvelopeError struct {
	Attribute string // CloudEvents name: "id", "source", "datacontenttype", "data"; or the header's name
	Want      string // what was expected, e.g. "<epoch>-<ordinal>"
	Got       string // what came, cut after 64 bytes; "" when it is missing
}

// Error names the attribute and shows both sides.
func (e *EnvelopeError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("event without usable %s: want %s", e.Attribute, e.Want)
	}
	return fmt.Sprintf("event %s %q: want %s", e.Attribute, e.Got, e.Want)
}

const maxQuoted = 64

// newEnvelopeError returns an error whose text is one line for any names and values.
func newEnvelopeError(attribute, want, got string) *EnvelopeError {
	attribute = clip(attribute)
	if !isVisible(attribute) {
		attribute = strconv.QuoteToASCII(attribute)
	}
	return &EnvelopeError{Attribute: attribute, Want: want, Got: clip(got)}
}

func clip(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "…"
	}
	return s
}

// head is what a text begins with, as much as is quoted of it.
func head(b []byte) string { return string(b[:min(len(b), maxQuoted)]) }
