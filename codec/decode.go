package codec

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsonscan"
)

// Decode reads the message with sequence seq in the log of s. It takes binary
// and structured mode, JSON and msgpack.
//
// The Data of the record is valid JSON on one line: the stored bytes
// themselves (Data then aliases data), the transcoded msgpack, or a compacted
// copy when a producer put line breaks between the tokens. Whether it is a
// valid chunk is for chunk.Decode to say; here it is held only against what
// whoever passes it on without looking must rely on.
//
// The error is an *EnvelopeError; Decode never panics, whatever came.
func Decode(s chunk.Session, seq chunk.Seq, stored time.Time, header map[string][]string, data []byte) (chunk.Record, error) {
	ev, err := open(header, data)
	if err != nil {
		return chunk.Record{}, err
	}
	epoch, ordinal, err := ev.identity(s)
	if err != nil {
		return chunk.Record{}, err
	}
	body, err := ev.jsonBody()
	if err != nil {
		return chunk.Record{}, err
	}
	typ, line, err := ev.checkBody(body)
	if err != nil {
		return chunk.Record{}, err
	}
	return chunk.Record{
		Seq:     seq,
		Session: s,
		Epoch:   epoch,
		Ordinal: ordinal,
		Type:    typ,
		Stored:  stored,
		Data:    line,
	}, nil
}

// open tells the two modes apart and collects the attributes.
func open(header map[string][]string, data []byte) (event, error) {
	ev := event{data: data}
	if err := ev.readHeaders(header); err != nil {
		return ev, err
	}
	if ev.binary {
		return ev, nil
	}
	switch structured, err := isStructured(ev.attributes[attrTransport]); {
	case err != nil:
		return ev, err
	case structured:
		return readStructured(data)
	}
	return ev, refuse("specversion", "1.0", "")
}

// checkBody holds the body against the envelope and gives it back on one line.
// A reader writes these bytes into lines of other protocols without looking
// again, so they must be one JSON object, in UTF-8, without line breaks; and
// its type must be the header's, or whoever filters by header and whoever
// reads bodies would see different logs.
func (ev *event) checkBody(body []byte) (chunk.Type, []byte, error) {
	const want = "one JSON object in UTF-8"
	sc := jsonscan.Scanner{Data: body, Levels: chunk.MaxDepth}
	var quoted []byte
	types := 0
	ok := sc.Object(func(name, value jsonscan.Span) bool {
		if isTypeName(name.Of(body)) {
			quoted = value.Of(body)
			types++
		}
		return true
	})
	if !ok {
		return "", nil, refuse("data", want, head(body[sc.Pos:]))
	}
	if types != 1 {
		return "", nil, refuse("data", `one member "type"`, head(body))
	}
	typ, ok := ev.typeOf(quoted)
	if !ok {
		return "", nil, refuse("data", "the type of the envelope, "+strconv.Quote(clip(ev.attributes[attrType])), string(quoted))
	}
	if !sc.Broken {
		return typ, body, nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return "", nil, refuse("data", want, err.Error())
	}
	return typ, line.Bytes(), nil
}

// isTypeName reports whether a quoted member name is "type", however escaped.
func isTypeName(quoted []byte) bool {
	if len(quoted) == len(`"type"`) {
		return string(quoted) == `"type"`
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return false
	}
	name, ok := unquote(quoted)
	return ok && name == "type"
}

// typeOf reads the type of the body and reports whether the envelope says the
// same.
func (ev *event) typeOf(quoted []byte) (chunk.Type, bool) {
	if quoted[0] != '"' {
		return "", false
	}
	ceType := ev.attributes[attrType]
	if inner := quoted[1 : len(quoted)-1]; string(inner) == ceType && bytes.IndexByte(inner, '\\') < 0 {
		return chunk.Type(ceType), true
	}
	t, ok := unquote(quoted)
	return chunk.Type(t), ok && t != "" && isText(t) && ev.hasType(t)
}
