package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	heap "runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/revocation"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
)

const openS1 = `{"runId":"r1","agentType":"support"}`

// open opens a run of session s1.
func (w *env) open(body string) answer {
	w.t.Helper()
	a := w.ask(http.MethodPost, "/v1/sessions/s1/runs", body)
	if a.status != http.StatusCreated {
		w.t.Fatalf("open: %s %s", a, a.body)
	}
	return a
}

const chunksS1 = "/v1/sessions/s1/runs/r1/chunks?epoch=1"

// A writer of an older run gets the epoch of the newer one.
func TestFencing(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	w.append(chunksS1, `{"type":"text_delta","delta":"one"}`)
	w.open(`{"runId":"r2","takeOver":true}`)
	for name, a := range map[string]answer{
		"append": w.append(chunksS1, `{"type":"text_delta","delta":"two"}`, "Tailrace-First-Line", "2"),
		"end":    w.ask(http.MethodPost, "/v1/sessions/s1/runs/r1/end?epoch=1", ""),
		"state":  w.ask(http.MethodGet, "/v1/sessions/s1/runs/r1?epoch=1", ""),
	} {
		if a.String() != "409 FENCED" || a.number("epoch") != 2 || a.text("runId") != "r2" {
			t.Errorf("%s: %s %s", name, a, a.body)
		}
	}
	if a := w.append("/v1/sessions/s1/runs/r2/chunks?epoch=2", `{"type":"text_delta","delta":"three"}`); a.number("stored") != 1 {
		t.Errorf("the newer run: %s %s", a, a.body)
	}
	if a := w.append("/v1/sessions/s1/runs/r1/chunks?epoch=2", `{"type":"text_delta","delta":"x"}`); a.String() != "404 NO_RUN" {
		t.Errorf("another run id: %s %s", a, a.body)
	}
	for _, path := range []string{"/v1/sessions/s1/runs/r3/chunks?epoch=9", "/v1/sessions/s9/runs/r1/chunks?epoch=1"} {
		if a := w.append(path, `{"type":"text_delta","delta":"x"}`); a.String() != "404 NO_RUN" {
			t.Errorf("%s: %s %s", path, a, a.body)
		}
	}
}

// A writer that is taken over in the middle of a body ends with the epoch of the winner.
func TestFencedWhileReading(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	s := w.stream(chunksS1)
	s.write(`{"type":"text_delta","delta":"one"}`)
	s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
	w.open(`{"runId":"r2","takeOver":true}`)
	s.write(`{"type":"text_delta","delta":"two"}`)
	if m := s.await("the end", func(m map[string]any) bool { return m["error"] != nil }); m["code"] != codeFenced || m["epoch"] != 2.0 || m["stored"] != 1.0 {
		t.Errorf("%v", m)
	}
}

// upload is a request whose body is written while its response is read.
type upload struct {
	t      testing.TB
	body   *io.PipeWriter
	lines  *bufio.Scanner
	cancel context.CancelFunc
	resp   chan *http.Response
}

// stream opens an upload.
func (w *env) stream(path string, header ...string) *upload {
	w.t.Helper()
	return w.streamWith(http.DefaultClient, path, header...)
}

func (w *env) streamWith(client *http.Client, path string, header ...string) *upload {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	in, out := io.Pipe()
	w.t.Cleanup(func() { _ = out.Close() })
	u := &upload{t: w.t, body: out, cancel: cancel, resp: make(chan *http.Response, 1)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.edges[0].url+path, in)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	go func() {
		resp, err := client.Do(req) //nolint:bodyclose // await closes it
		if err != nil {
			_ = in.CloseWithError(err)
			close(u.resp)
			return
		}
		u.resp <- resp
	}()
	return u
}

func (u *upload) write(line string) {
	u.t.Helper()
	if _, err := io.WriteString(u.body, line+"\n"); err != nil {
		u.t.Fatal(err)
	}
}

// await reads the response until ok accepts a line.
func (u *upload) await(what string, ok func(map[string]any) bool) map[string]any {
	u.t.Helper()
	if u.lines == nil {
		resp := <-u.resp
		if resp == nil {
			u.t.Fatalf("%s: no response", what)
		}
		u.t.Cleanup(func() { _ = resp.Body.Close() })
		u.lines = bufio.NewScanner(resp.Body)
	}
	for u.lines.Scan() {
		var m map[string]any
		if err := json.Unmarshal(u.lines.Bytes(), &m); err != nil {
			u.t.Fatal(err)
		}
		if ok(m) {
			return m
		}
	}
	u.t.Fatalf("%s: the response ended: %v", what, u.lines.Err())
	return nil
}

// The client learns what is stored while its body is open, and heartbeats come while it is silent.
func TestProgressWhileTheBodyIsOpen(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edge.Heartbeat = 50 * time.Millisecond })
	w.open(openS1)
	s := w.stream(chunksS1)
	for i := 1; i <= 3; i++ {
		s.write(fmt.Sprintf(`{"type":"text_delta","delta":"%d"}`, i))
		m := s.await("progress", func(m map[string]any) bool { return m["stored"] == float64(i) })
		if m["position"] == "" || m["done"] != nil {
			t.Errorf("%v", m)
		}
	}
	s.await("a heartbeat", func(m map[string]any) bool { return len(m) == 0 })
	s.body.Close()
	if m := s.await("the end", func(m map[string]any) bool { return m["done"] == true }); m["stored"] != 3.0 || m["next"] != 4.0 {
		t.Errorf("%v", m)
	}
}

// An edge that stops stores what it has read, and the response has it.
func TestDrain(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	s := w.stream(chunksS1)
	s.write(`{"type":"text_delta","delta":"one"}`)
	s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
	if err := w.edges[0].server.surface.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := s.await("the end", func(m map[string]any) bool { return m["error"] != nil }); m["code"] != "DRAINING" || m["stored"] != 1.0 {
		t.Errorf("%v", m)
	}
	if a := w.append(chunksS1, `{"type":"text_delta","delta":"two"}`, "Tailrace-First-Line", "2"); a.String() != "503 DRAINING" {
		t.Errorf("later: %s %s", a, a.body)
	}
}

// A later request of the run ends the one that is open, and continues behind it.
func TestSuperseded(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	s := w.stream(chunksS1)
	s.write(`{"type":"text_delta","delta":"one"}`)
	s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
	if a := w.append(chunksS1, "{\"type\":\"text_delta\",\"delta\":\"one\"}\n{\"type\":\"text_delta\",\"delta\":\"two\"}", "Tailrace-First-Line", "1"); a.number("stored") != 2 {
		t.Errorf("later: %s %s", a, a.body)
	}
	if m := s.await("the end", func(m map[string]any) bool { return m["error"] != nil }); m["code"] != codeSuperseded {
		t.Errorf("%v", m)
	}
	if got := w.lines(chunk.RootSession(tenant, "s1")); strings.Count(got, "one") != 1 || strings.Count(got, "two") != 1 {
		t.Error(got)
	}
}

// A credential that expires or is revoked ends the request after what was read is stored.
func TestCredentialsEndRequests(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	grant := auth.Grant{Tenant: tenant, Subject: "agent", TokenID: "t1", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}
	w := newEnv(t, func(cfg *envConfig) { cfg.edge.Authenticator, cfg.edge.Revocations = issuer, issuer.Revocations })
	token := func(lifetime time.Duration) string { return "Bearer " + issuer.Token(grant, lifetime, nil) }
	if a := w.ask(http.MethodPost, "/v1/sessions/s1/runs", openS1, "Authorization", token(time.Hour)); a.status != http.StatusCreated {
		t.Fatal(a, a.body)
	}
	s := w.stream(chunksS1, "Authorization", token(time.Hour))
	s.write(`{"type":"text_delta","delta":"one"}`)
	s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
	issuer.Revocations.Apply(revocation.Revocation{Tenant: tenant, TokenID: "t1", At: time.Now(), Until: time.Now().Add(time.Hour)})
	w.edges[0].server.surface.Streams.CloseRevoked()
	if m := s.await("the end", func(m map[string]any) bool { return m["error"] != nil }); m["code"] != codeRevoked || m["stored"] != 1.0 {
		t.Errorf("%v", m)
	}
}

// Lines are refused with their number, and those before them are stored.
func TestHostileLines(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.MaxLine = 64 << 10; cfg.producer.MaxChunk = 4 << 10 })
	good := `{"type":"text_delta","delta":"ok"}` + "\n"
	for name, tt := range map[string]struct{ line, want string }{
		"no JSON":                {`{`, "400 INVALID_LINE"},
		"a list":                 {`[]`, "400 INVALID_LINE"},
		"no type":                {`{}`, "400 INVALID_LINE"},
		"no UTF-8":               {"{\"type\":\"text_delta\",\"delta\":\"\xff\"}", "400 INVALID_LINE"},
		"twice":                  {`{"type":"text_delta","delta":"x","delta":"y"}`, "400 INVALID_LINE"},
		"a wrong member":         {`{"type":"text_delta","delta":5}`, "400 INVALID_LINE"},
		"nested":                 {`{"type":"custom","eventName":"x","data":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "400 INVALID_LINE"},
		"deeply nested":          {strings.Repeat(`{"a":`, 10_000), "400 INVALID_LINE"},
		"another agent":          {`{"type":"text_delta","delta":"x","agentId":"s2"}`, "400 INVALID_LINE"},
		"a subject":              {`{"type":"text_delta","delta":"x","agentId":"a.>"}`, "400 INVALID_LINE"},
		"a number as agent":      {`{"type":"text_delta","delta":"x","agentId":5}`, "400 INVALID_LINE"},
		"a run":                  {`{"type":"run_started","runId":"r","epoch":1,"mode":"execute","input":[]}`, "400 INVALID_LINE"},
		"a cleanup":              {`{"type":"truncated","truncatedAtStep":1,"minSequence":0,"fromSequence":1,"atSequence":1,"removed":[]}`, "400 INVALID_LINE"},
		"itself as sub-agent":    {`{"type":"subagent_start","subAgentType":"a","subSessionId":"SESSION","callId":"c"}`, "400 INVALID_LINE"},
		"a subject as sub-agent": {`{"type":"subagent_start","subAgentType":"a","subSessionId":"a b","callId":"c"}`, "400 INVALID_LINE"},
		"too large":              {`{"type":"text_delta","delta":"` + strings.Repeat("x", 128<<10) + `"}`, "413 LINE_TOO_LARGE"},
		"too large for the log":  {`{"type":"custom","eventName":"x","data":"` + strings.Repeat("x", 8<<10) + `"}`, "413 LINE_TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			session := strings.ReplaceAll(name, " ", "-")
			if a := w.ask(http.MethodPost, "/v1/sessions/"+session+"/runs", openS1); a.status != http.StatusCreated {
				t.Fatal(a, a.body)
			}
			line := strings.ReplaceAll(tt.line, "SESSION", session)
			a := w.append("/v1/sessions/"+session+"/runs/r1/chunks?epoch=1", good+line+"\n"+good)
			if a.String() != tt.want || a.number("line") != 2 || a.number("stored") != 1 {
				t.Errorf("%s %s", a, a.body)
			}
			if n := strings.Count(w.lines(chunk.RootSession(tenant, session)), "\n"); n != 2 {
				t.Errorf("%d records, want 2", n)
			}
		})
	}
}

func TestHostileRequests(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	for name, tt := range map[string]struct {
		method, path, media, body string
		want                      string
	}{
		"no epoch":             {http.MethodPost, "/v1/sessions/s1/runs/r1/chunks", "application/x-ndjson", "", "400 VALIDATION_ERROR"},
		"epoch 0":              {http.MethodPost, "/v1/sessions/s1/runs/r1/chunks?epoch=0", "application/x-ndjson", "", "400 VALIDATION_ERROR"},
		"no media type":        {http.MethodPost, chunksS1, "", "", "415 UNSUPPORTED_MEDIA_TYPE"},
		"another charset":      {http.MethodPost, chunksS1, "application/x-ndjson; charset=utf-16", "", "415 UNSUPPORTED_MEDIA_TYPE"},
		"another dialect":      {http.MethodPost, chunksS1 + "&dialect=morse", "application/x-ndjson", "", "400 VALIDATION_ERROR"},
		"line 0":               {http.MethodPost, chunksS1 + "&firstLine=0", "application/x-ndjson", "", "400 VALIDATION_ERROR"},
		"a subject as session": {http.MethodPost, "/v1/sessions/a%20b/runs", "application/json", openS1, "400 VALIDATION_ERROR"},
		"a subject as run":     {http.MethodGet, "/v1/sessions/s1/runs/a.b", "", "", "400 VALIDATION_ERROR"},
		"an escaped slash":     {http.MethodGet, "/v1/sessions/s1/runs/a%2Fb", "", "", "400 VALIDATION_ERROR"},
		"a subject as root":    {http.MethodGet, "/v1/sessions/s1/runs/r1?root=a%20b", "", "", "400 VALIDATION_ERROR"},
		"a bad run id":         {http.MethodPost, "/v1/sessions/s2/runs", "application/json", `{"runId":"a b"}`, "400 VALIDATION_ERROR"},
		"a bad input":          {http.MethodPost, "/v1/sessions/s2/runs", "application/json", `{"input":[{"content":5}]}`, "400 VALIDATION_ERROR"},
		"no JSON":              {http.MethodPost, "/v1/sessions/s2/runs", "application/json", `{`, "400 VALIDATION_ERROR"},
		"no failure":           {http.MethodPost, "/v1/sessions/s1/runs/r1/cleanup?epoch=1", "application/json", `{}`, "400 VALIDATION_ERROR"},
		"another method":       {http.MethodPut, "/v1/sessions/s1/runs/r1", "", "", "405 METHOD_NOT_ALLOWED"},
	} {
		a, err := w.edges[0].send(t.Context(), tt.method, tt.path, tt.media, strings.NewReader(tt.body))
		if err != nil || a.String() != tt.want {
			t.Errorf("%s: %s %s, %v, want %s", name, a, a.body, err, tt.want)
		}
	}
}

// The state can be changed again and again, also after a pause and a cleanup.
func TestStates(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	change := func(path, body, want string) answer {
		t.Helper()
		a := w.ask(http.MethodPost, "/v1/sessions/s1/runs/r1/"+path+"?epoch=1", body)
		if got := a.text("status"); a.status == http.StatusOK && got != want || a.status != http.StatusOK && a.String() != want {
			t.Errorf("%s: %s %s, want %s", path, a, a.body, want)
		}
		return a
	}
	w.append(chunksS1, "{\"type\":\"step_start\"}\n{\"type\":\"text_delta\",\"delta\":\"a\"}\n{\"type\":\"step_start\"}\n{\"type\":\"text_delta\",\"delta\":\"b\"}\n")
	if a := change("cleanup", `{"step":1}`, "active"); a.number("removed") != 2 || a.number("stored") != 4 {
		t.Errorf("cleanup: %s", a.body)
	}
	if a := change("cleanup", `{"step":1}`, "active"); a.number("removed") != 0 {
		t.Errorf("cleanup again: %s", a.body)
	}
	for range 2 {
		if a := change("pause", `{"reason":"tool"}`, "paused"); a.number("stored") != 4 {
			t.Errorf("pause: %s", a.body)
		}
	}
	if a := w.append(chunksS1, `{"type":"text_delta","delta":"c"}`, "Tailrace-First-Line", "5"); a.String() != "409 RUN_PAUSED" || a.number("line") != 5 {
		t.Errorf("paused: %s %s", a, a.body)
	}
	if a := w.append(chunksS1, "{\"type\":\"stream_active\"}\n{\"type\":\"text_delta\",\"delta\":\"c\"}\n", "Tailrace-First-Line", "5"); a.number("stored") != 6 {
		t.Errorf("active: %s %s", a, a.body)
	}
	for range 2 {
		change("fail", `{"error":"late","errorDetail":{"code":"x","message":"y"}}`, "failed")
	}
	change("end", ``, "409 RUN_ENDED")
	change("pause", ``, "409 RUN_ENDED")
	if again := w.append(chunksS1, strings.Repeat("\n", 4)+"{\"type\":\"stream_active\"}\n{\"type\":\"text_delta\",\"delta\":\"c\"}\n"); again.number("stored") != 6 {
		t.Errorf("the same lines: %s %s", again, again.body)
	}
}

// What ends a run ends the sub-agents that its lines have started, also those of earlier requests, with the outcome of the run.
func TestSubAgentsEndWithTheRun(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*env, string) answer
		want string // last records of the sub-agents and of the run
	}{
		"end": {func(w *env, path string) answer { return w.ask(http.MethodPost, path+"/end?epoch=1", "") }, "s1-a stream_end, s1-b stream_end, s1-c subagent_end, s1 stream_end"},
		"fail": {func(w *env, path string) answer {
			return w.ask(http.MethodPost, path+"/fail?epoch=1", `{"error":"it broke","errorDetail":{"code":"x","message":"it broke"}}`)
		}, "s1-a stream_failed it broke, s1-b stream_failed it broke, s1-c subagent_end, s1 stream_failed it broke"},
		"stream_end": {func(w *env, path string) answer {
			return w.append(path+"/chunks?epoch=1", `{"type":"stream_end"}`, "Tailrace-First-Line", "9")
		}, "s1-a stream_end, s1-b stream_end, s1-c subagent_end, s1 stream_end"},
		"stream_failed": {func(w *env, path string) answer {
			return w.append(path+"/chunks?epoch=1", `{"type":"stream_failed","error":"it broke"}`, "Tailrace-First-Line", "9")
		}, "s1-a stream_failed it broke, s1-b stream_failed it broke, s1-c subagent_end, s1 stream_failed it broke"},
		"cleanup": {func(w *env, path string) answer { return w.ask(http.MethodPost, path+"/cleanup?epoch=1", `{"step":1}`) },
			"s1-a stream_failed the run was cleaned up, s1-b stream_failed the run was cleaned up, s1-c subagent_end, s1 truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(cfg *envConfig) { cfg.edges = 2 })
			w.open(openS1)
			start := func(parent, id string) string {
				return fmt.Sprintf(`{"type":"subagent_start","agentId":%q,"subAgentType":"sub","subSessionId":%q,"callId":"c"}`, parent, id)
			}
			text := func(id string) string { return fmt.Sprintf(`{"type":"text_delta","agentId":%q,"delta":"x"}`, id) }
			lines := []string{
				`{"type":"step_start"}`, `{"type":"step_start"}`, start("s1", "s1-a"), start("s1-a", "s1-b"), text("s1-b"), start("s1", "s1-c"), text("s1-c"),
				`{"type":"subagent_end","subAgentType":"sub","subSessionId":"s1-c","callId":"c","result":1}`,
			}
			if a := w.append(chunksS1, strings.Join(lines, "\n")); a.number("stored") != 8 {
				t.Fatalf("%s %s", a, a.body)
			}
			w.edges[0] = w.edges[1] // has no writer of the run
			for range 2 {           // repeating it has no further effect
				if a := tt.end(w, "/v1/sessions/s1/runs/r1"); a.status != http.StatusOK {
					t.Fatalf("%s %s", a, a.body)
				}
			}
			var last []string
			for _, id := range []string{"s1-a", "s1-b", "s1-c", "s1"} {
				all := w.Bodies(chunk.RootSession(tenant, "s1").Child(id))
				ends := 0
				for _, b := range all {
					if (chunk.Chunk{Body: b}).Type().Terminal() {
						ends++
					}
				}
				if ends > 1 {
					t.Errorf("%s ends %d times", id, ends)
				}
				end := all[len(all)-1]
				if id == "s1-c" {
					end = chunk.SubagentEnd{} // was ended by its line
				}
				outcome := id + " " + string(chunk.Chunk{Body: end}.Type())
				if failed, ok := end.(chunk.StreamFailed); ok {
					outcome += " " + failed.Error
				}
				last = append(last, outcome)
			}
			if got := strings.Join(last, ", "); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A response in another dialect is translated from its first line each time, and what is stored is skipped, also when the run waits between two responses.
func TestTranslatedResponses(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	const path = chunksS1 + "&dialect=mastra"
	lines := []string{
		`{"type":"start","runId":"m","from":"AGENT","payload":{"id":"support"}}`,
		`{"type":"step-start","runId":"m","from":"AGENT","payload":{}}`,
		`{"type":"text-delta","runId":"m","from":"AGENT","payload":{"id":"1","text":"It is "}}`,
		`{"type":"text-delta","runId":"m","from":"AGENT","payload":{"id":"1","text":"in Oslo."}}`,
		`{"type":"finish","runId":"m","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`,
	}
	sse := func(lines []string) string {
		return ": hello\n\ndata: " + strings.Join(lines, "\n\ndata: ") + "\n\n"
	}
	// The request is cut behind the third line.
	body := &cutBody{in: strings.NewReader(sse(lines)), left: len(sse(lines[:3])) + 10}
	if a, err := w.edges[0].send(t.Context(), http.MethodPost, path, "text/event-stream", body); err == nil {
		t.Fatalf("not cut: %s", a.body)
	}
	natstest.Eventually(t, "three lines", func(context.Context) error {
		if a := w.ask(http.MethodGet, "/v1/sessions/s1/runs/r1", ""); a.number("stored") != 3 || a.number("next") != 1 {
			return errors.New(a.body)
		}
		return nil
	})
	if a, err := w.edges[0].send(t.Context(), http.MethodPost, path, "text/event-stream", strings.NewReader(sse(lines[3:])), "Tailrace-First-Line", "4"); err != nil || a.String() != "409 WRONG_FIRST_LINE" || a.number("line") != 1 {
		t.Errorf("from the middle: %s %s %v", a, a.body, err)
	}
	if a, err := w.edges[0].send(t.Context(), http.MethodPost, path, "text/event-stream", strings.NewReader(sse(lines)), "Tailrace-First-Line", "1"); err != nil || a.number("stored") != 6 {
		t.Errorf("again: %s %s %v", a, a.body, err)
	}
	got := w.lines(chunk.RootSession(tenant, "s1"))
	if strings.Count(got, "It is ") != 1 || strings.Count(got, "in Oslo.") != 1 || strings.Count(got, "stream_end") != 1 || strings.Count(got, "step_start") != 1 {
		t.Error(got)
	}
}

// An acknowledgement that is lost is found in the log.
func TestLostAcknowledgements(t *testing.T) {
	w := newEnv(t, nil)
	w.open(openS1)
	// The writer of a request is closed with a record in flight: what it stored is found by the next one.
	for i := 1; i <= 20; i++ {
		var body strings.Builder
		for n := range 50 {
			fmt.Fprintf(&body, "{\"type\":\"custom\",\"eventName\":\"e%d\",\"data\":1}\n", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		in := &cutBody{in: strings.NewReader(body.String()), left: body.Len(), pause: nil}
		cut := &cancelling{in: in, left: i * 40, cancel: cancel}
		_, _ = w.edges[0].send(ctx, http.MethodPost, chunksS1, "application/x-ndjson", cut, "Tailrace-First-Line", "1")
		cancel()
	}
	var body strings.Builder
	for n := range 50 {
		fmt.Fprintf(&body, "{\"type\":\"custom\",\"eventName\":\"e%d\",\"data\":1}\n", n)
	}
	natstest.Eventually(t, "all lines are stored", func(context.Context) error { // a request that was cancelled may arrive after this one
		if a := w.append(chunksS1, body.String(), "Tailrace-First-Line", "1"); a.members()["done"] != true || a.number("stored") != 50 {
			return errors.New(a.body)
		}
		return nil
	})
	all := w.Bodies(chunk.RootSession(tenant, "s1"))
	for n, b := range all[1:] {
		if b.(chunk.Custom).EventName != fmt.Sprintf("e%d", n) {
			t.Fatalf("record %d is %v", n, b)
		}
	}
	if len(all) != 51 {
		t.Errorf("%d records", len(all))
	}
}

// cancelling cancels its request after some bytes.
type cancelling struct {
	in     io.Reader
	left   int
	cancel func()
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.cancel()
		return 0, errCut
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// generated is a body of many lines that is not in memory. It counts what was read.
type generated struct {
	lines, next int
	rest        []byte
	read        atomic.Int64
}

func (g *generated) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		if g.next == g.lines {
			return 0, io.EOF
		}
		g.next++
		g.rest = fmt.Appendf(g.rest[:0], "{\"type\":\"text_delta\",\"delta\":\"%0300d\"}\n", g.next)
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	g.read.Add(int64(n))
	return n, nil
}

// A body of 100,000 lines takes no more memory than a short one.
func TestMemoryOfALongBody(t *testing.T) {
	// The server has a process of its own, because it keeps blocks of its files in memory.
	w := newEnv(t, func(cfg *envConfig) { cfg.on, cfg.producer = natstest.StartProcess(t), producers.Config{MaxQueue: 64} })
	w.open(openS1)
	var highest atomic.Uint64
	measure := func() uint64 {
		runtime.GC()
		live := []heap.Sample{{Name: "/gc/heap/live:bytes"}} // without what was allocated and dropped since
		heap.Read(live)
		return live[0].Value.Uint64()
	}
	var before uint64
	body := &generated{lines: 100_000}
	measured := &measuring{in: body, every: 2 << 20, f: func() {
		if now := measure(); before == 0 {
			before = now // behind the first 8,000 lines
		} else {
			highest.Store(max(highest.Load(), now))
		}
	}}
	a, err := w.edges[0].send(t.Context(), http.MethodPost, chunksS1, "application/x-ndjson", measured)
	if err != nil || a.number("stored") != 100_000 {
		t.Fatalf("%s %.300s %v", a, a.body, err)
	}
	if grown := int64(highest.Load()) - int64(before); grown > 16<<20 {
		t.Errorf("the heap has grown from %d by %d bytes for a body of %d", before, grown, body.read.Load())
	}
}

// measuring calls f after some bytes.
type measuring struct {
	in          io.Reader
	every, size int
	f           func()
}

func (m *measuring) Read(p []byte) (int, error) {
	n, err := m.in.Read(p)
	if m.size += n; m.size >= m.every {
		m.size = 0
		m.f()
	}
	return n, err
}

// While the log accepts nothing, the edge stops reading, and continues when the log does.
func TestSlowLog(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.producer = producers.Config{MaxQueue: 16, Pace: producers.Off} })
	w.open(openS1)
	stream := must(w.JS.Stream(t.Context(), "TR_CHUNKS_0"))(t)
	info := stream.CachedInfo().Config
	sealed := info
	sealed.Subjects = []string{"elsewhere.>"}
	must(w.JS.UpdateStream(t.Context(), sealed))(t)
	body := &generated{lines: 20_000}
	done := make(chan answer, 1)
	go func() {
		a, err := w.edges[0].send(t.Context(), http.MethodPost, chunksS1, "application/x-ndjson", body)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	var last int64
	natstest.Eventually(t, "the body is not read any more", func(context.Context) error {
		n := body.read.Load()
		defer func() { last = n }()
		if n == 0 || n != last {
			return fmt.Errorf("%d bytes were read", n)
		}
		return nil
	})
	must(w.JS.UpdateStream(t.Context(), info))(t)
	if a := <-done; a.number("stored") != 20_000 {
		t.Errorf("%s %.300s", a, a.body)
	}
}

// A server bounds the time of a body, and HTTP/2 has streams of its own; neither ends a body that is open for long, in which nothing is sent.
func TestLongBodiesOnAServer(t *testing.T) {
	const bodyTimeout = 100 * time.Millisecond
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", major), func(t *testing.T) {
			w := newEnv(t, func(cfg *envConfig) { cfg.edge.Heartbeat = bodyTimeout })
			site := httptest.NewUnstartedServer(nil)
			site.Config = httpkit.NewServer(httpkit.ServerConfig{BodyTimeout: bodyTimeout, H2C: true}, w.edges[0].edge)
			site.Start()
			defer site.Close()
			w.edges[0].url = site.URL
			w.open(openS1)
			protocols := new(http.Protocols)
			protocols.SetHTTP1(major == 1)
			protocols.SetUnencryptedHTTP2(major == 2)
			client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
			defer client.CloseIdleConnections()
			s := w.streamWith(client, chunksS1)
			s.write(`{"type":"text_delta","delta":"one"}`)
			s.await("stored 1", func(m map[string]any) bool { return m["stored"] == 1.0 })
			for range 3 {
				s.await("a heartbeat", func(m map[string]any) bool { return len(m) == 0 })
			}
			s.write(`{"type":"text_delta","delta":"two"}`)
			s.await("stored 2", func(m map[string]any) bool { return m["stored"] == 2.0 })
			s.write(`{"type":"text_delta"}`)
			if m := s.await("the end", func(m map[string]any) bool { return m["error"] != nil }); m["code"] != codeLine || m["line"] != 3.0 {
				t.Errorf("%v", m)
			}
			s.body.Close()
			// The connection serves other requests.
			if a := w.append(chunksS1, `{"type":"text_delta","delta":"three"}`, "Tailrace-First-Line", "3"); a.number("stored") != 3 {
				t.Errorf("%s %s", a, a.body)
			}
		})
	}
}

// A client with sessions of its own starts one, and cannot write those of others.
func TestOwnSessions(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	w := newEnv(t, func(cfg *envConfig) { cfg.edge.Authenticator = issuer })
	as := func(subject string) string {
		return "Bearer " + issuer.Token(auth.Grant{Tenant: tenant, Subject: subject, Scopes: auth.ScopeIngest, Sessions: auth.Sessions{Own: true}}, time.Hour, nil)
	}
	if a := w.ask(http.MethodPost, "/v1/sessions/s1/runs", openS1, "Authorization", as("ann")); a.String() != "201" {
		t.Errorf("ann opens: %s %s", a, a.body)
	}
	if a := w.ask(http.MethodPost, "/v1/sessions/s1/runs", openS1, "Authorization", as("bob")); a.String() != "404 NO_RUN" {
		t.Errorf("bob opens: %s %s", a, a.body)
	}
	for subject, want := range map[string]string{"ann": "200", "bob": "404 NO_RUN"} {
		if a := w.append(chunksS1, `{"type":"text_delta","delta":"x"}`, "Authorization", as(subject)); a.String() != want {
			t.Errorf("%s appends: %s %s", subject, a, a.body)
		}
		if a := w.ask(http.MethodGet, "/v1/sessions/s1/runs/r1", "", "Authorization", as(subject)); a.String() != want {
			t.Errorf("%s asks: %s %s", subject, a, a.body)
		}
	}
	if a := w.ask(http.MethodPost, "/v1/sessions/s1/runs", `{"runId":"r2","takeOver":true}`, "Authorization", as("ann")); a.String() != "201" {
		t.Errorf("ann takes over: %s %s", a, a.body)
	}
	if owner := w.Snapshot(chunk.RootSession(tenant, "s1")).Owner; owner == nil || owner.Subject != "ann" {
		t.Errorf("owner %v", owner)
	}
}
