package codec

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// readStructured reads an event in JSON form. It does not use the SDK's reader, which keeps the last of two members with one name, accepts data together
// with data_base64, and returns data that is not JSON.
func readStructured(text []byte) (event, error) {
	r := structuredReader{seen: make(map[string]bool)}
	// One level more than a body: the event around it.
	info, ok := rawjson.ScanObject(text, rawjson.Limits{Levels: chunk.MaxDepth + 1}, func(name, value rawjson.Span) bool {
		r.err = r.member(name.Of(text), value.Of(text))
		return r.err == nil
	})
	switch {
	case r.err != nil:
		return event{}, r.err
	case !ok:
		return event{}, newEnvelopeError("event", "one JSON object in UTF-8", head(text[info.End:]))
	}
	return r.event()
}

type structuredReader struct {
	ev     event
	seen   map[string]bool
	data   []byte // the member, as stored
	base64 []byte // the member, decoded
	err    error
}

func (r *structuredReader) member(quoted, value []byte) error {
	name, ok := unquote(quoted)
	if !ok {
		return newEnvelopeError("event", "names without lone surrogates", string(quoted))
	}
	if r.seen[name] {
		return newEnvelopeError(name, "one member of that name", string(value))
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
		return newEnvelopeError("data_base64", "a string", string(value))
	}
	// The decoder skips line breaks, which base64 in JSON must not have.
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return newEnvelopeError("data_base64", "base64", text)
	}
	r.base64 = b
	return nil
}

// attribute reads a string; an extension may also be a boolean or a number. It rejects null, because readers treat it differently.
func (r *structuredReader) attribute(name string, value []byte) error {
	at := attributeNamed(name)
	if at == attrOther && strings.IndexByte("tf-0123456789", value[0]) >= 0 {
		return checkOther(name, "")
	}
	text, ok := unquote(value)
	if !ok {
		return newEnvelopeError(name, "a string", string(value))
	}
	if at == attrOther {
		return checkOther(name, text)
	}
	return r.ev.set(at, text)
}

func (r *structuredReader) event() (event, error) {
	if r.seen["data_base64"] {
		if r.data != nil {
			return r.ev, newEnvelopeError("data_base64", "no data beside it", string(r.data))
		}
		r.ev.data = r.base64
		return r.ev, nil
	}
	if r.data == nil {
		return r.ev, newEnvelopeError("data", "the chunk", "")
	}
	contentType := r.ev.attributes[attrContentType]
	format, err := parseMedia(contentType)
	if err != nil {
		return r.ev, err
	}
	if format != FormatJSON {
		return r.ev, newEnvelopeError("data", "data_base64 for msgpack", string(r.data))
	}
	r.ev.data = r.data
	return r.ev, nil
}

// unquote reads a JSON string that was scanned. It reports false for any other value and for a string with a lone surrogate, which neither names nor
// attributes can have.
func unquote(quoted []byte) (string, bool) {
	b, err := rawjson.Text(quoted).AppendTo(nil)
	return string(b), err == nil && utf8.Valid(b)
}
