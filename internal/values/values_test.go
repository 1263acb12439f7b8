package values_test

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/values"
)

var root = chunk.RootSession("acme", "chat:1/a b")

// A key has one form. Another text names no value, also one that has tokens of other subjects.
func TestKeys(t *testing.T) {
	k := values.NewKey(3, chunk.TypeToolEnd, "result", []byte("data"))
	if got, ok := values.ParseKey(k.String()); !ok || got != k {
		t.Errorf("%s: %+v, %v", k, got, ok)
	}
	sum := k.SHA256
	for _, text := range []string{
		"", "3", "3-tool_end-result", "03-tool_end-result-" + sum, "-3-tool_end-result-" + sum, "3-*-result-" + sum, "3-tool_end->-" + sum, "3-tool.end-result-" + sum,
		"3--result-" + sum, "3-tool_end-result-" + sum[1:], "3-tool_end-result-" + strings.ToUpper(sum), "3-tool_end-result-" + sum + "-0",
	} {
		if got, ok := values.ParseKey(text); ok {
			t.Errorf("%q: %+v, want no key", text, got)
		}
	}
}

// A URL leads to a value of the tree of the session that has it, and nowhere else.
func TestURLs(t *testing.T) {
	k := values.NewKey(3, chunk.TypeFile, "url", []byte("data"))
	for _, s := range []chunk.Session{root, root.Child("kid?1")} {
		if of, got, ok := values.OfURL(root, values.URL(s, k)); !ok || of != s || got != k {
			t.Errorf("%s: %s %+v %v", values.URL(s, k), of, got, ok)
		}
	}
	other := chunk.RootSession("acme", "other")
	for _, u := range []string{
		values.URL(other, k), values.URL(other.Child("kid"), k), "https://example.com" + values.URL(root, k), values.URL(root, k) + "?view=all", values.URL(root, k) + "?root=",
		"/v1/sessions/../values/" + k.String(), "data:image/png;base64,AAAA", "",
	} {
		if of, _, ok := values.OfURL(root, u); ok {
			t.Errorf("%q leads to %s", u, of)
		}
	}
}

// References are replaced where a text has them as values. The same characters in a string, or with another URL, are left as they are.
func TestExpand(t *testing.T) {
	data := `{"rows":[1,2]}`
	k := values.NewKey(1, chunk.TypeCustom, "data", []byte(data))
	ref := string(values.Reference(root, k, len(data)))
	load := func(of chunk.Session, got values.Key, size int) []byte {
		if of != root || got != k || size != len(data) {
			t.Errorf("%s %+v %d", of, got, size)
		}
		return []byte(data)
	}
	for text, want := range map[string]string{
		ref: data, `{"a":` + ref + `,"b":[` + ref + `]}`: `{"a":` + data + `,"b":[` + data + `]}`, `{"a":1}`: `{"a":1}`,
		`{"text":` + quoted(ref) + `}`: `{"text":` + quoted(ref) + `}`, `{"tailraceValue":"` + k.String() + `"}`: `{"tailraceValue":"` + k.String() + `"}`,
		strings.Replace(ref, "/v1/", "https://example.com/v1/", 1): strings.Replace(ref, "/v1/", "https://example.com/v1/", 1), ref[:len(ref)-1]: ref[:len(ref)-1],
	} {
		if got := string(values.Expand([]byte(text), root, load)); got != want {
			t.Errorf("%s\nbecame %s\nwant %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"content":` + quoted(ref) + `,"v":` + ref + `}`: `{"content":` + quoted(data) + `,"v":` + data + `}`, `{"content":` + quoted(ref+" and more") + `}`: `{"content":` + quoted(ref+" and more") + `}`,
		`{"content":` + quoted("See "+ref) + `}`: `{"content":` + quoted("See "+ref) + `}`, quoted(ref)[:len(ref)]: quoted(ref)[:len(ref)],
	} {
		if got := string(values.ExpandTexts([]byte(text), root, load)); got != want {
			t.Errorf("%s\nwith texts became %s\nwant %s", text, got, want)
		}
	}
	none := func(chunk.Session, values.Key, int) []byte { return nil }
	if got := string(values.Expand([]byte(ref), root, none)); got != ref {
		t.Errorf("a value that cannot be read: %s", got)
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func TestDataURLs(t *testing.T) {
	u := values.MakeDataURL("image/png", []byte{0, 1, 255})
	if mediaType, data, ok := values.DataURL(u); !ok || mediaType != "image/png" || string(data) != "\x00\x01\xff" {
		t.Errorf("%s: %s %v %v", u, mediaType, data, ok)
	}
	if mediaType, _, ok := values.DataURL("data:no media type\n;base64,AAAA"); !ok || mediaType != "text/plain" {
		t.Errorf("invalid media type: %q %v", mediaType, ok)
	}
	for _, u := range []string{"https://example.com/a.png", "data:text/plain,hello", "data:image/png;base64,?", "data:"} {
		if _, _, ok := values.DataURL(u); ok {
			t.Errorf("%s is taken for a data URL with base64", u)
		}
	}
}
