package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The level changes while the process runs, for requests from this host, and an invalid one changes nothing.
func TestLogLevelAtRunTime(t *testing.T) {
	edge := startEdge(t)
	set := func(level string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, edge.ops+"/loglevel", strings.NewReader(level))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	level := func() string {
		_, text := get(t, edge.ops+"/loglevel", "")
		return text
	}
	if got := level(); got != "INFO\n" {
		t.Errorf("at first: %q", got)
	}
	if status, text := set("debug"); status != http.StatusOK || text != "DEBUG\n" || level() != "DEBUG\n" {
		t.Errorf("set to debug: %d %q", status, text)
	}
	for _, bad := range []string{"loud", "", strings.Repeat("d", 1000)} {
		if status, _ := set(bad); status != http.StatusBadRequest || level() != "DEBUG\n" {
			t.Errorf("set to %.9q: status %d, level %q", bad, status, level())
		}
	}
	edge.await(t, `msg="log level changed" before=INFO level=DEBUG`)
	if status, _ := set("error"); status != http.StatusOK {
		t.Errorf("set to error: %d", status)
	}
}

// The loggers that were derived before have the new level too, and clients of other hosts cannot set it.
func TestLogLevelIsSetFromThisHost(t *testing.T) {
	var out strings.Builder
	b := &app{log: config{LogFormat: "json"}.logger(&out)}
	derived := b.log.With("session", "s1")
	derived.Debug("before")
	put := func(addr string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/loglevel", strings.NewReader("debug"))
		r.RemoteAddr = addr
		w := httptest.NewRecorder()
		b.serveLogLevel(w, r)
		return w.Code
	}
	if status := put("192.0.2.1:1234"); status != http.StatusForbidden {
		t.Errorf("another host: status %d", status)
	}
	if status := put("[::1]:1234"); status != http.StatusOK {
		t.Errorf("this host: status %d", status)
	}
	derived.Debug("after")
	if text := out.String(); strings.Contains(text, `"msg":"before"`) || !strings.Contains(text, `"msg":"after","session":"s1"`) {
		t.Errorf("log: %s", text)
	}
}

// The access log has one line for each request of the edge, if it is enabled.
func TestAccessLogOfAnEdge(t *testing.T) {
	edge := startEdge(t, "--access-log")
	get(t, edge.url+"/healthz?ticket=secret", "")
	edge.await(t, `msg="request ended" method=GET route=\w+ status=200 duration=\S+ bytes=\d+ address=127.0.0.1`)
	if text := edge.out.String(); strings.Contains(text, "secret") {
		t.Errorf("log: %s", text)
	}
}
