package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// newcomer has what a new user starts: a server with one agent, which is a route that answers in two pieces, the second one when the test allows it.
type newcomer struct {
	url, nats string
	rest      chan struct{}
}

func startNewcomer(t *testing.T) newcomer {
	t.Helper()
	n := newcomer{nats: streamtest.Start(t).URL, rest: make(chan struct{})}
	route := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"type\":\"start\"}\n\ndata: {\"type\":\"text-start\",\"id\":\"1\"}\n\ndata: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"Once upon \"}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-n.rest:
		case <-r.Context().Done():
			return
		}
		fmt.Fprint(w, "data: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"a time.\"}\n\ndata: {\"type\":\"text-end\",\"id\":\"1\"}\n\ndata: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(route.Close)
	agents := writeFile(t, "agents.json", fmt.Sprintf(`{"agents":{"support":{"http":{"url":%q}}}}`, route.URL))
	p := startProcess(t, "up", "--nats-url", n.nats, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--drain", "0s", "--agents", agents, "--chat-agent", "support")
	n.url = p.await(t, `is running: (\S+)`)
	return n
}

// The two commands of the first minute: the first one posts a text and is interrupted in the middle of the answer, the second one has all of it.
func TestFirstMinuteOfAChat(t *testing.T) {
	n := startNewcomer(t)
	begin := func(ctx context.Context, method, path, body, accept string) io.Reader {
		t.Helper()
		resp, err := do(ctx, method, n.url+path, body, map[string]string{"Accept": accept})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		for lines := bufio.NewReader(resp.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%s %s: %d %q: %v", method, path, resp.StatusCode, line, err)
			}
			if strings.Contains(line, "Once upon ") {
				return lines
			}
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	begin(ctx, http.MethodPost, "/api/chat/hello", `{"text": "Tell me a story"}`, "application/json") // of curl --json
	interrupt()
	rest := begin(t.Context(), http.MethodGet, "/api/chat/hello/stream", "", "*/*")
	n.rest <- struct{}{}
	text, err := io.ReadAll(rest)
	if err != nil || !strings.Contains(string(text), "a time.") || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		t.Errorf("%q, %v", text, err)
	}
	if _, text := get(t, n.url+"/v1/sessions/hello/snapshot", ""); !strings.Contains(text, `"text":"Tell me a story"`) {
		t.Errorf("no message of the user in %s", text)
	}
}

// Each mistake of the first minute gets an answer that says what was wrong, what is wanted, and what to type.
func TestFirstMinuteOverHTTP(t *testing.T) {
	n := startNewcomer(t)
	const (
		text   = `{"type":"text_delta","delta":"ok"}` + "\n"
		openai = `{"choices":[{"index":0,"delta":{"content":"x"}}]}`
		file   = `{"type":"file","url":"https://a.example/x","mediaType":"text/plain","fileName":"x"}`
		end    = `{"type":"tool_end","toolCallId":"c1","toolName":"f","result":1}`
		event  = `{"specversion":"1.0","id":"e1","source":"a","type":"text-delta","data":{"delta":"x"}}`
	)
	const dialects = `want native, agui, aisdk, anthropic, kortyx, langgraph, mastra or openai`
	for i, tt := range []struct {
		path, body string // GET without a body; "chunks" and "events" are of a run that is open
		header     map[string]string
		status     int
		want       []string
	}{
		{"/api/chat/c1", `{}`, nil, 400, []string{`want messages, at least one and at most 10000, or one text: {\"text\": \"Hello\"}`}},
		{"/api/chat/c1", `{"text": " "}`, nil, 400, []string{"a message of a user has neither text nor files nor data"}},

		{"/api/chat/" + strings.Repeat("x", 70), `{"text": "Hi"}`, nil, 400, []string{"this is not the id of a chat: want 1 to 64 characters of a URI; this one has 70"}},
		{"/v1/sessions/" + strings.Repeat("x", 70) + "/snapshot", "", nil, 400, []string{"want 1 to 64 characters of a URI; this one has 70"}},

		{"chunks", text + text + `{"type":"text-delta","delta":"x"}`, nil, 400, []string{`"UNKNOWN_TYPE"`, `line 3: there is no chunk type \"text-delta\"; did you mean \"text_delta\"?`, `"nearest":"text_delta"`, `"stored":2`}},
		{"chunks", `{"type":"text-delta","id":"1","delta":"x"}`, nil, 400, []string{`"UNKNOWN_TYPE"`, `this is a line of aisdk: add ?dialect=aisdk`, `"nearest":"aisdk"`}},
		{"chunks", `{"type":"acme.progress"}`, nil, 200, []string{`"done":true`}},
		{"chunks", `{"type":"progress"}`, map[string]string{"Tailrace-Strict": "off"}, 200, []string{`"done":true`}},
		{"chunks&strict=off", `{"type":"progress"}`, nil, 200, []string{`"done":true`}},
		{"events", event, map[string]string{"Content-Type": "application/cloudevents+json"}, 400, []string{`"UNKNOWN_TYPE"`, `did you mean \"text_delta\"?`}},
		{"events&strict=off", event, map[string]string{"Content-Type": "application/cloudevents+json"}, 200, []string{`"stored":1`}},

		{"chunks&dialect=openai", text, nil, 400, []string{`"WRONG_DIALECT"`, "the first line looks like native: leave out ?dialect", `"stored":0`}},
		{"chunks", openai, nil, 400, []string{`"WRONG_DIALECT"`, "the first line looks like openai: add ?dialect=openai", `"nearest":"openai"`}},
		{"chunks&dialect=openai", text, map[string]string{"Tailrace-Strict": "off"}, 200, []string{`"done":true`}},

		{"chunks&dialect=opneai", openai, nil, 400, []string{`there is no dialect \"opneai\"; did you mean openai? ` + dialects, `"nearest":"openai"`, `"want":["native","agui"`}},
		{"/v1/sessions/c1/events?dialect=aisdkk", "", nil, 400, []string{`there is no dialect \"aisdkk\"; did you mean aisdk? want native, agui, aisdk, kortyx, langgraph, mastra or records`, `"nearest":"aisdk"`}},
		{"/v1/sessions/c1/snapshot?dialect=aguy", "", nil, 400, []string{`there is no dialect \"aguy\"; did you mean agui? want native, agui, aisdk, kortyx, langgraph or mastra`}},

		{"chunks", text + text + file, nil, 200, []string{`"stored":3`, `"warnings":[{"line":3,"member":"fileName","nearest":"filename"}]`}},
		{"chunks", end, nil, 200, []string{`"stored":1`, `"warnings":[{"line":1,"member":"toolCallId"}]`}},
		{"chunks", text + `{"type":"text_delta"}`, nil, 400, []string{`"INVALID_LINE"`, `text_delta.delta: want a string; the lines after it were not read`, `"line":2`, `"stored":1`}},

		{"chunks", text + "{\n" + text, nil, 400, []string{`"INVALID_LINE"`, "the lines after it were not read", `"line":2`, `"stored":1`}},
		{"chunks&bogus=1", text, nil, 400, []string{`"UNKNOWN_PARAMETER"`, "want root, epoch, firstLine, dialect, strict"}},
		{"chunks&dialct=openai", text, nil, 400, []string{`there is no parameter \"dialct\"; did you mean dialect?`, `"nearest":"dialect"`, `"want":["root","epoch","firstLine","dialect","strict"]`}},
		{"/v1/sessions?limt=2", "", nil, 400, []string{`"UNKNOWN_PARAMETER"`, `did you mean limit?`, `"want":["agentType"`}},
		{"/v1/sessions/summary?bogus=1", "", nil, 400, []string{`"UNKNOWN_PARAMETER"`, "want agentType, owner, since, until, view"}},
		{"/v1/sessions/c1/messages?Limit=2", "", nil, 400, []string{`"UNKNOWN_PARAMETER"`, `did you mean limit?`}},
	} {
		path, method := tt.path, http.MethodPost
		header := map[string]string{"Content-Type": "application/json"}
		switch {
		case tt.body == "":
			method = http.MethodGet
		case tt.path[0] != '/':
			runs := fmt.Sprintf("/v1/sessions/m%d/runs", i)
			if status, _, body, err := read(t.Context(), method, n.url+runs, `{"runId":"r1"}`, header); status != http.StatusCreated {
				t.Fatal(status, body, err)
			}
			verb, query, _ := strings.Cut(tt.path, "&")
			path = runs + "/r1/" + verb + "?epoch=1&" + query
		}
		maps.Copy(header, tt.header)
		status, _, body, err := read(t.Context(), method, n.url+path, tt.body, header)
		if err != nil || status != tt.status {
			t.Errorf("%s %s: %d %s, %v", path, tt.body, status, body, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s %s: %d %s\nlacks %s", path, tt.body, status, body, want)
			}
		}
	}
}

// A second request without a number is appended, and its response has the number of its first line. In a dialect it says what to send.
func TestFirstMinuteOfASecondRequest(t *testing.T) {
	n := startNewcomer(t)
	const line, chunk = `{"type":"text_delta","delta":"ok"}` + "\n", `{"choices":[{"index":0,"delta":{"content":"x"}}]}`
	for i, tt := range []struct {
		query, body string
		status      int
		want        [2]string // of the first and the second response
		first       string
	}{
		{"", line + line, 200, [2]string{`"stored":2`, `"stored":4`}, "3"},
		{"&dialect=openai", chunk, 409, [2]string{`"done":true`, `send Tailrace-First-Line: 1 to repeat`}, ""},
	} {
		runs := fmt.Sprintf("/v1/sessions/s%d/runs", i)
		if status, _, body, err := read(t.Context(), http.MethodPost, n.url+runs, `{"runId":"r1"}`, nil); status != http.StatusCreated {
			t.Fatal(status, body, err)
		}
		for k, want := range tt.want {
			status, h, body, err := read(t.Context(), http.MethodPost, n.url+runs+"/r1/chunks?epoch=1"+tt.query, tt.body, nil)
			if err != nil || !strings.Contains(body, want) || k == 1 && (status != tt.status || h.Get("Tailrace-First-Line") != tt.first) {
				t.Errorf("request %d %s: %d %v %s, %v", k, tt.query, status, h, body, err)
			}
		}
	}
}
