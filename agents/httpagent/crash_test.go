package httpagent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
)

// responses have a step, the beginning of another one, and a last step, in each dialect but AISDK, see TestWorkerDies. %q is a text. A dialect without steps has first empty.
var responses = map[string]struct{ first, half, last []string }{
	AGUI: {
		first: []string{
			`{"type":"RUN_STARTED","threadId":"s","runId":"r1"}`, `{"type":"STEP_STARTED","stepName":"a"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":%q}`, `{"type":"TEXT_MESSAGE_END","messageId":"m1"}`, `{"type":"STEP_FINISHED","stepName":"a"}`,
		},
		half: []string{`{"type":"STEP_STARTED","stepName":"b"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m2","role":"assistant"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m2","delta":%q}`},
		last: []string{
			`{"type":"RUN_STARTED","threadId":"s","runId":"r1"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m3","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m3","delta":%q}`, `{"type":"TEXT_MESSAGE_END","messageId":"m3"}`, `{"type":"RUN_FINISHED","threadId":"s","runId":"r1"}`,
		},
	},
	Kortyx: {
		half: []string{`{"type":"session","sessionId":"k"}`, `{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":%q}`},
		last: []string{
			`{"type":"session","sessionId":"k"}`, `{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":%q}`, `{"type":"text-end","id":"t"}`, `{"type":"done"}`, `[DONE]`,
		},
	},
	Mastra: {
		first: []string{
			`{"type":"start","runId":"r1","from":"AGENT","payload":{"id":"planner","messageId":"m1"}}`, `{"type":"step-start","runId":"r1","from":"AGENT","payload":{}}`,
			`{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t","text":%q}}`,
			`{"type":"step-finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"tool-calls"},"output":{}}}`,
		},
		half: []string{`{"type":"step-start","runId":"r1","from":"AGENT","payload":{}}`, `{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t","text":%q}}`},
		last: []string{
			`{"type":"start","runId":"r1","from":"AGENT","payload":{"id":"planner","messageId":"m1"}}`, `{"type":"step-start","runId":"r1","from":"AGENT","payload":{}}`,
			`{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t","text":%q}}`,
			`{"type":"step-finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{}}}`,
			`{"type":"finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`, `[DONE]`,
		},
	},
	Native: {
		first: []string{`{"type":"step_start"}`, `{"type":"text_delta","delta":%q}`, `{"type":"step_end"}`},
		half:  []string{`{"type":"step_start"}`, `{"type":"text_delta","delta":%q}`},
		last:  []string{`{"type":"step_start"}`, `{"type":"text_delta","delta":%q}`, `{"type":"step_end"}`, `{"type":"stream_end","streamId":"x"}`},
	},
}

// with returns parts with a text.
func with(parts []string, text string) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = strings.ReplaceAll(p, "%q", fmt.Sprintf("%q", text))
	}
	return out
}

// In each dialect, the endpoint is asked again after the last committed step when the worker dies, or the run ends with a typed error, and then nothing is asked.
func TestWorkerDiesInEachDialect(t *testing.T) {
	for name, r := range responses {
		for _, setting := range []OnCrash{Restart, Fail} {
			t.Run(fmt.Sprintf("%s, %s", name, setting), func(t *testing.T) {
				begun := make(chan struct{})
				w := newEnv(t, func(rw http.ResponseWriter, req *http.Request, p post) {
					if p.n == 1 {
						sse(rw, append(with(r.first, "First. "), with(r.half, "Second, half.")...)...)
						close(begun)
						<-req.Context().Done()
						return
					}
					sse(rw, with(r.last, "Second.")...)
				})
				shape := func(c *Config) { c.Dialect, c.OnCrash = name, setting }
				worker := w.serve(w.agent(shape))
				s := w.ask("Tell me")
				natstest.Receive(t, "the second step", begun)
				w.Await(s, "the second step", func(s fold.Snapshot) bool { return strings.Contains(stack.Conversation(s), "Second") })
				worker.Kill()
				w.serve(w.agent(shape))
				want, steps := "First. Second.", 1
				if r.first == nil {
					want, steps = "Second.", 0
				}
				if setting == Fail {
					w.wantFailure(s, CodeInterrupted)
					if n := len(w.requests()); n != 1 {
						t.Errorf("%d requests, want 1", n)
					}
					return
				}
				w.wantText(s, want)
				again := w.requests()[1]
				w.want(again.header.Get("Idempotency-Key"), fmt.Sprintf("%s/r1/%d", s.ID, steps), "key")
				if strings.Contains(again.body, "half") || strings.Contains(again.body, "First.") != (steps > 0) {
					t.Errorf("second request %s", again.body)
				}
			})
		}
	}
}
