package codec

import (
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

// event is a CloudEvent of either mode. A missing attribute is the empty string.
type event struct {
	attributes [attrCount]string
	bytes      int64 // of the attribute sessionbytes, 0 for none
	binary     bool  // a ce- header was found
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
	attrTransport   // the content-type header of the message
	attrCount       // number of attributes that are stored

	attrOther   // subject, dataschema, extensions: checked and ignored
	attrUnknown // a header that does not belong to CloudEvents
)

func (at attribute) String() string {
	return [attrCount]string{"specversion", "id", "source", "type", "time", "datacontenttype", headerContentType}[at]
}

// readHeaders reads the headers of CloudEvents and ignores the others, which belong to NATS.
func (ev *event) readHeaders(header map[string][]string) error {
	if ev.readOwnHeaders(header) {
		return nil
	}
	*ev = event{data: ev.data}
	return ev.readAny(header)
}

// readAny reads headers in any spelling.
func (ev *event) readAny(header map[string][]string) error {
	for name, values := range header {
		at := headerAttribute(name)
		if at == attrUnknown {
			continue
		}
		if len(values) != 1 {
			return newEnvelopeError(attributeName(name), "one value", strings.Join(values, ", "))
		}
		if err := ev.setHeader(at, name, values[0]); err != nil {
			return err
		}
	}
	return nil
}

// readOwnHeaders reads headers in the spelling of Encode and reports whether there are no others and all are valid. A few lookups cost less than
// classifying every name of a map.
func (ev *event) readOwnHeaders(header map[string][]string) bool {
	found := 0
	for _, name := range serverHeaders {
		if _, ok := header[name]; ok {
			found++
		}
	}
	if values, ok := header[headerInput]; ok {
		if len(values) != 1 {
			return false
		}
		if _, ok := parseInputPosition(headerText(values[0])); !ok {
			return false
		}
		ev.binary = true
		found++
	}
	if values, ok := header[headerBytes]; ok {
		if len(values) != 1 || !ev.setBytes(values[0]) {
			return false
		}
		found++
	}
	for at, name := range ourHeaders {
		values, ok := header[name]
		if !ok {
			continue
		}
		if len(values) != 1 || ev.setHeader(attribute(at), name, values[0]) != nil {
			return false
		}
		found++
	}
	return found == len(header)
}

func (ev *event) setHeader(at attribute, name, value string) error {
	ev.binary = ev.binary || at != attrTransport
	switch at {
	case attrOther:
		attr := attributeName(name)
		if attr == attributeBytes {
			ev.setBytes(value)
		}
		return checkOther(attr, headerText(value))
	case attrType:
		return ev.set(at, value) // see hasType
	default:
		return ev.set(at, headerText(value))
	}
}

// set keeps one attribute. Two headers whose names differ only in case are the same attribute twice: readers that take the first and readers that take the last
// would see different events.
func (ev *event) set(at attribute, value string) error {
	if value == "" || len(value) > maxAttribute {
		return newEnvelopeError(at.String(), "1 to 1024 bytes", value)
	}
	if ev.attributes[at] != "" {
		return newEnvelopeError(at.String(), "one value", value)
	}
	ev.attributes[at] = value
	return nil
}

// checkOther checks an attribute that does not identify the record. A malformed traceparent, which readers ignore, a subject with wildcards, and a dataschema
// with an internal host name are accepted, because nothing is fetched or decided by them.
func checkOther(name, value string) error {
	if !isAttributeName(name) {
		return newEnvelopeError(name, "an attribute name of a-z and 0-9", value)
	}
	if len(value) > maxAttribute || !isText(value) {
		return newEnvelopeError(name, "at most 1024 bytes without control characters", value)
	}
	return nil
}

func isAttributeName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// identity checks the attributes that identify the record.
func (ev *event) identity(s chunk.Session) (chunk.Epoch, chunk.Ordinal, error) {
	a := &ev.attributes
	if a[attrSpecVersion] != "1.0" {
		return 0, 0, newEnvelopeError("specversion", "1.0", a[attrSpecVersion])
	}
	epoch, ordinal, ok := chunk.ParseEventID(a[attrID])
	if !ok {
		return 0, 0, newEnvelopeError("id", "<epoch>-<ordinal>", a[attrID])
	}
	if !isSource(a[attrSource], s) {
		return 0, 0, newEnvelopeError("source", s.String(), a[attrSource])
	}
	if a[attrType] == "" || !isText(a[attrType]) {
		return 0, 0, newEnvelopeError("type", "a chunk type", a[attrType])
	}
	if a[attrTime] != "" && !isTime(a[attrTime]) {
		return 0, 0, newEnvelopeError("time", "an RFC 3339 time", a[attrTime])
	}
	return epoch, ordinal, nil
}

// hasType reports whether t is the type in the envelope. In a header it may be percent-encoded, as the binding requires and Encode writes it, or not, as the Go
// SDK writes it.
func (ev *event) hasType(t string) bool {
	value := ev.attributes[attrType]
	return t == value || ev.binary && t == headerText(value)
}

// isTime is stricter than the library, which accepts one-digit hours, a comma before the fraction and offsets of more than a day.
func isTime(s string) bool {
	var t time.Time
	if t.UnmarshalText([]byte(s)) != nil || s[13] != ':' || strings.IndexByte(s, ',') >= 0 {
		return false
	}
	_, offset := t.Zone()
	return max(offset, -offset) < 24*60*60
}

// isSource reports whether source is s.String(), without building it.
func isSource(source string, s chunk.Session) bool {
	rest, ok := cutSegment(source, s.Tenant)
	if !ok {
		return false
	}
	root := idtoken.Of(s.Root)
	if rest, ok = cutSegment(rest, root); !ok {
		return false
	}
	id := root
	if !s.IsRoot() {
		id = idtoken.Of(s.ID)
	}
	rest, ok = cutSegment(rest, id)
	return ok && rest == ""
}

func cutSegment(path, segment string) (rest string, ok bool) {
	if path == "" || path[0] != '/' {
		return "", false
	}
	return strings.CutPrefix(path[1:], segment)
}

// jsonBody returns the body as JSON text; a body that was received as JSON is not checked yet.
func (ev *event) jsonBody() ([]byte, error) {
	ct, err := ev.contentType()
	if err != nil {
		return nil, err
	}
	format, err := parseMedia(ct)
	if err != nil {
		return nil, err
	}
	if format == FormatJSON {
		return ev.data, nil
	}
	return fromMsgpack(ev.data)
}

// contentType returns the media type of the data. The Go SDK reads it from content-type, as Encode writes it, and writes it to ce-datacontenttype, as the
// binding requires. Both are accepted if they are equal.
func (ev *event) contentType() (string, error) {
	transport, own := ev.attributes[attrTransport], ev.attributes[attrContentType]
	if own == "" {
		return transport, nil
	}
	if transport != "" && transport != own {
		return "", newEnvelopeError("datacontenttype", "the same as content-type, "+strconv.Quote(clip(transport)), own)
	}
	return own, nil
}
