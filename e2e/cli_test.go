//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// `tail` prints what `publish` stores, and `publish` accepts the output of `tail`.
func TestPublishAndTail(t *testing.T) {
	u := newUp(t)
	u.start(t)
	lines := `{"type":"text_delta","agentId":"a1","agentType":"demo","timestamp":1700000000000,"step":1,"delta":"Hel"}
{"type":"text_delta","agentId":"a1","agentType":"demo","timestamp":1700000000001,"step":1,"delta":"lo"}

{"type":"subagent_start","agentId":"a1","agentType":"demo","timestamp":1700000000002,"step":1,"subAgentType":"x","subSessionId":"kid","callId":"c1"}
{"type":"text_delta","agentId":"kid","agentType":"x","timestamp":1700000000003,"step":1,"delta":"child"}
{"type":"custom","agentId":"a1","agentType":"demo","timestamp":1700000000004,"step":1,"eventName":"big","data":{"n":123456789012345678901234567890,"s":"\ud83d"}}
`
	if res := u.tailrace(t, lines, "publish", "--session", "s1"); res.code != 0 {
		t.Fatalf("publish: exit %d: %s", res.code, res.err)
	}
	tail := u.tailrace(t, "", "tail", "s1")
	if tail.code != 0 {
		t.Fatalf("tail: exit %d: %s", tail.code, tail.err)
	}
	for _, want := range []string{`"session":"kid"`, "123456789012345678901234567890", `\ud83d`, `"type":"stream_end"`} {
		if !strings.Contains(tail.out, want) {
			t.Errorf("tail does not print %s:\n%s", want, tail.out)
		}
	}
	if res := u.tailrace(t, tail.out, "publish", "--session", "copy"); res.code != 0 {
		t.Fatalf("publish of what tail printed: exit %d: %s", res.code, res.err)
	}
	alone := u.tailrace(t, "", "tail", "copy", "--scope", "session", "--types", "text_delta")
	if !strings.Contains(alone.out, `Hel`) || strings.Contains(alone.out, "child") {
		t.Errorf("text deltas of the copy:\n%s", alone.out)
	}
}

// An invalid line is reported with its number; --keep-going skips it, and the exit code is still 1.
func TestPublishReportsInvalidLines(t *testing.T) {
	u := newUp(t)
	u.start(t)
	good := `{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"x"}`
	huge := `{"type":"state_patch","agentId":"a","agentType":"t","timestamp":1,"step":0,"patches":[{"op":"add","path":"","value":"` + strings.Repeat("x", 600<<10) + `"}]}` // no large value
	bad := map[string]string{
		"no object":          `[1]`,
		"unknown field type": `{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":7}`,
		"another agent":      `{"type":"text_delta","agentId":"b","agentType":"t","timestamp":1,"step":0,"delta":"x"}`,
		"oversized":          huge,
	}
	n := 0
	for name, line := range bad {
		n++
		input := strings.Join([]string{good, line, good}, "\n")
		stopped := u.tailrace(t, input, "publish", "--session", fmt.Sprintf("stop%d", n))
		if stopped.code == 0 || !strings.Contains(stopped.err, "line 2:") {
			t.Errorf("%s: exit %d: %s", name, stopped.code, stopped.err)
		}
		went := u.tailrace(t, input, "publish", "--keep-going", "--session", fmt.Sprintf("go%d", n))
		if went.code == 0 || !strings.Contains(went.err, "line 2:") {
			t.Errorf("%s, --keep-going: exit %d: %s", name, went.code, went.err)
		}
		tail := u.tailrace(t, "", "tail", fmt.Sprintf("go%d", n), "--keep-open=false", "--types", "text_delta,stream_end", "--after", "0")
		if got := strings.Count(tail.out, "x"); !strings.Contains(tail.out, `"delta":"x`) || got < 2 {
			t.Errorf("%s: the valid lines are not stored:\n%s", name, tail.out)
		}
	}
}

// Every invalid cursor and name gets a specific response, and the process continues.
func TestInvalidRequestsAreAnswered(t *testing.T) {
	u := newUp(t)
	u.start(t)
	line := `{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"x"}`
	for _, s := range []string{"s1", "s2"} {
		if res := u.tailrace(t, line, "publish", "--session", s); res.code != 0 {
			t.Fatal(res.err)
		}
	}
	for path, want := range map[string]int{
		"/v1/sessions/s1/snapshot":                              http.StatusOK,
		"/v1/sessions/unknown/snapshot":                         http.StatusNotFound,
		"/v1/sessions/unknown/events":                           http.StatusNotFound,
		"/v1/sessions/a.b/events":                               http.StatusNotFound,
		"/v1/sessions/a%20b/events":                             http.StatusBadRequest,
		"/v1/sessions/%2A/events":                               http.StatusBadRequest,
		"/v1/sessions/s1/events?after=abc":                      http.StatusBadRequest,
		"/v1/sessions/s1/events?after=-1":                       http.StatusBadRequest,
		"/v1/sessions/s1/events?after=1&after=2":                http.StatusBadRequest,
		"/v1/sessions/" + strings.Repeat("x", 5000) + "/events": http.StatusBadRequest,
		"/healthz": http.StatusOK,
		"/readyz":  http.StatusNotFound, // on the ops listener only
	} {
		status, _, body := get(t, u.url+path)
		if status != want {
			t.Errorf("%.60s: status %d, want %d: %.200s", path, status, want, body)
		}
		if status >= 400 && !json.Valid([]byte(body)) {
			t.Errorf("%.60s: response is not JSON: %.200s", path, body)
		}
	}
	for after, reason := range map[string]string{"99999": "future", lastSequence(t, u, "s2"): "foreign"} {
		status, header, body := get(t, u.url+"/v1/sessions/s1/events?after="+after)
		if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") ||
			!strings.Contains(body, `"type":"truncated"`) || !strings.Contains(body, `"reason":"`+reason+`"`) {
			t.Errorf("after=%s: status %d: %s", after, status, body)
		}
	}
}

func lastSequence(t *testing.T, u *up, session string) string {
	t.Helper()
	res := u.tailrace(t, "", "tail", session)
	lines := strings.Split(strings.TrimSpace(res.out), "\n")
	var rec struct {
		Sequence json.Number `json:"sequence"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rec); err != nil {
		t.Fatal(err)
	}
	return rec.Sequence.String()
}

func get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// A failed start reports its cause and remedy in one line.
func TestStartErrorsNameTheRemedy(t *testing.T) {
	u := newUp(t)
	u.start(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := func() string { return strconv.Itoa(freePort(t)) }
	for name, args := range map[string][]string{
		"HTTP port taken":        {"up", "--data-dir", t.TempDir(), "--nats-port", free(), "--listen", u.listen},
		"NATS port taken":        {"up", "--data-dir", t.TempDir(), "--nats-port", strconv.Itoa(u.natsPort), "--listen", "127.0.0.1:0"},
		"data directory in use":  {"up", "--data-dir", u.dir, "--nats-port", free(), "--listen", "127.0.0.1:0"},
		"data directory is file": {"up", "--data-dir", file, "--nats-port", free(), "--listen", "127.0.0.1:0"},
		"log does not republish": {"edge", "--nats-port", strconv.Itoa(u.natsPort), "--feed", "interest", "--listen", "127.0.0.1:0"},
	} {
		res := u.tailrace(t, "", args...)
		last := strings.TrimSpace(res.err)
		if at := strings.LastIndex(last, "\n"); at >= 0 {
			last = last[at+1:]
		}
		if res.code != 1 || !strings.HasPrefix(last, "tailrace ") || strings.Contains(res.err, "goroutine ") {
			t.Errorf("%s: exit %d, last line %q", name, res.code, last)
		}
	}
}

// SIGTERM ends the process with exit code 0, also with a stream open.
func TestSIGTERMExitsWithZero(t *testing.T) {
	u := newUp(t, "--demo", "1")
	u.start(t)
	session := startDemo(t, u.url, "long")
	tab := followUntil(t, u.url, session, 5)
	if code := u.stop(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, err := io.ReadAll(tab.Body); err == nil {
		t.Error("the open stream ended cleanly, want an abort: the response was not complete")
	}
	_ = tab.Body.Close()
}
