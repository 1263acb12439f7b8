package agentserver

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
)

// Invalid requests are refused with a code, and no run is requested.
func TestHostileRequests(t *testing.T) {
	w := newEnv(t, nil)
	start := func(members string) string { return `{"sessionId":"s1","agentType":"helper",` + members + `}` }
	for name, c := range map[string]struct{ method, path, body, want string }{
		"no body":                 {http.MethodPost, "/start", "", "415 UNSUPPORTED_MEDIA_TYPE"},
		"no JSON":                 {http.MethodPost, "/start", "{", "400 VALIDATION_ERROR"},
		"a list":                  {http.MethodPost, "/start", "[]", "400 VALIDATION_ERROR"},
		"no UTF-8":                {http.MethodPost, "/start", start("\"message\":\"\xff\""), "400 VALIDATION_ERROR"},
		"too large":               {http.MethodPost, "/start", start(`"message":"` + strings.Repeat("x", 1<<20) + `"`), "413 CONTENT_TOO_LARGE"},
		"deeply nested":           {http.MethodPost, "/start", start(`"message":"hi","state":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`), "400 VALIDATION_ERROR"},
		"nested beyond the log":   {http.MethodPost, "/start", start(`"message":"hi","state":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`), "400 VALIDATION_ERROR"},
		"metadata nested":         {http.MethodPost, "/start", start(`"message":[{"content":"hi","metadata":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}]`), "400 VALIDATION_ERROR"},
		"no session":              {http.MethodPost, "/start", `{"agentType":"helper","message":"hi"}`, "400 VALIDATION_ERROR"},
		"a subject as session":    {http.MethodPost, "/start", `{"sessionId":"a.>","agentType":"helper","message":"hi"}`, "400 VALIDATION_ERROR"},
		"a path as session":       {http.MethodPost, "/start", `{"sessionId":"../x","agentType":"helper","message":"hi"}`, "400 VALIDATION_ERROR"},
		"no agent":                {http.MethodPost, "/start", `{"sessionId":"s1","message":"hi"}`, "400 VALIDATION_ERROR"},
		"a subject as agent":      {http.MethodPost, "/start", `{"sessionId":"s1","agentType":"*","message":"hi"}`, "400 VALIDATION_ERROR"},
		"unknown agent":           {http.MethodPost, "/start", `{"sessionId":"s1","agentType":"unknown","message":"hi"}`, "404 NOT_FOUND"},
		"no message":              {http.MethodPost, "/start", start(`"message":null`), "400 VALIDATION_ERROR"},
		"an empty message":        {http.MethodPost, "/start", start(`"message":""`), "400 VALIDATION_ERROR"},
		"a number as message":     {http.MethodPost, "/start", start(`"message":5`), "400 VALIDATION_ERROR"},
		"no messages":             {http.MethodPost, "/start", start(`"message":[]`), "400 VALIDATION_ERROR"},
		"many messages":           {http.MethodPost, "/start", start(`"message":[` + strings.Repeat(`{"content":"x"},`, 64) + `{"content":"x"}]`), "400 VALIDATION_ERROR"},
		"message without text":    {http.MethodPost, "/start", start(`"message":[{"text":"x"}]`), "400 VALIDATION_ERROR"},
		"a null for a message":    {http.MethodPost, "/start", start(`"message":[null]`), "400 VALIDATION_ERROR"},
		"file without type":       {http.MethodPost, "/start", start(`"message":[{"content":"x","files":[{"url":"u"}]}]`), "400 VALIDATION_ERROR"},
		"metadata that is a text": {http.MethodPost, "/start", start(`"message":[{"content":"x","metadata":"m"}]`), "400 VALIDATION_ERROR"},
		"metadata of numbers":     {http.MethodPost, "/start", start(`"message":"x","metadata":{"a":1}`), "400 VALIDATION_ERROR"},
		"state that is a list":    {http.MethodPost, "/start", start(`"message":"x","state":[]`), "400 VALIDATION_ERROR"},
		"resume of nothing":       {http.MethodPost, "/resume", `{"sessionId":"s1"}`, "404 NOT_FOUND"},
		"interrupt of nothing":    {http.MethodPost, "/interrupt", `{"sessionId":"s1"}`, "404 NOT_FOUND"},
		"abort of nothing":        {http.MethodPost, "/abort", `{"sessionId":"s1"}`, "404 NOT_FOUND"},
		"answer to nothing":       {http.MethodPost, "/submit-tool-result", `{"sessionId":"s1","toolCallId":"c","result":1}`, "404 NOT_FOUND"},
		"answer in no session":    {http.MethodPost, "/submit-tool-result", `{"toolCallId":"c","result":1}`, "400 VALIDATION_ERROR"},
		"answer with a slash":     {http.MethodPost, "/submit-tool-result", `{"sessionId":"s1/../s2","toolCallId":"c","result":1}`, "400 VALIDATION_ERROR"},
		"status of nothing":       {http.MethodGet, "/status?sessionId=s1", "", "404 NOT_FOUND"},
		"status of no session":    {http.MethodGet, "/status", "", "400 VALIDATION_ERROR"},
		"events of no session":    {http.MethodGet, "/sse", "", "400 VALIDATION_ERROR"},
		"events, broken query":    {http.MethodGet, "/sse?sessionId=%zz", "", "400 VALIDATION_ERROR"},
		"another method":          {http.MethodGet, "/start", "", "405 METHOD_NOT_ALLOWED"},
		"another path":            {http.MethodPost, "/start/x", "{}", "404 NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			if got := w.ask(c.method, "/agents"+c.path, c.body); got.String() != c.want || got.member("error") == "" {
				t.Errorf("%s %s, want %s", got, got.body, c.want)
			}
		})
	}
	if got := w.status("s1"); got.String() != "404 NOT_FOUND" {
		t.Errorf("a refused request has begun a session: %s", got.body)
	}
}

// A page of another origin can make a browser send a POST, and gets 403.
func TestPagesOfOtherOrigins(t *testing.T) {
	w := newEnv(t, func(c *edgeConfig) { c.edge.Origins = []string{"https://ours.example"} })
	for origin, want := range map[string]int{"https://evil.example": http.StatusForbidden, "https://ours.example": http.StatusOK} {
		resp, err := w.try(t.Context(), http.MethodPost, "/agents/start", startS1, http.Header{"Origin": {origin}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", origin, resp.StatusCode, want)
		}
	}
}

// While the log is unavailable, no response reveals whether a session exists.
func TestWithoutALog(t *testing.T) {
	w := newEnv(t, func(c *edgeConfig) { c.logic.RequestTimeout = 200 * time.Millisecond })
	w.server.waitStarted = func(context.Context, chunk.Session) error { return chunk.ErrNotStored }
	w.post("/start", startS1)
	if got := w.ask(http.MethodGet, "/agents/sse?sessionId=s1", ""); got.String() != "503 UNAVAILABLE" {
		t.Errorf("%s %s", got, got.body)
	}
}

// The error of an invalid configuration names the field.
func TestConfigIsChecked(t *testing.T) {
	w := newEnv(t, nil)
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"bad prefix": {Config{Prefix: "/a/"}, "Prefix"},
		"no slash":   {Config{Prefix: "agents"}, "Prefix"},
		"bad body":   {Config{MaxBody: -1}, "MaxBody"},
	} {
		if _, err := New(w.edge, w.logic, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s in it", name, err, c.want)
		}
	}
	if _, err := New(w.edge, nil, Config{}); err == nil {
		t.Error("no logic: want an error")
	}
	if _, err := New(nil, w.logic, Config{}); err == nil {
		t.Error("no edge: want an error")
	}
	strange := must(httpedge.New(memlog.New(), w.Reader, httpedge.Config{Authenticator: authtest.None(t, tenant), Origins: []string{"ours"}}))(t)
	if _, err := New(strange, w.logic, Config{}); err == nil || !strings.Contains(err.Error(), "Origins") {
		t.Errorf("bad origin: error %v, want Origins in it", err)
	}
	if s, err := New(w.edge, w.logic, Config{Prefix: "/"}); err != nil || !s.surface.Match("/start") || s.surface.Match("/agents/start") {
		t.Errorf("the prefix / is not none: %v", err)
	}
}
