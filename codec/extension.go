package codec

import (
	"strconv"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// attributeTraceParent is the extension attribute of CloudEvents for distributed tracing.
const (
	attributeTraceParent = "traceparent"
	headerTraceParent    = headerPrefix + attributeTraceParent
)

// attributeBytes is the extension attribute of chunk.Record.SessionBytes.
const (
	attributeBytes = "sessionbytes"
	headerBytes    = headerPrefix + attributeBytes
)

// SetSessionBytes adds the bytes of all bodies of the session, up to and with this one, to the header of a message. The next writer continues the sum.
func (m Encoded) SetSessionBytes(n int64) { m.Header[headerBytes] = []string{strconv.FormatInt(n, 10)} }

// setBytes reads the attribute and reports whether it is valid.
func (ev *event) setBytes(value string) bool {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || n > chunk.MaxInteger {
		return false
	}
	ev.bytes, ev.binary = n, true
	return true
}

// maxTraceParent bounds a traceparent. That of the present version of W3C Trace Context has 55 bytes; later ones may be longer.
const maxTraceParent = 128

// SetTraceParent adds the traceparent of the span that caused a record, as W3C Trace Context writes it, to the header of its message. No one that hands the record
// on replaces it. One that cannot be an attribute is left out, because a trace must not prevent a write.
func (m Encoded) SetTraceParent(parent string) {
	if isTraceParent(parent) {
		m.Header[headerTraceParent] = []string{parent}
	}
}

// TraceParentOf returns the traceparent of a message, in binary and in structured mode, "" if it has none. Its form is not verified.
func TraceParentOf(header map[string][]string, data []byte) string {
	parent := extension(attributeTraceParent, header, data)
	if !isTraceParent(parent) {
		return ""
	}
	return parent
}

func isTraceParent(s string) bool { return s != "" && len(s) <= maxTraceParent && isVisible(s) }

// extension returns an extension attribute of a message, "" if it has none. It is for a valid message: of several values none is one.
func extension(name string, header map[string][]string, data []byte) string {
	if v := header[headerPrefix+name]; len(v) == 1 { // the usual spelling
		return headerText(v[0])
	}
	contentType := ""
	for key, values := range header {
		switch {
		case len(values) != 1:
		case attributeName(key) == name:
			return headerText(values[0])
		case headerAttribute(key) == attrTransport:
			contentType = values[0]
		}
	}
	if structured, err := isStructured(contentType); err != nil || !structured {
		return ""
	}
	return structuredExtension(name, data)
}

// structuredExtension reads the attribute of an event in JSON form.
func structuredExtension(attribute string, text []byte) (value string) {
	rawjson.ScanObject(text, rawjson.Limits{Levels: chunk.MaxDepth + 1}, func(name, v rawjson.Span) bool {
		if !rawjson.Text(name.Of(text)).Is(attribute) {
			return true
		}
		value, _ = unquote(v.Of(text)) // "" for another value than a string
		return false
	})
	return value
}
