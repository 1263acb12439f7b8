package codec

import (
	"bytes"
	"encoding/json"
	"mime"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Decode reads the message with sequence seq in the log of s. It takes binary
// and structured mode, JSON and msgpack.
//
// The Data of the record is valid JSON on one line: the stored bytes
// themselves (Data then aliases data), the transcoded msgpack, or a compacted
// copy when a producer wrote line breaks between the tokens. That it is a
// valid chunk is for chunk.Decode to say.
//
// The error is an *EnvelopeError; Decode never panics, whatever came.
func Decode(s chunk.Session, seq chunk.Seq, stored time.Time, header map[string][]string, data []byte) (chunk.Record, error) {
	env, err := open(header, data)
	if err != nil {
		return chunk.Record{}, err
	}
	epoch, ordinal, err := env.identity(s)
	if err != nil {
		return chunk.Record{}, err
	}
	body, err := env.jsonBody()
	if err != nil {
		return chunk.Record{}, err
	}
	typ, body, err := checkBody(body, env.attributes[attrType])
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
		Data:    body,
	}, nil
}

// open tells the two modes apart and collects the attributes.
func open(header map[string][]string, data []byte) (envelope, error) {
	env := envelope{data: data}
	if err := env.readHeaders(header); err != nil {
		return env, err
	}
	if env.isStructured() {
		return readStructured(data)
	}
	return env, nil
}

// envelope is an event whose attributes are apart from its data, in whichever
// mode they came. An attribute that is not there is the empty string.
type envelope struct {
	attributes [attrCount]string
	binary     bool // some ce- header was there
	data       []byte
}

type attribute int

const (
	attrSpecVersion attribute = iota
	attrID
	attrSource
	attrType
	attrTime
	attrContentType // datacontenttype
	attrTransport   // the content-type header
	attrOther       // checked and not kept
	attrCount
)

// readHeaders takes what CloudEvents put into the headers and passes over the
// rest, which belongs to NATS.
func (env *envelope) readHeaders(header map[string][]string) error {
	for name, values := range header {
		at := headerAttribute(name)
		if at == attrCount {
			continue
		}
		if len(values) != 1 {
			return refuse(name, "one value", strings.Join(values, ", "))
		}
		if err := env.set(at, name, values[0]); err != nil {
			return err
		}
		if at != attrTransport {
			env.binary = true
		}
	}
	return nil
}

// headerAttribute is the attribute that a header carries, attrCount for none.
func headerAttribute(name string) attribute {
	switch name { // as everybody writes them
	case headerSpecVersion:
		return attrSpecVersion
	case headerID:
		return attrID
	case headerSource:
		return attrSource
	case headerType:
		return attrType
	case headerTime:
		return attrTime
	case headerContentType:
		return attrTransport
	}
	return headerAttributeSlow(name)
}

func headerAttributeSlow(name string) attribute {
	if strings.EqualFold(name, headerContentType) {
		return attrTransport
	}
	if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return attrCount
	}
	return attributeNamed(strings.ToLower(name[len(prefix):]))
}

func attributeNamed(name string) attribute {
	switch name {
	case "specversion":
		return attrSpecVersion
	case "id":
		return attrID
	case "source":
		return attrSource
	case "type":
		return attrType
	case "time":
		return attrTime
	case "datacontenttype":
		return attrContentType
	}
	return attrOther
}

// set keeps one attribute. Two headers whose names differ only in case are the
// same attribute twice: readers that take the first and readers that take the
// last would see different events.
func (env *envelope) set(at attribute, name, value string) error {
	if len(value) > maxAttribute {
		return refuse(name, "at most 1024 bytes", value)
	}
	if !isText(value) {
		return refuse(name, "text without control characters", value)
	}
	if at == attrOther {
		if !isAttributeName(name) {
			return refuse(name, "an attribute name of a-z and 0-9", value)
		}
		return nil
	}
	if value == "" {
		return refuse(name, "a value", "")
	}
	if env.attributes[at] != "" {
		return refuse(name, "one value", value)
	}
	env.attributes[at] = value
	return nil
}

// isAttributeName reports whether a header or member name is one of an
// extension: lower-case letters and digits. In headers any case is taken.
func isAttributeName(name string) bool {
	if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
		name = strings.ToLower(name[len(prefix):])
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// isStructured: the content type says so, or, as the SDK's senders do it on
// NATS, there is no header at all.
func (env *envelope) isStructured() bool {
	return !env.binary && (env.attributes[attrTransport] == "" || isEventMedia(env.attributes[attrTransport]))
}

func isEventMedia(contentType string) bool {
	const media = "application/cloudevents"
	return len(contentType) >= len(media) && strings.EqualFold(contentType[:len(media)], media)
}

// identity checks the attributes that say which record this is.
func (env *envelope) identity(s chunk.Session) (chunk.Epoch, chunk.Ordinal, error) {
	a := &env.attributes
	if a[attrSpecVersion] != "1.0" {
		return 0, 0, refuse("specversion", "1.0", a[attrSpecVersion])
	}
	epoch, ordinal, ok := chunk.ParseEventID(percentDecode(a[attrID]))
	if !ok {
		return 0, 0, refuse("id", "<epoch>-<ordinal>", a[attrID])
	}
	if !isSource(percentDecode(a[attrSource]), s) {
		return 0, 0, refuse("source", s.String(), a[attrSource])
	}
	if a[attrType] == "" {
		return 0, 0, refuse("type", "a chunk type", "")
	}
	if a[attrTime] != "" {
		var t time.Time
		if t.UnmarshalText([]byte(a[attrTime])) != nil {
			return 0, 0, refuse("time", "an RFC 3339 time", a[attrTime])
		}
	}
	return epoch, ordinal, nil
}

const (
	mediaJSON    = "application/json"
	mediaMsgpack = "application/msgpack"
)

// jsonBody is the body as JSON text, not yet looked into when it came as JSON.
func (env *envelope) jsonBody() ([]byte, error) {
	ct, err := env.contentType()
	if err != nil {
		return nil, err
	}
	format, err := parseMedia(ct)
	if err != nil {
		return nil, err
	}
	if format == FormatJSON {
		return env.data, nil
	}
	return msgpackToJSON(env.data)
}

// contentType of the data: the binding says ce-datacontenttype, the SDK also
// reads content-type, which is shorter and what we write. Both are fine when
// they agree.
func (env *envelope) contentType() (string, error) {
	transport, own := env.attributes[attrTransport], env.attributes[attrContentType]
	if own == "" {
		own = transport
	}
	if transport != "" && transport != own {
		return "", refuse("datacontenttype", "the same as content-type "+transport, own)
	}
	return own, nil
}

// parseMedia maps a media type with its parameters to a format. None is JSON.
func parseMedia(contentType string) (Format, error) {
	switch contentType {
	case mediaJSON, "":
		return FormatJSON, nil
	case mediaMsgpack:
		return FormatMsgpack, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if charset := params["charset"]; err == nil && charset != "" && !strings.EqualFold(charset, "utf-8") {
		return 0, refuse("datacontenttype", "charset utf-8", contentType)
	}
	switch {
	case err != nil:
	case media == mediaJSON, media == "text/json":
		return FormatJSON, nil
	case media == mediaMsgpack, media == "application/vnd.msgpack", media == "application/x-msgpack":
		return FormatMsgpack, nil
	}
	return 0, refuse("datacontenttype", mediaJSON+" or "+mediaMsgpack, contentType)
}

// checkBody holds the body against the envelope. A reader writes these bytes
// into lines of others' protocols without looking again, so they must be one
// JSON object, in UTF-8, on one line; and what they are must be what the header
// says, or a filter by header and a reader of bodies would see different logs.
func checkBody(body []byte, ceType string) (chunk.Type, []byte, error) {
	sc := scanner{data: body}
	var typ []byte
	doubled := false
	ok := sc.document(func(name, value []byte) bool {
		if isTypeName(name) {
			doubled = doubled || typ != nil
			typ = value
		}
		return true
	})
	if !ok {
		return "", nil, refuse("data", "one JSON object in UTF-8", sc.excerpt())
	}
	if typ == nil || doubled {
		return "", nil, refuse("data", `one "type" member`, "")
	}
	t, ok := bodyType(typ, ceType)
	if !ok {
		return "", nil, refuse("data", "type "+ceType+" as in the header", string(typ))
	}
	if !sc.broken {
		return t, body, nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return "", nil, refuse("data", "one JSON object in UTF-8", err.Error())
	}
	return t, line.Bytes(), nil
}

// isTypeName reports whether a quoted member name is "type", however escaped.
func isTypeName(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted) == `"type"`
	}
	return unquote(quoted) == "type"
}

// bodyType is the body's type if the header says the same, percent-encoded or
// as it is.
func bodyType(quoted []byte, ceType string) (chunk.Type, bool) {
	if len(quoted) < 2 || quoted[0] != '"' {
		return "", false
	}
	if inner := quoted[1 : len(quoted)-1]; string(inner) == ceType {
		return chunk.Type(ceType), true
	}
	t := unquote(quoted)
	if t != ceType && t != percentDecode(ceType) {
		return "", false
	}
	return chunk.Type(t), t != "" && isText(t)
}

// unquote reads a valid JSON string. A lone surrogate becomes U+FFFD, which no
// type that CheckType lets pass contains by accident.
func unquote(quoted []byte) string {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return ""
	}
	return s
}
