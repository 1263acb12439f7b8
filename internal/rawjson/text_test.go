package rawjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tailrace/tailrace/internal/rawjson"
)

// FuzzText writes and reads strings. Both spellings are the same string to the libraries, and WTF-8 is unchanged, except that adjacent surrogate halves are
// joined.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"", "a", "😀", "a\"\\\n\x00\x1f\x7f", "\b\f\r\t/", "é\u2028😀", "\xed\xa0\x80", "\xed\xb0\x80\xed\xa0\x80", "\xed\xa0\xbd\xed\xb8\x80", "\xed\xa0\xbd", "\xed\xb8\x80",
		"\xed\xa0", "\xed", "\xff", "\x00\"\\\n", "\xed\x9f\xbf", "\xee\x80\x80", `\ud83d\ude00`, `\ud83d`, `\u`, `\x`, `\`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkUnescaped(t, []byte(s))
		long := rawjson.AppendQuoted(nil, []byte(s))
		short, ok := rawjson.AppendQuotedChunk(nil, s)
		if want := strings.NewReplacer(`\\`, `\\`, `\b`, `\u0008`, `\f`, `\u000c`).Replace(string(short)); want != string(long) {
			t.Fatalf("%q is written as %s and %s", s, short, long)
		}
		if utf8.ValidString(s) {
			if want, err := jsontext.AppendQuote(nil, s); err != nil || !bytes.Equal(short, want) {
				t.Fatalf("%q is written as %s, want %s", s, short, want)
			}
		}
		if ok != isWTF8(s) {
			t.Fatalf("%q is WTF-8: %v", s, ok)
		}
		if !ok {
			return
		}
		for _, quoted := range [][]byte{short, long} {
			if info, ok := rawjson.Scan(quoted, rawjson.Limits{}); !ok || info.LoneSurrogate == jsontext.Value(quoted).IsValid() {
				t.Fatalf("%q is written as %s: %+v, %v", s, quoted, info, ok)
			}
			back, err := rawjson.Text(quoted).AppendTo([]byte("x"))
			if err != nil || string(back) != "x"+joined(s) || !bytes.Equal(rawjson.Text(quoted).Bytes(), back[1:]) || !rawjson.Text(quoted).Is(joined(s)) {
				t.Fatalf("%q comes back as %q, %v", s, back, err)
			}
		}
		if !strings.ContainsAny(s, "\\\"") && rawjson.Text(`"x`+s+`"`).Is(s) {
			t.Fatalf("x%q is %q", s, s)
		}
	})
}

// checkUnescaped compares the text of content with the result of the library.
func checkUnescaped(t *testing.T, content []byte) {
	t.Helper()
	got, ok := rawjson.AppendUnescaped(nil, content)
	if len(got) > len(content) {
		t.Fatalf("%q became longer: %q", content, got)
	}
	quoted := append(append([]byte{'"'}, content...), '"')
	if !json.Valid(quoted) || !utf8.Valid(quoted) {
		return
	}
	want, err := jsontext.AppendUnquote(nil, quoted)
	if !ok || err == nil && !bytes.Equal(got, want) || err != nil && utf8.Valid(got) {
		t.Fatalf("%s is read as %q, %v, want %q, %v", quoted, got, ok, want, err)
	}
}

// isWTF8 checks character by character.
func isWTF8(s string) bool {
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			if n = 3; rawjson.SurrogateAt(s) == 0 {
				return false
			}
		}
		s = s[n:]
	}
	return true
}

// joined replaces each high surrogate and the low one after it by their character.
func joined(s string) string {
	var out []byte
	for s != "" {
		high, n := rawjson.SurrogateAt(s), 3
		if high == 0 {
			_, n = utf8.DecodeRuneInString(s)
		} else if low := rawjson.SurrogateAt(s[3:]); high < 0xDC00 && low >= 0xDC00 {
			out = utf8.AppendRune(out, (high-0xD800)<<10+(low-0xDC00)+0x10000)
			s = s[6:]
			continue
		}
		out = append(out, s[:n]...)
		s = s[n:]
	}
	return string(out)
}

func TestTextOfNoString(t *testing.T) {
	for _, value := range []string{"", `"`, "1", `"a`, `a"`, `"\x"`, `"\u12"`, `"\"`, "null"} {
		if got, err := rawjson.Text(value).AppendTo(nil); err == nil {
			t.Errorf("%s is read as %q", value, got)
		}
	}
}
