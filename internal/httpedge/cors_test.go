package httpedge_test

import (
	"bufio"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

const app = "https://app.example"

// TestCORS checks which origins may read each response that a browser can get: JSON, rejections and preflights, including H39, H40 and E22 to E25 of the list
// of invalid inputs.
func TestCORS(t *testing.T) {
	w := newEnv(t, envConfig{})
	w.log.Append(s1, chunk.TypeRunStarted, "")
	w.log.Append(chunk.RootSession("default", "over"), chunk.TypeStreamEnd, "")
	handler, err := httpkit.CORS([]string{app, "http://localhost:3000"}, w.edge)
	if err != nil {
		t.Fatal(err)
	}
	preflight := http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type,x-injected"}}
	for _, tt := range []struct {
		name, method, path string
		header             http.Header
		origins            []string
		status             int
		granted            bool
	}{
		{"page", "GET", "/v1/sessions/s1/snapshot", nil, []string{app}, 200, true},
		{"page, with a port", "GET", "/v1/sessions/s1/snapshot", nil, []string{"http://localhost:3000"}, 200, true},
		{"nothing to resume", "GET", "/v1/sessions/over/events", http.Header{"Last-Event-Id": {"2"}}, []string{app}, 204, true},
		{"unknown session", "GET", "/v1/sessions/unknown/events", nil, []string{app}, 404, true},
		{"bad cursor", "GET", "/v1/sessions/s1/events?after=x", nil, []string{app}, 400, true},
		{"bad method", "POST", "/v1/sessions/s1/events", nil, []string{app}, 405, true},
		{"head", "HEAD", "/v1/sessions/s1/events", nil, []string{app}, 200, true},
		{"preflight", "OPTIONS", "/v1/sessions/s1/events", preflight, []string{app}, 204, true},
		{"preflight of nothing", "OPTIONS", "/nowhere", preflight, []string{app}, 204, true},

		{"same origin", "GET", "/v1/sessions/s1/snapshot", nil, nil, 200, false},
		{"H39 other origin", "GET", "/v1/sessions/s1/snapshot", http.Header{"Cookie": {"a=b"}}, []string{"https://evil.example"}, 200, false},
		{"H40 null", "GET", "/v1/sessions/s1/snapshot", http.Header{"Cookie": {"a=b"}}, []string{"null"}, 200, false},
		{"longer", "GET", "/v1/sessions/s1/snapshot", nil, []string{app + ".evil.example"}, 200, false},
		{"other scheme", "GET", "/v1/sessions/s1/snapshot", nil, []string{"http://app.example"}, 200, false},
		{"other port", "GET", "/v1/sessions/s1/snapshot", nil, []string{app + ":8443"}, 200, false},
		{"two", "GET", "/v1/sessions/s1/snapshot", nil, []string{app, "https://evil.example"}, 200, false},
		{"E25 preflight of another origin", "OPTIONS", "/v1/sessions/s1/events", preflight, []string{"https://evil.example"}, 403, false},
		{"E24 null preflight", "OPTIONS", "/v1/sessions/s1/events", preflight, []string{"null"}, 403, false},
		{"OPTIONS without preflight headers", "OPTIONS", "/v1/sessions/s1/events", nil, nil, 405, false},
	} {
		req := httptest.NewRequest(tt.method, tt.path, nil)
		maps.Copy(req.Header, tt.header)
		if tt.origins != nil {
			req.Header["Origin"] = tt.origins
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		h := rec.Header()
		if rec.Code != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, rec.Code, tt.status)
		}
		if !slices.Contains(h.Values("Vary"), "Origin") {
			t.Errorf("%s: a shared cache would serve it to other origins: Vary %q", tt.name, h.Values("Vary"))
		}
		if tt.granted != (h.Get("Access-Control-Allow-Credentials") == "true") || tt.granted && h.Get("Access-Control-Allow-Origin") != tt.origins[0] {
			t.Errorf("%s: granted %t: %v", tt.name, !tt.granted, h)
		}
		for name, values := range h {
			if !tt.granted && strings.HasPrefix(name, "Access-Control-") || strings.Contains(strings.Join(values, " "), "injected") {
				t.Errorf("%s: %s: %q", tt.name, name, values)
			}
		}
		wants(t, tt.name, h.Get("Access-Control-Expose-Headers"), tt.granted && tt.status != 204 || tt.name == "nothing to resume",
			"X-Session-Id", "X-Stream-Epoch", "X-Vercel-Ai-Ui-Message-Stream", "Retry-After")
		asked := tt.granted && tt.header.Get("Access-Control-Request-Method") != ""
		wants(t, tt.name, h.Get("Access-Control-Allow-Methods"), asked, "GET", "POST", "OPTIONS")
		wants(t, tt.name, h.Get("Access-Control-Allow-Headers"), asked,
			"Content-Type", "Authorization", "X-Resume-From-Sequence", "X-Resume-At", "X-Existing-Message-Id", "Last-Event-Id", "User-Agent")
	}
}

// wants compares a list header.
func wants(t *testing.T, name, list string, present bool, want ...string) {
	t.Helper()
	got := strings.Split(list, ", ")
	if !present && list != "" {
		t.Errorf("%s: %q, want none", name, list)
	}
	for _, w := range want {
		if present && !slices.Contains(got, w) {
			t.Errorf("%s: %q lacks %s", name, list, w)
		}
	}
}

// A stream works with CORS: it starts at once, has no deadline, and a stalled one is closed.
func TestStreamsWorkWithCORS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		handler, err := httpkit.CORS([]string{app}, w.edge)
		if err != nil {
			t.Fatal(err)
		}
		w.server.Handler = handler
		w.log.Append(s1, chunk.TypeRunStarted, "")
		resp := w.get(t.Context(), "/v1/sessions/s1/events", http.Header{"Origin": {app}})
		defer resp.Body.Close()
		if resp.Header.Get("Access-Control-Allow-Origin") != app || resp.Header.Get("X-Session-Id") != "s1" {
			t.Errorf("headers %v", resp.Header)
		}
		lines, beats := bufio.NewScanner(resp.Body), 0
		for beats < 10 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), ":") {
				beats++
			}
		}
		if beats < 10 {
			t.Errorf("the stream ended after %d heartbeats: %v", beats, lines.Err())
		}
	})
}

func TestCORSTakesOrigins(t *testing.T) {
	for origin, good := range map[string]bool{
		app: true, "http://localhost:3000": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true, "https://xn--bcher-kva.example": true,
		"*": false, "null": false, "": false, "https://*.example": false, "app.example": false, "https://": false,
		"https://app.example/": false, "https://app.example/x": false, "https://app.example?": false, "https://App.example": false,
		"https://app.example:443": false, "http://app.example:80": false, "https://app.example:": false, "https://u@app.example": false,
		"ftp://app.example": false, "https://a.example,https://b.example": false, "https://app.example%20": false,
	} {
		if _, err := httpkit.CORS([]string{origin}, http.NotFoundHandler()); (err == nil) != good {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

// Without origins no origin is allowed, however a library interprets an empty list.
func TestCORSWithoutOrigins(t *testing.T) {
	handler, err := httpkit.CORS(nil, http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Origin", app)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, req)
	if got := rec.Header().Get("Access-Control-Allow-Origin"); got != "" || rec.Code != http.StatusNotFound {
		t.Errorf("status %d, granted to %q", rec.Code, got)
	}
}
