package subjects

import "strings"

// escapeMark starts every escaped token. A plain string that starts with it is escaped too, so that two strings never have the same token.
const escapeMark = "_x-"

const hexDigits = "0123456789ABCDEF"

// Escape turns a name that others chose (an e-mail address, a path, a name in another script) into a token that passes CheckToken.
//
// A string that passes CheckToken already and does not begin with "_x-" stays itself. Any other becomes "_x-" and its bytes, of which A-Z a-z 0-9 and - stay
// themselves and the rest become _HH, two upper-case hex digits:
//
//	anna@example.eu becomes _x-anna_40example_2Eeu
//	_x-1            becomes _x-_5Fx-1
//	invoice-17      stays
//
// Different strings have different tokens, and Unescape is the exact inverse. Escaping twice is therefore not the same as escaping once: do it where the name
// comes in. The empty string and strings whose token would be longer than 64 bytes are refused with a *TokenError.
func Escape(s string) (string, error) {
	if s == "" {
		return "", newTokenError("name", s, "is empty")
	}
	if staysItself(s) {
		return s, nil
	}
	var b strings.Builder
	b.WriteString(escapeMark)
	for i := range len(s) {
		if c := s[i]; needsNoEscape(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'_', hexDigits[c>>4], hexDigits[c&15]})
		}
		if b.Len() > MaxToken { // here and not after the loop: s may have megabytes
			return "", newTokenError("name", s, "is longer than 64 bytes once it is escaped")
		}
	}
	return b.String(), nil
}

// Unescape is the inverse of Escape. For a token that Escape does not produce (other cases of hex digits, an unnecessary escape) it returns a *TokenError, so
// that one name never has two tokens.
func Unescape(tok string) (string, error) {
	if err := CheckToken("token", tok); err != nil {
		return "", err
	}
	rest, escaped := strings.CutPrefix(tok, escapeMark)
	if !escaped {
		return tok, nil
	}
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		if rest[i] != '_' {
			b.WriteByte(rest[i])
			continue
		}
		if i+2 >= len(rest) {
			return "", newTokenError("token", tok, "ends inside an escape, want _HH")
		}
		hi, lo := strings.IndexByte(hexDigits, rest[i+1]), strings.IndexByte(hexDigits, rest[i+2])
		if hi < 0 || lo < 0 {
			return "", newTokenError("token", tok, "has an escape that is not _HH with upper-case hex digits")
		}
		c := byte(hi<<4 | lo)
		if needsNoEscape(c) {
			return "", newTokenError("token", tok, "escapes a character that needs no escape")
		}
		b.WriteByte(c)
		i += 2
	}
	if s := b.String(); s != "" && !staysItself(s) {
		return s, nil
	}
	return "", newTokenError("token", tok, "is the escaped form of a name that needs none")
}

// staysItself reports whether the token of s is s.
func staysItself(s string) bool {
	return tokenProblem(s) == "" && !strings.HasPrefix(s, escapeMark)
}

// needsNoEscape: the underscore is a token byte but introduces escapes.
func needsNoEscape(c byte) bool { return isTokenByte(c) && c != '_' }
