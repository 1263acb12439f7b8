package codec

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/idtoken"
)

// Header names as Encode writes them. Decode ignores case, because the binding requires it; NATS itself keeps case and compares exactly.
const (
	headerPrefix      = "ce-"
	headerSpecVersion = "ce-specversion"
	headerID          = "ce-id"
	headerSource      = "ce-source"
	headerType        = "ce-type"
	headerTime        = "ce-time"
	headerDataType    = "ce-datacontenttype"
	headerContentType = "content-type" // read only: it marks structured mode, and some writers put the type of the data there
)

// serverHeaders are the headers that the writer adds for the server.
var serverHeaders = [...]string{"Nats-Expected-Last-Subject-Sequence", "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Batch-Commit"}

// ourHeaders has the headers that Encode writes, by attribute.
var ourHeaders = [...]string{
	attrSpecVersion: headerSpecVersion,
	attrID:          headerID,
	attrSource:      headerSource,
	attrType:        headerType,
	attrTime:        headerTime,
	attrContentType: headerDataType,
}

// maxAttribute limits an attribute. A server rejects messages with more than 64 KiB of headers.
const maxAttribute = 1024

// headerAttribute is the attribute of a header.
func headerAttribute(name string) attribute {
	switch name { // the usual spelling
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
	case headerDataType:
		return attrContentType
	case headerContentType:
		return attrTransport
	}
	if attr := attributeName(name); attr != name {
		return attributeNamed(attr)
	}
	if len(name) == len(headerContentType) && strings.EqualFold(name, headerContentType) {
		return attrTransport
	}
	return attrUnknown
}

// attributeName returns the attribute of a header, in lower case, or the header's own name if it has none.
func attributeName(header string) string {
	if len(header) < len(headerPrefix) || !strings.EqualFold(header[:len(headerPrefix)], headerPrefix) {
		return header
	}
	return strings.ToLower(header[len(headerPrefix):])
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

func appendEventID(dst []byte, e chunk.Epoch, o chunk.Ordinal) []byte {
	dst = strconv.AppendUint(dst, uint64(e), 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, uint64(o), 10)
}

func appendSource(dst []byte, s chunk.Session) []byte {
	dst = append(dst, '/')
	dst = append(dst, s.Tenant...)
	dst = append(dst, '/')
	dst = append(dst, idtoken.Of(s.Root)...)
	dst = append(dst, '/')
	return append(dst, idtoken.Of(s.ID)...)
}

// isText reports whether s is UTF-8 without the characters that CloudEvents excludes from attributes: control characters and noncharacters.
func isText(s string) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7F {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r < 0xA0 || isNoncharacter(r) {
			return false
		}
		i += n
	}
	return true
}

func isNoncharacter(r rune) bool { return r&0xFFFE == 0xFFFE || 0xFDD0 <= r && r <= 0xFDEF }

// headerValue returns s unchanged if it is visible ASCII, as every chunk type is. (The binding requires an encoded percent sign and quote even then; the Go SDK
// does not decode them, and Decode accepts both.) Other text is percent-encoded according to section 3.1.3.2 of the binding, so that no caller can inject a
// second header.
func headerValue(s string) string {
	if isVisible(s) {
		return s
	}
	return percentEncode(s)
}

func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7F {
			return false
		}
	}
	return true
}

func needsEscape(c byte) bool { return c <= ' ' || c >= 0x7F || c == '"' || c == '%' }

func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, 3*len(s))
	for i := range len(s) {
		if c := s[i]; needsEscape(c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// headerText is the inverse of headerValue, and removes the double quotes of older writers. A percent sign that is not followed by two hex digits is kept: some
// writers do not encode, among them the Go SDK.
func headerText(value string) string {
	if strings.HasPrefix(value, `"`) {
		value = unquoteHeader(value)
	}
	if !strings.Contains(value, "%") {
		return value
	}
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if n, ok := hexPair(value[i:]); ok {
			b = append(b, n)
			i += 2
		} else {
			b = append(b, value[i])
		}
	}
	return string(b)
}

func hexPair(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(n), err == nil
}

// unquoteHeader reads a quoted-string of RFC 7230 and returns other text unchanged.
func unquoteHeader(s string) string {
	b := make([]byte, 0, len(s))
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			if i != len(s)-1 {
				return s
			}
			return string(b)
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b = append(b, s[i])
	}
	return s
}
