package chunk

import (
	"bytes"
	stdjson "encoding/json"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// asEncodingJSON has the rules of encoding/json, except for text that is not UTF-8. The Number of that package is a string type, so it needs a marshaler.
var asEncodingJSON = json.JoinOptions(
	jsonv1.DefaultOptionsV1(),
	jsontext.AllowInvalidUTF8(false),
	jsontext.EscapeForHTML(false),
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, n stdjson.Number) error {
		if n == "" {
			n = "0"
		}
		return enc.WriteValue(jsontext.Value(n))
	})),
)

// ValueOf returns the JSON of v as encoding/json writes it, except that text which is not UTF-8 is an error instead of being replaced, and HTML is not
// escaped. The error is ErrInvalid if the result exceeds the limits of a chunk, but for MaxValues: a writer stores a value that is too large for a record elsewhere.
func ValueOf(v any) (Value, error) {
	text, err := json.Marshal(v, asEncodingJSON)
	if err != nil {
		return nil, err
	}
	if _, bad := checkWithin(text, writerLimits); bad != nil {
		return nil, bad
	}
	return text, nil
}

// IsNull reports whether v is null. The zero Value is.
func (v Value) IsNull() bool { return len(v) == 0 || string(rawjson.TrimSpace(v)) == "null" }

// String returns the JSON text of v.
func (v Value) String() string {
	if len(v) == 0 {
		return "null"
	}
	return string(v)
}

// MarshalJSON returns the text itself, so that encoding/json can write a Value.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	return v, nil
}

// UnmarshalJSON keeps the text, so that encoding/json can read a Value.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = bytes.Clone(text)
	return nil
}

// Float64 returns the nearest double; false if n is malformed or out of range.
func (n Number) Float64() (float64, bool) {
	f, err := strconv.ParseFloat(string(n), 64)
	return f, err == nil
}

// MarshalJSON returns the number itself, not a string. It returns an error for the zero Number.
func (n Number) MarshalJSON() ([]byte, error) {
	text, err := appendNumber(nil, string(n))
	if err != nil {
		return nil, err
	}
	return text, nil
}

// UnmarshalJSON keeps the text of a number.
func (n *Number) UnmarshalJSON(text []byte) error {
	if _, err := appendNumber(nil, string(text)); err != nil {
		return err
	}
	*n = Number(text)
	return nil
}
