package fold

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/rawjson"
)

// The patch library replaces all lone surrogates by one character. While it works, each of them is replaced by a private-use character that no text has.
const (
	shieldFirst = 0x10F000 // replaces U+D800
	shieldLast  = 0x10F7FF // replaces U+DFFF
)

// shieldSurrogates replaces lone surrogates by private-use characters. It rejects the patch if the patch or the state uses these characters too.
func shieldSurrogates(state chunk.Value, ops []chunk.PatchOp) (bool, chunk.Value, []chunk.PatchOp, error) {
	var sh escapeSurrogates
	state = sh.json(state)
	shielded := make([]chunk.PatchOp, len(ops))
	for i, op := range ops {
		op.Path = sh.text(op.Path)
		if op.From != nil {
			from := sh.text(*op.From)
			op.From = &from
		}
		if op.Value != nil {
			v := chunk.Value(sh.json(*op.Value))
			op.Value = &v
		}
		shielded[i] = op
	}
	if !sh.lone {
		return false, state, ops, nil
	}
	if sh.private {
		return false, nil, nil, errors.New("lone surrogates beside characters from U+10F000 on")
	}
	return true, state, shielded, nil
}

type escapeSurrogates struct{ lone, private bool }

// json replaces the lone surrogates in the strings of a JSON text, where they are escapes.
func (sh *escapeSurrogates) json(v []byte) []byte {
	sh.private = sh.private || hasPrivate(string(v)) || hasPrivateEscape(v)
	if !bytes.Contains(v, []byte(`\u`)) {
		return v
	}
	var out []byte
	start := 0
	for i := 0; i+1 < len(v); {
		if v[i] != '\\' {
			i++
			continue
		}
		if v[i+1] != 'u' {
			i += 2
			continue
		}
		piece, n, _ := rawjson.DecodeEscape(nil, v[i:])
		if n == 6 && len(piece) == 3 && piece[0] == 0xED && piece[1] >= 0xA0 {
			sh.lone = true
			out = append(out, v[start:i]...)
			out = utf8.AppendRune(out, shieldFirst+rune(piece[1]&0x1F)<<6+rune(piece[2]&0x3F))
			start = i + n
		}
		i += max(n, 2)
	}
	if start == 0 {
		return v
	}
	return append(out, v[start:]...)
}

// text replaces the lone surrogates of a WTF-8 string.
func (sh *escapeSurrogates) text(s string) string {
	sh.private = sh.private || hasPrivate(s)
	if utf8.ValidString(s) {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		if s[i] == 0xED && i+2 < len(s) && s[i+1] >= 0xA0 {
			sh.lone = true
			out = utf8.AppendRune(out, shieldFirst+rune(s[i+1]&0x1F)<<6+rune(s[i+2]&0x3F))
			i += 3
			continue
		}
		out = append(out, s[i])
		i++
	}
	return string(out)
}

func hasPrivate(s string) bool {
	for i := 0; ; {
		j := strings.IndexByte(s[i:], 0xF4)
		if j < 0 {
			return false
		}
		if r, _ := utf8.DecodeRuneInString(s[i+j:]); r >= shieldFirst && r <= shieldLast {
			return true
		}
		i += j + 1
	}
}

// unescapeSurrogates restores the escapes of lone surrogates.
func unescapeSurrogates(v []byte) []byte {
	var out []byte
	for i := 0; i < len(v); {
		if v[i] == 0xF4 {
			if r, n := utf8.DecodeRune(v[i:]); r >= shieldFirst && r <= shieldLast {
				out = rawjson.AppendUnit(out, 0xD800+r-shieldFirst)
				i += n
				continue
			}
		}
		out = append(out, v[i])
		i++
	}
	return out
}

// hasPrivateEscape reports whether v may contain one of the private-use characters as a pair of escapes.
func hasPrivateEscape(v []byte) bool {
	if !bytes.Contains(v, []byte(`\u`)) {
		return false
	}
	lower := bytes.ToLower(v)
	return bytes.Contains(lower, []byte(`\udbfc`)) || bytes.Contains(lower, []byte(`\udbfd`))
}
