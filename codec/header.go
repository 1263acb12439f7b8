package codec

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
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
	headerContentType = "content-type" // read only: it marks structured mode, and some write the data's type there
)

// headerExpected is what the writer adds for the server.
const headerExpected = "Nats-Expected-Last-Subject-Sequence"

// ourHeaders has the headers that Encode writes, by attribute.
var ourHeaders = [...]string{
	attrSpecVersion: headerSpecVersion,
	attrID:          headerID,
	attrSource:      headerSource,
	attrType:        headerType,
	attrTime:        headerTime,
	attrContentType: headerDataType,
}

// maxAttribute bounds an attribute. A server refuses messages with more than
// 64 KiB of headers.
const maxAttribute = 1024

// headerAttribute is the attribute that a header carries.
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

// attributeName is the name of the attribute that a header carries, in small
// letters; the header's own name when it carries none.
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
	dst = append(dst, s.Root...)
	dst = append(dst, '/')
	return append(dst, s.ID...)
}

// isText reports whether s is UTF-8 without what CloudEvents keeps out of
// attributes: control characters and noncharacters.
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

// headerValue is s as it is when it is visible ASCII, which every chunk type
// is. (The binding would encode a percent sign and a quote even then; the Go SDK
// does not decode, and Decode accepts both.) Anything else is
// percent-encoded as section 3.1.3.2 of the binding has it, so that no caller
// can write a second header through it.
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

// headerText undoes headerValue, and the double quotes of older writers. A
// percent sign before anything but two hex digits stays what it is: writers
// that do not encode exist, the Go SDK among them.
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
