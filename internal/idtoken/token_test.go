package idtoken

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyName generates names as untrusted input may have them.
func anyName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 30), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.String(), func(s string) string { return Mark + s }),
		rapid.StringMatching(`_x-(_[0-9A-Fa-f]{2}|[a-z_-]){0,20}`),
	)
}

// The token of a name has only the bytes of a token, and one name has exactly one token.
func TestNamesAreEscapedReversibly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkEscape(t, anyName().Draw(t, "name")) })
}

func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "*", ">", "a.b", "_x-", "_x-_2E", "_x-a_5Fb", "\r\nPUB x 1", "\x00", "Zürich", strings.Repeat("x", 65)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) { checkEscape(t, s) })
}

// checkEscape uses a text as a name and as a token.
func checkEscape(t interface{ Fatalf(string, ...any) }, s string) {
	if tok := Of(s); s != "" {
		if strings.ContainsFunc(tok, func(r rune) bool { return r > 0x7F || !isTokenByte(byte(r)) }) {
			t.Fatalf("Of(%q) = %q", s, tok)
		}
		if back, problem := Parse(tok); back != s || problem != "" {
			t.Fatalf("Parse(%q) = %q, %s; want %q", tok, back, problem, s)
		}
	}
	if name, problem := Parse(s); problem == "" {
		if tok := Of(name); tok != s {
			t.Fatalf("Parse(%q) = %q, whose token is %q", s, name, tok)
		}
	}
}

func TestOf(t *testing.T) {
	for name, want := range map[string]string{
		"invoice-17":             "invoice-17",
		"_":                      "_",
		"anna@example.eu":        "_x-anna_40example_2Eeu",
		"_x-1":                   "_x-_5Fx-1",
		"*":                      "_x-_2A",
		">":                      "_x-_3E",
		"a.b":                    "_x-a_2Eb",
		"a_b.c":                  "_x-a_5Fb_2Ec",
		"a b\r\nPUB x":           "_x-a_20b_0D_0APUB_20x",
		"\x00\xff":               "_x-_00_FF",
		"Zürich":                 "_x-Z_C3_BCrich",
		strings.Repeat("x", 64):  strings.Repeat("x", 64),
		strings.Repeat("..", 32): "_x-" + strings.Repeat("_2E", 64),
	} {
		if got := Of(name); got != want {
			t.Errorf("Of(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestNameOfRefuses(t *testing.T) {
	for name, tok := range map[string]string{
		"nothing":                       "",
		"no token":                      "a.b",
		"the mark alone":                "_x-",
		"half an escape":                "_x-a_2",
		"an underscore at the end":      "_x-a_",
		"a dot in an escaped token":     "_x-a.b_2E",
		"small hex digits":              "_x-a_2eb",
		"no hex digits":                 "_x-a_ZZ",
		"an escape that was not needed": "_x-_2E_61",
		"a name that needs no escape":   "_x-abc",
		"a name with a bare underscore": "_x-a_5Fb",
	} {
		if got, problem := Parse(tok); problem == "" {
			t.Errorf("%s: Parse(%q) = %q, want a problem", name, tok, got)
		}
	}
}
