package codec

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsonscan"
)

// readStructured reads an event in JSON form. The SDK's own reader is not used
// here: of two members of one name it keeps the last, it takes data beside
// data_base64, and it passes on data that is not JSON.
func readStructured(text []byte) (event, error) {
	r := structuredReader{seen: make(map[string]bool)}
	// One level more than a body: the event around it.
	sc := jsonscan.Scanner{Data: text, Levels: chunk.MaxDepth + 1}
	ok := sc.Object(func(name, value jsonscan.Span) bool {
		r.err = r.member(name.Of(text), value.Of(text))
		return r.err == nil
	})
	switch {
	case r.err != nil:
		return event{}, r.err
	case !ok:
		return event{}, refuse("event", "one JSON object in UTF-8", head(text[sc.Pos:]))
	}
	return r.event()
}

type structuredReader struct {
	ev     event
	seen   map[string]bool
	data   []byte // the member, as it stands
	base64 []byte // the member, decoded
	err    error
}

func (r *structuredReader) member(quoted, value []byte) error {
	name, ok := unquote(quoted)
	if !ok {
		return refuse("event", "names without lone surrogates", string(quoted))
	}
	if r.seen[name] {
		return refuse(name, "one member of that name", string(value))
	}
	r.seen[name] = true
	switch name {
	case "data":
		r.data = value
		return nil
	case "data_base64":
		return r.readBase64(value)
	}
	return r.attribute(name, value)
}

func (r *structuredReader) readBase64(value []byte) error {
	text, ok := unquote(value)
	if !ok {
		return refuse("data_base64", "a string", string(value))
	}
	// The decoder passes over line breaks, which base64 in JSON has none of.
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return refuse("data_base64", "base64", text)
	}
	r.base64 = b
	return nil
}

// attribute takes a string; an extension may also be a boolean or a number. A
// null is refused, because readers differ in what they make of it.
func (r *structuredReader) attribute(name string, value []byte) error {
	at := attributeNamed(name)
	if at == attrOther && strings.IndexByte("tf-0123456789", value[0]) >= 0 {
		return checkOther(name, "")
	}
	text, ok := unquote(value)
	if !ok {
		return refuse(name, "a string", string(value))
	}
	if at == attrOther {
		return checkOther(name, text)
	}
	return r.ev.set(at, text)
}

func (r *structuredReader) event() (event, error) {
	if r.seen["data_base64"] {
		if r.data != nil {
			return r.ev, refuse("data_base64", "no data beside it", string(r.data))
		}
		r.ev.data = r.base64
		return r.ev, nil
	}
	if r.data == nil {
		return r.ev, refuse("data", "the chunk", "")
	}
	contentType := r.ev.attributes[attrContentType]
	format, err := parseMedia(contentType)
	if err != nil {
		return r.ev, err
	}
	if format != FormatJSON {
		return r.ev, refuse("data", "data_base64 for msgpack", string(r.data))
	}
	r.ev.data = r.data
	return r.ev, nil
}

// unquote reads a JSON string that the scanner has passed. It reports false
// for any other value, and for one with a lone surrogate, which neither names
// nor attributes can have.
func unquote(quoted []byte) (string, bool) {
	if quoted[0] != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, quoted)
	return string(b), err == nil
}
