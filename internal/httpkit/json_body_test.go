package httpkit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/posttest"
)

// TestJSONBody checks which bodies reach the parser of a surface.
func TestJSONBody(t *testing.T) {
	const plain = "application/json"
	for _, tt := range []struct {
		name, media, coding, body string
		status                    int
	}{
		{"plain", plain, "", `{"a":1}`, 200},
		{"UTF-8", plain + "; charset=UTF-8", "", `{"a":"é"}`, 200},
		{"identity", plain, "identity", `{"a":1}`, 200},
		{"no JSON is left to the parser", plain, "", `{"a":1,"a"`, 200},
		{"equal names in two objects", plain, "", `[{"a":1},{"a":2}]`, 200},
		{"half of a surrogate pair", plain, "", `{"a":"\ud800"}`, 200},
		{"no media type", "", "", `{}`, 415},
		{"another media type", "text/plain", "", `{}`, 415},
		{"another charset", plain + "; charset=utf-7", "", `{}`, 415},
		{"an empty charset", plain + `; charset=""`, "", `{}`, 415},
		{"gzip", plain, "gzip", `{}`, 415},
		{"unknown coding", plain, "x-unknown", `{}`, 415},
		{"two codings", plain, "identity, br", `{}`, 415},
		{"no UTF-8", plain, "", "{\"a\":\"\xff\"}", 400},
		{"a member twice", plain, "", `{"approved":false,"approved":true}`, 400},
		{"a member twice, escaped", plain, "", `{"a":1,"\u0061":2}`, 400},
		{"a member twice, deeper", plain, "", `{"a":[{"b":{"c":1,"c":1}}]}`, 400},
		{"too deep", plain, "", strings.Repeat("[", 65) + strings.Repeat("]", 65), 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.media)
			if tt.coding != "" {
				r.Header.Set("Content-Encoding", tt.coding)
			}
			status, parsed := http.StatusOK, ""
			p := httpkit.NewBodyLimiter(1<<20).JSON(httptest.NewRecorder(), r, httpkit.JSONLimits{Bytes: 1 << 20, Depth: 64}, func(text []byte) *httpkit.Problem {
				parsed = string(text)
				return nil
			})
			if p != nil {
				status = p.Status
			}
			if status != tt.status || (parsed == tt.body) != (status == http.StatusOK) {
				t.Errorf("status %d, parsed %q; want %d", status, parsed, tt.status)
			}
		})
	}
}

// BenchmarkJSONBody reads a chat of a megabyte, whose duplicate names are looked for.
func BenchmarkJSONBody(b *testing.B) {
	var messages []string
	for i := range 4000 {
		messages = append(messages, posttest.User(fmt.Sprint("m", i), strings.Repeat("a word ", 26)))
	}
	body := `{"id":"s1","messages":[` + strings.Join(messages, ",") + `]}`
	bodies := httpkit.NewBodyLimiter(64 << 20)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if p := bodies.JSON(httptest.NewRecorder(), r, httpkit.JSONLimits{Bytes: 8 << 20}, func([]byte) *httpkit.Problem { return nil }); p != nil {
			b.Fatal(p.Title)
		}
	}
}

// An unknown member is named, also one of an object in a list.
func TestIntoExactly(t *testing.T) {
	for body, want := range map[string]string{
		`{"name":"a","parts":[{"id":"b"}]}`:  "",
		`{"nme":"a"}`:                        `there is no member "nme"; did you mean name?`,
		`{"parts":[{"id":"b"},{"iid":"b"}]}`: `there is no member "iid"; did you mean id?`,
		`{"sub":{"ids":1}}`:                  `there is no member "ids"; did you mean id?`,
		`{"name":1}`:                         "wrong",
		`{`:                                  "wrong",
	} {
		type part struct {
			ID string `json:"id,omitempty"`
		}
		var v struct {
			Name  string `json:"name"`
			Parts []part `json:"parts"`
			Sub   *part  `json:"sub"`
		}
		title := ""
		if p := httpkit.IntoExactly(&v, "wrong")([]byte(body)); p != nil {
			title = p.Title
		}
		if title != want {
			t.Errorf("%s: %q, want %q", body, title, want)
		}
	}
}
