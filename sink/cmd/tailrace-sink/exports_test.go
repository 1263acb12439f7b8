package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/sink/internal/exporttest"
)

// runToEnd runs the program to the end of the log, and returns its exit code and what it has logged.
func runToEnd(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var errs exporttest.Lines
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := program(ctx, append([]string{"--no-follow", "--ops-listen="}, args...), io.Discard, &errs)
	if ctx.Err() != nil {
		t.Errorf("the program has not ended: %s", errs.String())
	}
	return code, errs.String()
}

// restore restores the variables that flags set.
func restore(t *testing.T) {
	t.Helper()
	before := map[string]string{}
	for _, s := range settings() {
		if value, ok := os.LookupEnv(s.variable); ok {
			before[s.variable] = value
		}
	}
	t.Cleanup(func() {
		for _, s := range settings() {
			_ = os.Unsetenv(s.variable) // a name of this program is valid
			if value, ok := before[s.variable]; ok {
				_ = os.Setenv(s.variable, value) //nolint:usetesting // it restores what flags have set
			}
		}
	})
}

// The settings of the program reach the receivers: with the default view they get no content, and their secrets are not logged.
func TestExports(t *testing.T) {
	const word, secret = "canary", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
	log := exporttest.Start(t)
	log.Conversation("s1", word)
	var requests atomic.Int32
	var bodies exporttest.Lines
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = bodies.Write(body)
		requests.Add(1)
		if r.URL.Path == "/v1/traces" && r.Header.Get("Authorization") != "Basic a b" {
			t.Errorf("the headers are %v", r.Header)
		}
		if strings.Contains(string(body), "tailrace.tool.failed") {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20a%20b")
	dead := filepath.Join(t.TempDir(), "dead")
	for to, want := range map[string]int32{"otlp+" + server.URL: 1, "webhook+" + server.URL + "/path-with-key": 8 + 3} {
		t.Run(to[:4], func(t *testing.T) {
			restore(t)
			requests.Store(0)
			code, text := runToEnd(t, "--to="+to, "--nats-url="+log.JS.Conn().ConnectedUrl(), "--secret="+secret, "--dead-letters="+dead)
			if code != 0 || requests.Load() != want {
				t.Errorf("code %d, %d requests, want %d: %s", code, requests.Load(), want, text)
			}
			for _, hidden := range []string{secret, "path-with-key", word, "Basic"} {
				if strings.Contains(text, hidden) {
					t.Errorf("the log has %s: %s", hidden, text)
				}
			}
			if code, _ := runToEnd(t, "--to="+to, "--nats-url="+log.JS.Conn().ConnectedUrl(), "--secret="+secret); code != 0 || requests.Load() != want {
				t.Errorf("the second time: code %d, %d requests, want none", code, requests.Load()-want)
			}
		})
	}
	if strings.Contains(bodies.String(), word) {
		t.Error("a request has content")
	}
	if lines, err := os.ReadFile(dead); err != nil || bytes.Count(lines, []byte("\n")) != 1 {
		t.Errorf("dead letters %s, %v, want one", lines, err)
	}
}

func TestWrongSettingsOfExports(t *testing.T) {
	for args, want := range map[string]string{
		"--to=webhook+https://example.com":                                                "0 secrets",
		"--to=webhook+https://example.com --secret=whsec_AAAA":                            "want whsec_",
		"--to=webhook+http://example.com --secret=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3": "want https",
		"--to=otlp+https://user:pw@example.com":                                           "OTEL_EXPORTER_OTLP_HEADERS",
		"--to=otlp+https://example.com --view=unknown":                                    "view is",
		"--to=otlp+https://example.com --give-up=-1s":                                     "give-up",
		"--to=otlp+https://example.com --dead-letters=/dev/null/x":                        "dead letters",
		"--to=":                  "to is empty",
		"--every=10 --to=lake":   "want a duration, such as",
		"--to=ftp://example.com": "to is",
	} {
		t.Run(args, func(t *testing.T) {
			restore(t)
			if code, text := runToEnd(t, strings.Fields(args)...); code != 2 || !strings.Contains(text, want) || strings.Contains(text, "pw") {
				t.Errorf("code %d, %s, want 2 and %q", code, text, want)
			}
		})
	}
}
