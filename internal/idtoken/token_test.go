package subjects

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
)

// anyName generates names as untrusted input may have them.
func anyName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		anyToken(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 30), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.String(), func(s string) string { return escapeMark + s }),
		rapid.StringMatching(`_x-(_[0-9A-Fa-f]{2}|[a-z_-]){0,20}`),
	)
}

// Escape returns a valid token, and Unescape returns the name.
func TestUnescapeIsTheInverseOfEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := anyName().Draw(t, "name")
		tok, err := Escape(name)
		if err != nil {
			if _, ok := errors.AsType[*TokenError](err); !ok || !errors.Is(err, chunk.ErrInvalid) {
				t.Fatalf("Escape(%q) = %v, want a *TokenError", name, err)
			}
			if len(name) > 0 && len(name) <= (MaxToken-len(escapeMark))/3 {
				t.Fatalf("Escape(%q) refuses a short name: %v", name, err)
			}
			return
		}
		if err := CheckToken("token", tok); err != nil {
			t.Fatalf("Escape(%q) = %q, which is not a token: %v", name, tok, err)
		}
		if got, err := Unescape(tok); err != nil || got != name {
			t.Fatalf("Unescape(%q) = %q, %v; want %q", tok, got, err, name)
		}
	})
}

// Unescape accepts only the output of Escape: a name has exactly one token.
func TestOneNameOneToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tok := anyName().Draw(t, "token")
		name, err := Unescape(tok)
		if err != nil {
			if _, ok := errors.AsType[*TokenError](err); !ok {
				t.Fatalf("Unescape(%q) = %v, want a *TokenError", tok, err)
			}
			return
		}
		if again, err := Escape(name); err != nil || again != tok {
			t.Fatalf("Unescape(%q) = %q, whose token is %q, %v", tok, name, again, err)
		}
	})
}

func TestEscape(t *testing.T) {
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
		"Анна":                   "_x-_D0_90_D0_BD_D0_BD_D0_B0",
		strings.Repeat("x", 64):  strings.Repeat("x", 64),
		strings.Repeat("..", 10): "_x-" + strings.Repeat("_2E", 20),
	} {
		if got, err := Escape(name); err != nil || got != want {
			t.Errorf("Escape(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 65), strings.Repeat(".", 21), strings.Repeat("x", 1<<20)} {
		if tok, err := Escape(name); err == nil {
			t.Errorf("Escape of %d bytes = %q, want an error", len(name), tok)
		}
	}
}

func TestUnescapeRefuses(t *testing.T) {
	for name, tok := range map[string]string{
		"nothing":                       "",
		"no token":                      "a.b",
		"the mark alone":                "_x-",
		"half an escape":                "_x-a_2",
		"an underscore at the end":      "_x-a_",
		"small hex digits":              "_x-a_2eb",
		"no hex digits":                 "_x-a_ZZ",
		"an escape that was not needed": "_x-_2E_61",
		"a name that needs no escape":   "_x-abc",
		"a name with a bare underscore": "_x-a_5Fb",
	} {
		if got, err := Unescape(tok); err == nil {
			t.Errorf("%s: Unescape(%q) = %q, want an error", name, tok, got)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, seed := range []string{"", "*", ">", "a.b", "_x-", "_x-_2E", "_x-a_5Fb", "\r\nPUB x 1", "\x00", "Zürich", strings.Repeat("x", 65)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tok, err := Escape(s); err == nil {
			if err := CheckToken("token", tok); err != nil {
				t.Errorf("Escape(%q) = %q: %v", s, tok, err)
			}
			if back, err := Unescape(tok); err != nil || back != s {
				t.Errorf("Unescape(Escape(%q)) = %q, %v", s, back, err)
			}
		}
		if name, err := Unescape(s); err == nil {
			if tok, err := Escape(name); err != nil || tok != s {
				t.Errorf("Escape(Unescape(%q)) = %q, %v", s, tok, err)
			}
		}
	})
}
