package codec

import (
	"encoding/base64"
	"strings"
)

// readStructured reads an event in JSON form. The SDK's own reader is not used
// here: it keeps the last of two members of one name, takes data and
// data_base64 together, and passes data that is no JSON.
func readStructured(text []byte) (envelope, error) {
	var r structuredReader
	sc := scanner{data: text, depth: -1} // the data may be as deep as in binary mode
	ok := sc.document(func(name, value []byte) bool {
		r.err = r.member(unquote(name), value)
		return r.err == nil
	})
	if r.err != nil {
		return envelope{}, r.err
	}
	if !ok {
		return envelope{}, refuse("event", "one JSON object in UTF-8", sc.excerpt())
	}
	return r.envelope()
}

type structuredReader struct {
	env    envelope
	seen   map[string]bool
	data   []byte // as it stands
	base64 []byte // decoded
	err    error
}

func (r *structuredReader) member(name string, value []byte) error {
	if r.seen[name] {
		return refuse(name, "one member of that name", string(value))
	}
	if r.seen == nil {
		r.seen = make(map[string]bool)
	}
	r.seen[name] = true
	switch name {
	case "data":
		r.data = value
		return nil
	case "data_base64":
		return r.readBase64(value)
	}
	if !isAttributeName(name) || strings.HasPrefix(name, prefix) {
		return refuse(name, "an attribute name of a-z and 0-9", string(value))
	}
	return r.attribute(name, value)
}

func (r *structuredReader) readBase64(value []byte) error {
	if value[0] != '"' {
		return refuse("data_base64", "a string", string(value))
	}
	b, err := base64.StdEncoding.Strict().DecodeString(unquote(value))
	if err != nil {
		return refuse("data_base64", "base64", err.Error())
	}
	r.base64 = b
	return nil
}

// attribute takes a string; an extension may also be a boolean or a number.
// null would be an attribute that is not there, written down: refused, because
// readers differ in what they make of it.
func (r *structuredReader) attribute(name string, value []byte) error {
	at := attributeNamed(name)
	if value[0] != '"' {
		if at == attrOther && strings.IndexByte("tf-0123456789", value[0]) >= 0 {
			return nil
		}
		return refuse(name, "a string", string(value))
	}
	return r.env.set(at, name, unquote(value))
}

func (r *structuredReader) envelope() (envelope, error) {
	switch {
	case r.data != nil && r.seen["data_base64"]:
		return r.env, refuse("data_base64", "no data beside it", "data")
	case r.seen["data_base64"]:
		r.env.data = r.base64
		return r.env, nil
	case r.data == nil:
		return r.env, refuse("data", "the chunk", "")
	}
	format, err := parseMedia(r.env.attributes[attrContentType])
	if err != nil {
		return r.env, err
	}
	if format != FormatJSON {
		return r.env, refuse("data", "data_base64 for "+r.env.attributes[attrContentType], string(r.data))
	}
	r.env.data = r.data
	return r.env, nil
}
