package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/subjects"
)

// recordedCommands records commands, or rejects them with err.
type recordedCommands struct {
	got []control.Command
	err error
}

func (b *recordedCommands) Publish(_ context.Context, c control.Command) error {
	if b.err == nil {
		b.got = append(b.got, c)
	}
	return b.err
}

func ask(t *testing.T, q CommandPublisher, method, target, contentType, body string, header ...string) (*http.Response, map[string]any) {
	t.Helper()
	h, err := NewHandler(HandlerConfig{Queue: q, Shared: ofAcme(t)})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+target, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]any{}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
	}
	return resp, answer
}

const asJSON = "application/json"

// A request becomes a command on the queue, for a new session or the one that it names.
func TestStartRun(t *testing.T) {
	q := &recordedCommands{}
	resp, first := ask(t, q, "POST", "/v1/demo/runs", "application/json; charset=utf-8", `{"scenario":"tour"}`) //nolint:bodyclose // ask does
	if resp.StatusCode != http.StatusAccepted || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", resp.StatusCode, first)
	}
	_, second := ask(t, q, "POST", "/v1/demo/runs", asJSON, fmt.Sprintf(`{"scenario":"plain","session":%q}`, first["session"])) //nolint:bodyclose // ask does
	if second["session"] != first["session"] || second["run"] == first["run"] {
		t.Errorf("first %v, second %v", first, second)
	}
	for i, scenario := range []string{"tour", "plain"} {
		c := q.got[i]
		if c.Session.Tenant != "acme" || c.Session.ID != first["session"] || !c.Session.IsRoot() || c.Kind != control.Execute || c.AgentType != script.AgentType {
			t.Errorf("command %+v", c)
		}
		if want := fmt.Sprintf(`{"scenario":%q}`, scenario); string(c.Params) != want || len(c.Input) != 1 || c.Input[0].Content == "" {
			t.Errorf("params %s, input %v", c.Params, c.Input)
		}
		if len(c.RunID) != 26 || subjects.CheckToken("run", c.RunID) != nil || len(c.Session.ID) != 26 {
			t.Errorf("ids %q and %q: want 128 bits each", c.RunID, c.Session.ID)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	tests := map[string]struct {
		method, contentType, body string
		status                    int
		code                      string
	}{
		"a form":             {"POST", "application/x-www-form-urlencoded", "scenario=tour", 415, "UNSUPPORTED_MEDIA_TYPE"},
		"no type":            {"POST", "", `{"scenario":"tour"}`, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"an invalid type":    {"POST", "application/json;;", `{"scenario":"tour"}`, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"no body":            {"POST", asJSON, "", 400, "VALIDATION_ERROR"},
		"no object":          {"POST", asJSON, `"tour"`, 400, "VALIDATION_ERROR"},
		"two values":         {"POST", asJSON, `{"scenario":"tour"}{}`, 400, "VALIDATION_ERROR"},
		"an unknown member":  {"POST", asJSON, `{"scenario":"tour","tenant":"other"}`, 400, "VALIDATION_ERROR"},
		"no scenario":        {"POST", asJSON, `{}`, 400, "VALIDATION_ERROR"},
		"another scenario":   {"POST", asJSON, `{"scenario":"nonsense"}`, 400, "VALIDATION_ERROR"},
		"an empty session":   {"POST", asJSON, `{"scenario":"tour","session":""}`, 400, "VALIDATION_ERROR"},
		"a wildcard session": {"POST", asJSON, `{"scenario":"tour","session":">"}`, 400, "VALIDATION_ERROR"},
		"a long session":     {"POST", asJSON, `{"scenario":"tour","session":"` + strings.Repeat("x", 65) + `"}`, 400, "VALIDATION_ERROR"},
		"a long body":        {"POST", asJSON, `{"scenario":"` + strings.Repeat("x", 9000) + `"}`, 413, "CONTENT_TOO_LARGE"},
		"a long tail":        {"POST", asJSON, `{"scenario":"tour"}` + strings.Repeat(" ", 9000), 413, "CONTENT_TOO_LARGE"},
		"a read":             {"GET", "", "", 405, "METHOD_NOT_ALLOWED"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := &recordedCommands{}
			resp, answer := ask(t, q, test.method, "/v1/demo/runs", test.contentType, test.body) //nolint:bodyclose // ask does
			if resp.StatusCode != test.status || answer["code"] != test.code || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %s %v", resp.StatusCode, resp.Header.Get("Content-Type"), answer)
			}
			if answer["detail"] == "" || answer["title"] == "" || answer["status"] != float64(test.status) {
				t.Errorf("problem %v", answer)
			}
			if len(q.got) != 0 {
				t.Error("run requested")
			}
		})
	}
}

// A page of another origin cannot start agents through the browser of a visitor.
func TestCrossOriginIsRefused(t *testing.T) {
	q := &recordedCommands{}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		resp, answer := ask(t, q, "POST", "/v1/demo/runs", asJSON, `{"scenario":"tour"}`, header...) //nolint:bodyclose // ask does
		if resp.StatusCode != http.StatusForbidden || answer["code"] != "CROSS_ORIGIN" || len(q.got) != 0 {
			t.Errorf("%v: %d %v", header, resp.StatusCode, answer)
		}
	}
	resp, _ := ask(t, q, "POST", "/v1/demo/runs", asJSON, `{"scenario":"tour"}`, "Origin", "http://localhost", "Sec-Fetch-Site", "same-origin") //nolint:bodyclose // ask does
	if resp.StatusCode != http.StatusAccepted {
		t.Errorf("the page's own request: %d", resp.StatusCode)
	}
}

// A tenant with as many runs as it may have gets 429.
func TestTooManyRuns(t *testing.T) {
	q := &recordedCommands{err: fmt.Errorf("publish: %w", control.ErrTooManyRuns)}
	resp, answer := ask(t, q, "POST", "/v1/demo/runs", asJSON, `{"scenario":"tour"}`) //nolint:bodyclose // ask does
	if resp.StatusCode != http.StatusTooManyRequests || answer["code"] != httpkit.CodeTenantRuns || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, answer)
	}
}

// If the queue is unavailable, the client gets a retryable problem without internal details.
func TestQueueUnavailable(t *testing.T) {
	q := &recordedCommands{err: fmt.Errorf("publish: %w: nats: no responders at 10.0.0.7", chunk.ErrUnknownOutcome)}
	resp, answer := ask(t, q, "POST", "/v1/demo/runs", asJSON, `{"scenario":"tour"}`) //nolint:bodyclose // ask does
	if resp.StatusCode != http.StatusServiceUnavailable || answer["code"] != "QUEUE_UNAVAILABLE" || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, answer)
	}
	if strings.Contains(fmt.Sprint(answer), "nats") {
		t.Errorf("response contains internal details: %v", answer)
	}
}

func TestScenariosAreListed(t *testing.T) {
	resp, answer := ask(t, &recordedCommands{}, "GET", "/v1/demo/scenarios", "", "") //nolint:bodyclose // ask does
	list, _ := answer["scenarios"].([]any)
	if resp.StatusCode != http.StatusOK || len(list) != len(script.Scenarios()) {
		t.Errorf("%d %v", resp.StatusCode, answer)
	}
	if resp, _ := ask(t, &recordedCommands{}, "POST", "/v1/demo/scenarios", asJSON, "{}"); resp.StatusCode != http.StatusMethodNotAllowed { //nolint:bodyclose // ask does
		t.Errorf("POST: %d", resp.StatusCode)
	}
}

// Other paths are problems in the form of the API.
func TestUnknownPath(t *testing.T) {
	if resp, answer := ask(t, &recordedCommands{}, "GET", "/v1/demo/nothing", "", ""); resp.StatusCode != http.StatusNotFound || answer["code"] != "NOT_FOUND" { //nolint:bodyclose // ask does
		t.Errorf("%d %v", resp.StatusCode, answer)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := NewHandler(HandlerConfig{Shared: ofAcme(t)}); err == nil {
		t.Error("handler without a queue accepted")
	}
	if _, err := NewHandler(HandlerConfig{Queue: &recordedCommands{}, Shared: &access.Shared{}}); err == nil {
		t.Error("handler without an authenticator accepted")
	}
}

// ofAcme returns the settings of an edge whose clients have all rights in a tenant.
func ofAcme(t *testing.T) *access.Shared {
	t.Helper()
	return &access.Shared{Shared: httpkit.Shared{Auth: authtest.None(t, "acme"), Bodies: httpkit.NewBodyLimiter(0)}, Access: &access.Access{}}
}
