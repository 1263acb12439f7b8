package httpedge_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

// Every request gets a response of the edge: a rejection or a page, never an internal error, and never a part of the request. There is no session, so no stream
// opens.
func FuzzRequest(f *testing.F) {
	for _, leaf := range []string{"events", "snapshot", "messages"} {
		f.Add("/v1/sessions/s1/"+leaf, "after=7&scope=session&types=a,b&limit=3", "7", "text/event-stream")
		f.Add("/v1/sessions/../s1/"+leaf, "%zz", "1\n2", "*/*;q=0")
		f.Add("/v1/sessions/%2e%2e/"+leaf, "root=a.b&agent=*&scope=x", "٣", "")
	}
	f.Add("/healthz", "", "", "")
	f.Add("//", "a=b;c", "", "")
	w := newEnv(f, envConfig{tcp: true})
	f.Fuzz(func(t *testing.T, path, query, cursor, accept string) {
		u := &url.URL{Path: path, RawQuery: query}
		if unescaped, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = unescaped, path
		}
		req := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Last-Event-Id": {cursor}, "Accept": {accept}}}
		rec := httptest.NewRecorder()
		w.edge.ServeHTTP(rec, req.WithContext(t.Context()))
		if rec.Code != http.StatusOK && (rec.Code < 400 || rec.Code > 499) {
			t.Fatalf("status %d", rec.Code)
		}
		body := rec.Body.String()
		for _, sent := range []string{path, query, cursor, accept} {
			if len(sent) > 30 && strings.Contains(body, sent) {
				t.Fatalf("%q is in the response %q", sent, body)
			}
		}
		for name, values := range rec.Header() {
			if name != "X-Session-Id" && strings.ContainsAny(strings.Join(values, ""), "\r\n") {
				t.Fatalf("header %s: %q", name, values)
			}
		}
	})
}

// A valid id is also a valid header value.
func TestSessionHeaderIsAToken(t *testing.T) {
	w := newEnv(t, envConfig{tcp: true})
	w.log.Append(chunk.RootSession("default", "a-b_C9"), chunk.TypeRunStarted, "")
	rec := w.record(http.MethodHead, "/v1/sessions/a-b_C9/events", nil)
	if got := rec.Header().Get("X-Session-Id"); got != "a-b_C9" {
		t.Errorf("got %q", got)
	}
}
