// Package idtoken writes the id of a session as a token of a NATS subject, and reads it again. Subjects, keys and sources of CloudEvents have ids in this form.
package idtoken

import (
	"fmt"
	"strings"
)

// Max is the maximum length of a token that is not escaped, in bytes.
const Max = 64

// Mark starts every escaped token. A plain string that starts with it is escaped too, so that two strings never have the same token.
const Mark = "_x-"

const hexDigits = "0123456789ABCDEF"

// Of returns the token of the id of a session, as subjects and keys have it. An id that is a token and does not begin with "_x-" stays itself. Any
// other becomes "_x-" and its bytes, of which A-Z a-z 0-9 and - stay themselves and the rest become _HH, two upper-case hex digits:
//
//	anna@example.eu becomes _x-anna_40example_2Eeu
//	_x-1            becomes _x-_5Fx-1
//	invoice-17      stays, and costs no memory
//
// Different strings have different tokens, and Parse is the exact inverse. The token of an id has at most 195 bytes.
func Of(s string) string {
	if staysItself(s) {
		return s
	}
	b := append(make([]byte, 0, len(Mark)+3*len(s)), Mark...)
	for i := range len(s) {
		if c := s[i]; needsNoEscape(c) {
			b = append(b, c)
		} else {
			b = append(b, '_', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

// Parse is the inverse of Of. problem says why tok is not what Of returns (other cases of hex digits, an unnecessary escape), so that one id never has
// two tokens.
func Parse(tok string) (name, problem string) {
	rest, escaped := strings.CutPrefix(tok, Mark)
	if !escaped {
		return tok, Problem(tok)
	}
	b := make([]byte, 0, len(rest))
	for i := 0; i < len(rest); i++ {
		if needsNoEscape(rest[i]) {
			b = append(b, rest[i])
			continue
		}
		if rest[i] != '_' || i+2 >= len(rest) {
			return "", "has a byte that is not escaped, or ends inside an escape, want _HH"
		}
		hi, lo := strings.IndexByte(hexDigits, rest[i+1]), strings.IndexByte(hexDigits, rest[i+2])
		if hi < 0 || lo < 0 {
			return "", "has an escape that is not _HH with upper-case hex digits"
		}
		c := byte(hi<<4 | lo)
		if needsNoEscape(c) {
			return "", "escapes a character that needs no escape"
		}
		b = append(b, c)
		i += 2
	}
	if len(b) == 0 || staysItself(string(b)) {
		return "", "is the escaped form of a name that needs none"
	}
	return string(b), ""
}

// staysItself reports whether the token of s is s.
func staysItself(s string) bool {
	return !strings.HasPrefix(s, Mark) && Problem(s) == ""
}

// needsNoEscape: the underscore is a token byte but introduces escapes.
func needsNoEscape(c byte) bool { return isTokenByte(c) && c != '_' }

// Problem returns why a token is invalid, "" if it is valid.
func Problem(tok string) string {
	switch {
	case tok == "":
		return "is empty, want 1 to 64 of A-Z a-z 0-9 _ -"
	case len(tok) > Max:
		return fmt.Sprintf("has %d bytes, want at most %d", len(tok), Max)
	}
	for i := range len(tok) {
		if !isTokenByte(tok[i]) {
			return fmt.Sprintf("has %q at byte %d, want only A-Z a-z 0-9 _ -", tok[i], i)
		}
	}
	return ""
}

func isTokenByte(c byte) bool { return tokenBytes[c] }

// tokenBytes is a table because each message of the log is checked.
var tokenBytes = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") {
		is[c] = true
	}
	return is
}()
