package codec

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
)

// Header names as we write them. They are read in any case, because the
// binding says so; NATS itself keeps and compares them as they are.
const (
	prefix            = "ce-"
	headerSpecVersion = "ce-specversion"
	headerID          = "ce-id"
	headerSource      = "ce-source"
	headerType        = "ce-type"
	headerTime        = "ce-time"
	headerContentType = "content-type"
)

// maxAttribute bounds every attribute that is not bounded by its form. A
// server refuses messages with more than 64 KiB of headers.
const maxAttribute = 1024

// CheckType reports, as an *EnvelopeError, a type that cannot be a ce-type:
// empty, over 1,024 bytes as a header, not UTF-8, or with control characters
// or noncharacters.
func CheckType(t chunk.Type) error {
	const want = "1 to 1024 bytes of printable text"
	if t == "" || len(headerValue(string(t))) > maxAttribute || !isText(string(t)) {
		return refuse("type", want, string(t))
	}
	return nil
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

// isSource reports whether source is s.String(), without building it.
func isSource(source string, s chunk.Session) bool {
	rest, ok := cutSegment(source, s.Tenant)
	if !ok {
		return false
	}
	rest, ok = cutSegment(rest, s.Root)
	if !ok {
		return false
	}
	rest, ok = cutSegment(rest, s.ID)
	return ok && rest == ""
}

func cutSegment(path, segment string) (rest string, ok bool) {
	if path == "" || path[0] != '/' {
		return "", false
	}
	return strings.CutPrefix(path[1:], segment)
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

// headerValue is s with what a header cannot carry percent-encoded, as the
// binding asks (section 3.1.3.2). A name of the catalogue comes back as it is.
func headerValue(s string) string {
	for i := range len(s) {
		if escapes(s[i]) {
			return percentEncode(s, i)
		}
	}
	return s
}

func escapes(c byte) bool { return c <= ' ' || c >= 0x7F || c == '"' || c == '%' }

func percentEncode(s string, plain int) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, plain, len(s)+16)
	copy(b, s)
	for i := plain; i < len(s); i++ {
		if c := s[i]; escapes(c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// percentDecode undoes headerValue. What is no %xy stays: writers that do not
// encode at all exist, the Go SDK among them.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
