package openapitest_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openapitest"
)

// errorCounter counts the errors that a Document reports.
type errorCounter struct {
	testing.TB

	n int
}

func (c *errorCounter) Helper()               {}
func (c *errorCounter) Errorf(string, ...any) { c.n++ }

// Check reports every difference from the document.
func TestCheckFinds(t *testing.T) {
	const (
		node  = `{"session":"k","callId":"c","status":"ended","children":[]}`
		plain = "application/json"
	)
	for name, tt := range map[string]struct {
		method, path string
		status       int
		kind, body   string
		wrong        bool
	}{
		"valid":                {"GET", "/v1/sessions/s/tree", 200, plain, `{"session":"s","status":"ended","children":[` + node + `]}`, false},
		"HEAD":                 {"HEAD", "/v1/sessions/s/tree", 200, plain, "", false},
		"another path":         {"GET", "/v1/sessions/s/trees", 200, plain, `{}`, true},
		"another method":       {"POST", "/v1/sessions/s/tree", 200, plain, `{}`, true},
		"405":                  {"POST", "/v1/sessions/s/tree", 405, plain, `{}`, false},
		"another status":       {"GET", "/healthz", 418, plain, `{"ok":true}`, true},
		"a parameter":          {"GET", "/v1/sessions/s/tree?deep=1", 200, plain, `{"session":"s","status":"ended","children":[]}`, true},
		"a member too many":    {"GET", "/v1/sessions/s/tree", 200, plain, `{"session":"s","status":"ended","children":[],"x":1}`, true},
		"a member deep inside": {"GET", "/v1/sessions/s/tree", 200, plain, `{"session":"s","status":"ended","children":[` + strings.Replace(node, `[]`, `[{"x":1}]`, 1) + `]}`, true},
		"a member missing":     {"GET", "/v1/sessions/s/tree", 200, plain, `{"session":"s","children":[]}`, true},
		"a wrong value":        {"GET", "/v1/sessions/s/tree", 200, plain, `{"session":"s","status":"asleep","children":[]}`, true},
		"another media type":   {"GET", "/v1/sessions/s/tree", 200, "text/html", `{"session":"s","status":"ended","children":[]}`, true},
		"no JSON":              {"GET", "/v1/sessions/s/tree", 200, plain, `{`, true},
		"a header missing":     {"GET", "/v1/sessions/s/tree", 503, "application/problem+json", `{"type":"urn:tailrace:problem:x","title":"x","status":503,"code":"X","error":"x"}`, true},
		"a body":               {"DELETE", "/v1/sessions/s", 204, "", `x`, true},
	} {
		resp := &http.Response{
			Request: httptest.NewRequest(tt.method, tt.path, nil), StatusCode: tt.status,
			Header: http.Header{"Content-Type": {tt.kind}, "X-Session-Id": {"s"}},
		}
		found := &errorCounter{TB: t}
		doc := openapitest.Load(t)
		if doc.Check(found, resp, []byte(tt.body)); found.n > 0 != tt.wrong {
			t.Errorf("%s: %d errors", name, found.n)
		}
	}
}

func TestUnseen(t *testing.T) {
	doc := openapitest.Load(t)
	if ops := doc.Operations("ops"); !slices.Equal(ops, []string{"GET /healthz", "GET /livez", "GET /metrics", "GET /readyz", "GET /startupz"}) {
		t.Errorf("operations %q", ops)
	}
	before := doc.Unseen("ops")
	resp := &http.Response{Request: httptest.NewRequest(http.MethodGet, "/livez", nil), StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	doc.Check(t, resp, []byte(`{"ok":true}`))
	after := doc.Unseen("ops")
	if !slices.Contains(before, "GET /livez 200") || len(after) != len(before)-1 || slices.Contains(after, "GET /livez 200") {
		t.Errorf("before %q, after %q", before, after)
	}
}
