package script

import (
	"unicode"
	"unicode/utf8"
)

// longestToken is the maximum number of letters of a piece, in runes.
const longestToken = 6

// tokens splits s as models do: at spaces, which belong to the next word, and inside of long words;
// characters of other scripts come alone or in pairs. The pieces join to s.
func (p *scriptBuilder) tokens(s string) []string {
	var pieces []string
	for len(s) > 0 {
		n := p.cut(s)
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

// cut returns the length in bytes of the next piece of s, which is not empty.
func (p *scriptBuilder) cut(s string) int {
	maxRunes := 2 + p.rng.IntN(longestToken-1)
	n, runes := 0, 0
	for runes < maxRunes {
		r, size := utf8.DecodeRuneInString(s[n:])
		if size == 0 {
			return n
		}
		if runes > 0 && startsPiece(r) {
			return n
		}
		n += size
		runes++
		if r > unicode.MaxLatin1 && runes >= 2 { // 日本, or a letter and an emoji
			return n
		}
	}
	return n
}

func startsPiece(r rune) bool {
	return r == ' ' || r == '\n' || r == '"' || r == '(' || r == '{'
}

// wtf8 returns a UTF-16 surrogate as three bytes of WTF-8 (package chunk).
func wtf8(half uint16) string {
	return string([]byte{0xe0 | byte(half>>12), 0x80 | byte(half>>6)&0x3f, 0x80 | byte(half)&0x3f})
}
