package codec

import (
	"fmt"
	"strconv"
)

// EnvelopeError reports why a message is malformed. Readers count and skip such a message: it has no ordinal, so no record is missing.
type EnvelopeError struct {
	Attribute string // CloudEvents name: "id", "source", "datacontenttype", "data"; or the header's name
	Want      string // what was expected, e.g. "<epoch>-<ordinal>"
	Got       string // the received value, cut after 64 bytes; "" if it is missing
}

// Error returns the attribute with the expected and the received value.
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

// head returns the start of a text, as it is quoted in an error.
func head(b []byte) string { return string(b[:min(len(b), maxQuoted)]) }
