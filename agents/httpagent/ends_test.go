package httpagent

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/projector/fold"
)

// Of two ends of an answer the worse one counts, and users get the text and the code of the agent. An answer without an event is not valid.
func TestTheWorseEndCounts(t *testing.T) {
	const (
		boom  = `{"type":"RUN_ERROR","message":"boom","code":"X"}`
		agui  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n" + `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}` + "\n" + `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"A"}`
		over  = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
		part  = `{"type":"text_delta","delta":"Part"}`
		wrong = `{"type":"stream_failed","error":"boom"}`
		coded = `{"type":"stream_failed","error":"boom","errorDetail":{"message":"boom","code":"X"}}`
		right = `{"type":"stream_end"}`
		call  = `{"type":"tool-call","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"w","args":{"q":1}}}`
		waits = `{"type":"tool-call-suspended","runId":"r","from":"AGENT","payload":{"toolCallId":"c1","toolName":"w","suspendPayload":{"ask":"size?"}}}`
		stops = `{"type":"finish","runId":"r","from":"AGENT","payload":{"stepResult":{"reason":"tool-calls"}}}`
	)
	for name, tt := range map[string]struct {
		dialect, body string
		want          string // code and text of a failure
	}{
		"agui":              {AGUI, agui + "\n" + boom + "\n" + over, "X boom"},
		"agui, reversed":    {AGUI, agui + "\n" + over + "\n" + boom, "X boom"},
		"native":            {Native, part + "\n" + wrong + "\n" + right, CodeFailed + " boom"},
		"native, reversed":  {Native, part + "\n" + right + "\n" + coded, "X boom"},
		"native, no end id": {Native, part + "\n" + right, ""},
		"aisdk, abort":      {AISDK, `{"type":"start"}` + "\n" + `{"type":"error","errorText":"boom"}` + "\n" + `{"type":"abort"}`, CodeFailed + " boom"},
		"mastra, suspended": {Mastra, call + "\n" + waits + "\n" + stops, "waits"},
		"nothing":           {AISDK, "", CodeInvalid + " " + userMessages[CodeInvalid]},
		"only [DONE]":       {AGUI, "[DONE]", CodeInvalid + " " + userMessages[CodeInvalid]},
		"empty events":      {Native, "\n" + part + "\n\n" + right, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) {
				if tt.body == "" {
					rw.Header().Set("Content-Type", "text/event-stream")
					return
				}
				sse(rw, strings.Split(tt.body, "\n")...)
			})
			w.serve(w.agent(func(c *Config) { c.Dialect = tt.dialect }))
			s := w.ask("Well?")
			switch tt.want {
			case "":
				w.AwaitStatus(s, fold.Ended)
			case "waits":
				w.AwaitStatus(s, fold.Paused)
			default:
				code, message, _ := strings.Cut(tt.want, " ")
				w.want(w.wantFailure(s, code).Message, message, "message")
			}
			if n := len(w.requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}
