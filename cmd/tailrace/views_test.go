package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The file of views is read at the start, and an invalid file ends the process:
// an edge without its configured views would show too much.
func TestViewsFile(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "views.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		`{"views":{"customer":{"preset":"public"}},"standard":"customer"}`: "unknown object member",
		`{"views":{"customer":{"preset":"pubic"}},"default":"customer"}`:   `want one of ["all" "analytics" "none" "public"]`,
		`{"default":"customer"}`: `unknown view "customer"`,
		``:                       "views.json",
	} {
		var errs strings.Builder
		args := []string{"edge", "--listen", "127.0.0.1:0", "--ops-listen", "", "--nats-url", "nats://127.0.0.1:1", "--views", file(text)}
		if code := run(t.Context(), terminal{out: io.Discard, err: &errs}, args); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d: %s, want %q", text, code, errs.String(), want)
		}
	}
	edge := startEdge(t, "--views", file(`{"views":{"customer":{"preset":"public"},"staff":{"types":["*"]}},"default":"customer"}`))
	for path, want := range map[string]int{
		"/v1/sessions/s1/messages":               http.StatusServiceUnavailable, // NATS is unavailable
		"/v1/sessions/s1/messages?view=customer": http.StatusServiceUnavailable,
		"/v1/sessions/s1/events?view=staff":      http.StatusBadRequest, // of messages too, unless NATS has been unreachable for seconds
	} {
		if status, body := get(t, edge.url+path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
	}
}
