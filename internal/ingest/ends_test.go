package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

// Of two ends of a response the worse one counts, in each dialect and in both orders: the run fails, with the text and the code that the agent has sent.
func TestTheWorseEndCounts(t *testing.T) {
	const failed, code = "stream_failed boom", " X"
	agui := func(events ...string) string {
		return `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n" + strings.Join(events, "\n")
	}
	mastra := func(kinds ...string) (lines string) {
		for _, kind := range kinds {
			lines += map[string]string{
				"start":   `{"type":"start","runId":"r","from":"AGENT","payload":{"id":"a"}}`,
				"call":    `{"type":"tool-call","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"w","args":{}}}`,
				"suspend": `{"type":"tool-call-suspended","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"w","suspendPayload":{}}}`,
				"result":  `{"type":"tool-result","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"w","result":1}}`,
				"error":   `{"type":"error","runId":"r","from":"AGENT","payload":{"error":{"message":"boom","code":"X"}}}`,
				"failed":  `{"type":"finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"error"}}}`,
				"finish":  `{"type":"finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`,
				"abort":   `{"type":"abort","runId":"r","from":"AGENT","payload":{}}`,
			}[kind] + "\n"
		}
		return lines
	}
	const (
		aguiError, aguiEnd     = `{"type":"RUN_ERROR","message":"boom","code":"X"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
		aiStart, aiError       = `{"type":"start"}` + "\n", `{"type":"error","errorText":"boom"}` + "\n"
		aiEnd, aiAbort         = `{"type":"finish"}` + "\n", `{"type":"abort"}` + "\n"
		kortyxError, kortyxEnd = `{"type":"error","message":"boom"}` + "\n", `{"type":"done"}` + "\n"
		openaiEnd              = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}` + "\n"
		claudeStart            = `{"type":"message_start","message":{"id":"m","content":[]}}` + "\n"
		claudeEnd              = `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n" + `{"type":"message_stop"}` + "\n"
		claudeError            = `{"type":"error","error":{"type":"overloaded_error","message":"SECRET"}}` + "\n"
		claudeResult           = `{"type":"result","subtype":"success"}` + "\n"
		claudeTurns            = "error_max_turns"
		nativeText             = `{"type":"text_delta","delta":"x"}` + "\n"
		nativeError, nativeEnd = `{"type":"stream_failed","error":"boom","errorDetail":{"message":"boom","code":"X"}}` + "\n", `{"type":"stream_end"}` + "\n"
	)
	w := newEnv(t, nil)
	n := 0
	for name, tt := range map[string]struct{ dialect, lines, want string }{
		"agui":                {"agui", agui(aguiError, aguiEnd), failed + code},
		"agui, reversed":      {"agui", agui(aguiEnd, aguiError), failed + code},
		"agui, a new run":     {"agui", agui(aguiError) + "\n" + agui(aguiEnd), "stream_end"},
		"aisdk":               {"aisdk", aiStart + aiError + aiEnd, failed + " agent_failed"},
		"aisdk, reversed":     {"aisdk", aiStart + aiEnd + aiError, failed + " agent_failed"},
		"aisdk, abort":        {"aisdk", aiStart + aiError + aiAbort, failed + " agent_failed"},
		"kortyx":              {"kortyx", kortyxError + kortyxEnd, failed},
		"kortyx, reversed":    {"kortyx", kortyxEnd + kortyxError, failed},
		"mastra":              {"mastra", mastra("start", "error", "failed", "finish"), failed + code},
		"mastra, reversed":    {"mastra", mastra("start", "finish", "error"), failed + code},
		"mastra, abort":       {"mastra", mastra("start", "error", "abort"), failed + code},
		"mastra, continues":   {"mastra", mastra("start", "error", "finish"), "stream_end"},
		"mastra, waits":       {"mastra", mastra("start", "call", "suspend", "finish"), "stream_paused"},
		"mastra, answered":    {"mastra", mastra("start", "call", "suspend", "result", "finish"), "stream_end"},
		"mastra, broken wait": {"mastra", mastra("start", "call", "suspend", "failed"), "stream_failed the agent failed without saying why"},
		"openai":              {"openai", openaiEnd + `{"error":{"message":"SECRET","code":503}}`, "stream_failed the model is overloaded provider_overloaded"},
		"openai, an error":    {"openai", strings.Replace(openaiEnd, `"stop"`, `"error"`, 1), "stream_failed the model's provider reported an error provider_unknown"},
		"anthropic":           {"anthropic", claudeStart + claudeError + claudeEnd, "stream_failed the model is overloaded overloaded_error"},
		"anthropic, reversed": {"anthropic", claudeStart + claudeEnd + claudeError, "stream_failed the model is overloaded overloaded_error"},
		"anthropic, retried":  {"anthropic", claudeStart + claudeError + claudeStart + claudeEnd, "stream_end"},
		"anthropic, SDK":      {"anthropic", `{"type":"result","subtype":"` + claudeTurns + `"}` + "\n" + claudeResult, "stream_failed the agent ended with " + claudeTurns + " " + claudeTurns},
		"native":              {"native", nativeText + nativeError + nativeEnd, failed + code},
		"native, reversed":    {"native", nativeText + nativeEnd + "\n" + nativeError, failed + code},
		"native, twice":       {"native", nativeText + nativeEnd + nativeEnd, "stream_end"},
	} {
		for _, media := range []string{"application/x-ndjson", "text/event-stream"} {
			n++
			session, body := fmt.Sprintf("s%d", n), tt.lines
			if media == "text/event-stream" {
				body = "data: " + strings.Join(strings.Split(strings.TrimSpace(tt.lines), "\n"), "\n\ndata: ") + "\n\n"
			}
			w.ask(http.MethodPost, "/v1/sessions/"+session+"/runs", openS1)
			path := "/v1/sessions/" + session + "/runs/r1/chunks?epoch=1&dialect=" + tt.dialect
			for range 2 { // a lost response
				a, err := w.edges[0].send(t.Context(), http.MethodPost, path, media, strings.NewReader(body), "Tailrace-First-Line", "1")
				if err != nil || a.members()["done"] != true {
					t.Errorf("%s: %s %s %v", name, a, a.body, err)
				}
			}
			if got := lastOf(w.Bodies(chunk.RootSession(tenant, session))); got != tt.want {
				t.Errorf("%s: got %s, want %s", name, got, tt.want)
			}
		}
	}
}

// lastOf returns the last record, with the text and the code of a failure.
func lastOf(all []chunk.Body) string {
	last := all[len(all)-1]
	text := string(chunk.Chunk{Body: last}.Type())
	if b, ok := last.(chunk.StreamFailed); ok {
		text += " " + b.Error
		if d := b.ErrorDetail; d != nil && d.Code != nil {
			text += " " + *d.Code
		}
	}
	return text
}

// A stream_end is stored although its body stays open.
func TestAnEndWithAnOpenBody(t *testing.T) {
	w := newEnv(t, func(cfg *envConfig) { cfg.edge.Heartbeat = 50 * time.Millisecond })
	w.open(openS1)
	s := w.stream(chunksS1, "Tailrace-First-Line", "1")
	s.write(`{"type":"text_delta","delta":"one"}`)
	s.write(`{"type":"stream_end"}`)
	s.await("stored 2", func(m map[string]any) bool { return m["stored"] == 2.0 })
	if got := stack.Conversation(w.Snapshot(chunk.RootSession(tenant, "s1"))); !strings.Contains(got, "one") {
		t.Error(got)
	}
	s.body.Close()
	if m := s.await("the end", func(m map[string]any) bool { return m["done"] == true }); m["stored"] != 2.0 {
		t.Errorf("%v", m)
	}
}
