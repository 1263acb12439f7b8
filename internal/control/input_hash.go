package control

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
)

// InputHash returns the SHA-256 hash of the input of a call in canonical form (RFC 8785), in hex. Inputs that a JavaScript client cannot tell apart have the
// same hash: members in another order, escaped text, and numbers that are the same double. It is "" for an input without a canonical form, such as one with two
// members of one name, of which a client shows one.
func InputHash(input chunk.Value) string {
	canonical := jsontext.Value(input).Clone()
	if err := canonical.Canonicalize(jsontext.AllowInvalidUTF8(true)); err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// ShownHash returns the hash of an input that a client was shown, "" if the client does not say it. It is not that of any input for one without a canonical form.
func ShownHash(input chunk.Value) string {
	if len(input) == 0 {
		return ""
	}
	return cmp.Or(InputHash(input), "none")
}
