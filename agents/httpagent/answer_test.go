package httpagent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
)

// posted returns the messages of a request in a short form: role, id, and the parts without their input.
func posted(t *testing.T, p post) string {
	t.Helper()
	var body struct {
		Trigger   string `json:"trigger"`
		MessageID string `json:"messageId"`
		Messages  []struct {
			ID    string `json:"id"`
			Role  string `json:"role"`
			Parts []struct {
				Type       string          `json:"type"`
				Text       string          `json:"text"`
				ToolCallID string          `json:"toolCallId"`
				State      string          `json:"state"`
				ErrorText  string          `json:"errorText"`
				Output     json.RawMessage `json:"output"`
				Approval   json.RawMessage `json:"approval"`
			} `json:"parts"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(p.body), &body); err != nil {
		t.Fatalf("%s: %v", p.body, err)
	}
	out := fmt.Sprintf("%s %s", body.Trigger, body.MessageID)
	for _, m := range body.Messages {
		out += fmt.Sprintf("\n%s %s:", m.Role, m.ID)
		for _, p := range m.Parts {
			if p.ToolCallID == "" {
				p.State = "" // of a text
			}
			out += fmt.Sprintf(" [%s]", strings.Join(strings.Fields(strings.Join([]string{p.Type, p.Text, p.ToolCallID, p.State, p.ErrorText, string(p.Output), string(p.Approval)}, " ")), " "))
		}
	}
	return out
}

// A run is one request with the history. Each step of the response is committed, and a later turn has the steps in its history.
func TestAnswer(t *testing.T) {
	steps := [][]string{
		{
			`{"type":"start-step"}`, `{"type":"reasoning-start","id":"r"}`, `{"type":"reasoning-delta","id":"r","delta":"Hm."}`, `{"type":"reasoning-end","id":"r"}`,
			`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Let me see. "}`, `{"type":"text-end","id":"t"}`,
			`{"type":"tool-input-start","toolCallId":"c1","toolName":"weather"}`, `{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"{\"city\":"}`,
			`{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"\"Bern\"}"}`, `{"type":"tool-input-available","toolCallId":"c1","toolName":"weather","input":{"city":"Bern"}}`,
			`{"type":"data-progress","id":"p","data":{"percent":50}}`, `{"type":"source-url","sourceId":"s","url":"https://a.example"}`,
			`{"type":"tool-output-available","toolCallId":"c1","output":{"degrees":7}}`, `{"type":"finish-step"}`,
		},
		text("It is 7 degrees."),
	}
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) { sse(rw, answerOf(steps...)...) })
	w.serve(w.agent(func(c *Config) {
		c.Headers, c.ForwardHeaders = map[string]string{"Authorization": "Bearer t"}, []string{"x-plan"}
	}))
	s := w.ask("How warm?")
	snap := w.wantText(s, "Let me see. It is 7 degrees.")
	if snap.Run.Step != 2 {
		t.Errorf("%d steps, want 2", snap.Run.Step)
	}
	w.askIn(s, "r2", "And now?")
	w.Await(s, "the second answer", func(s fold.Snapshot) bool { return s.Run.ID == "r2" && s.Status == fold.Ended })
	reqs := w.requests()
	if len(reqs) != 2 {
		t.Fatalf("%d requests, want 2", len(reqs))
	}
	w.want(reqs[0].body, fmt.Sprintf(`{"id":%q,"messages":[{"id":"m-r1","role":"user","parts":[{"type":"text","text":"How warm?","state":"done"}]}],"trigger":"submit-message"}`, s.ID), "body")
	w.want(posted(t, reqs[0]), "submit-message \nuser m-r1: [text How warm?]", "first request")
	w.want(posted(t, reqs[1]), "submit-message \nuser m-r1: [text How warm?]\nassistant msg-1: [step-start] [reasoning Hm.] [text Let me see.] "+
		`[tool-weather c1 output-available {"degrees":7}] [data-progress] [source-url] [step-start] [text It is 7 degrees.]`+"\nuser m-r2: [text And now?]", "second request")
	h := reqs[0].header
	w.want(fmt.Sprint(h.Get("Authorization"), h.Get("X-Plan"), h.Get("Cookie"), h.Get("Idempotency-Key"), h.Get("Tailrace-Tenant"), h.Get("Content-Type")),
		"Bearer tgold"+s.ID+"/r1/0acmeapplication/json", "header")
}

// The parameters of a run are members of the body, as a page adds them, except for the headers and what the protocol has.
func TestParametersAndDataAreInTheBody(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) { sse(rw, answerOf(text("Warm."))...) })
	w.serve(w.agent())
	s := chunk.RootSession("acme", "params")
	w.post(control.Command{
		Kind: control.Execute, Session: s, AgentType: "app", RunID: "r1", Issued: time.Now(), Input: []chunk.InputMessage{{
			Content: "How warm?", ClientMessageID: new("m"), Data: []chunk.InputData{{Name: "place", ID: new("d1"), Data: chunk.Value(`{"lat":46.9}`)}, {Name: "unit", Data: chunk.Value(`"K"`)}},
		}},
		Params: chunk.Value(`{"model":"large","n":12345678901234567890,"id":"other","headers":{"X-Plan":"gold"}}`),
	})
	w.Await(s, "the answer", func(s fold.Snapshot) bool { return s.Status == fold.Ended })
	w.want(w.requests()[0].body, `{"id":"params","messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"How warm?","state":"done"},{"type":"data-place","id":"d1","data":{"lat":46.9}},{"type":"data-unit","data":"K"}]}],`+
		`"model":"large","n":12345678901234567890,"trigger":"submit-message"}`, "body")
}

// What the chunk schema does not have of the parts is in the snapshot and in the next request.
func TestPartMembers(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) {
		parts := answerOf([]string{
			`{"type":"start-step"}`, `{"type":"reasoning-start","id":"r","providerMetadata":{"p":{"id":"x"}}}`, `{"type":"reasoning-end","id":"r","providerMetadata":{"p":{"signature":"s"}}}`,
			`{"type":"tool-input-available","toolCallId":"c1","toolName":"weather","title":"Weather","input":{},"providerMetadata":{"p":{"n":1}}}`,
			`{"type":"data-progress","id":"p","data":50}`, `{"type":"data-log","data":"x","transient":true}`, `{"type":"tool-output-available","toolCallId":"c1","output":1,"preliminary":true}`,
			`{"type":"tool-output-available","toolCallId":"c1","output":2,"providerMetadata":{"p":{"n":2}}}`, `{"type":"data-progress","id":"p","data":100}`, `{"type":"finish-step"}`,
		}, text("Warm."))
		parts[0] = `{"type":"start","messageId":"x","messageMetadata":{"model":"m","usage":{"in":1}}}`
		parts[len(parts)-2] = `{"type":"finish","finishReason":"stop","messageMetadata":{"usage":{"out":2}}}`
		sse(rw, parts...)
	})
	w.serve(w.agent())
	s := w.ask("How warm?")
	w.wantText(s, "Warm.")
	w.askIn(s, "r2", "And now?")
	w.Await(s, "the second answer", func(s fold.Snapshot) bool { return s.Run.ID == "r2" && s.Status == fold.Ended })
	const message = `{"id":"msg-1","role":"assistant","parts":[{"type":"step-start"},{"type":"reasoning","text":"","state":"done","providerMetadata":{"p":{"signature":"s"}}},` +
		`{"type":"tool-weather","toolCallId":"c1","state":"output-available","input":{},"output":2,"title":"Weather","callProviderMetadata":{"p":{"n":1}},"resultProviderMetadata":{"p":{"n":2}}},` +
		`{"type":"data-progress","id":"p","data":100},{"type":"step-start"},{"type":"text","text":"Warm.","state":"done"}],"metadata":{"model":"m","usage":{"in":1,"out":2}}}`
	if body := w.requests()[1].body; !strings.Contains(body, message) {
		t.Errorf("second request %s\nwant %s", body, message)
	}
}

// A request for another answer has its own trigger and the id of the answer. An edited message is submitted under its id.
func TestRegenerate(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		sse(rw, answerOf(text(fmt.Sprintf("Answer %d.", p.n)))...)
	})
	w.serve(w.agent())
	s := w.ask("Well?")
	w.wantText(s, "Answer 1.")
	replace := func(run, message, content string) {
		t.Helper()
		w.post(control.Command{
			Kind: control.Execute, Session: s, AgentType: "app", RunID: run, Issued: time.Now(), Replaces: message,
			Input: []chunk.InputMessage{{
				Content: content, ClientMessageID: new("m-r1"), Extra: []chunk.Member{{Name: fold.ReplacesMember, Value: chunk.Value(fmt.Sprintf("%q", message))}},
			}},
		})
		w.Await(s, "the end of "+run, func(s fold.Snapshot) bool { return s.Run.ID == run && s.Status == fold.Ended })
	}
	replace("r2", "msg-0", "Well?")
	replace("r3", "msg-2", "Really?")
	w.want(posted(t, w.requests()[1]), "regenerate-message msg-1\nuser m-r1: [text Well?]", "request for another answer")
	w.want(posted(t, w.requests()[2]), "submit-message m-r1\nuser m-r1: [text Really?]", "request after an edit")
}

var locate = []string{
	`{"type":"start-step"}`, `{"type":"tool-input-start","toolCallId":"c1","toolName":"location"}`, `{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"{}"}`,
	`{"type":"tool-input-available","toolCallId":"c1","toolName":"location","input":{}}`, `{"type":"finish-step"}`,
}

// A call that is open at the end of the response is the browser's. Its result is in the next request.
func TestClientTool(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if p.n == 1 {
			sse(rw, answerOf(locate)...)
			return
		}
		sse(rw, answerOf(text("You are in Bern."))...)
	})
	w.serve(w.agent())
	s := w.ask("Where am I?")
	snap := w.AwaitStatus(s, fold.Paused)
	if p := snap.Pending; len(p) != 1 || p[0].Kind != fold.PendingClient || p[0].CallID != "c1" {
		t.Fatalf("pending calls %+v", p)
	}
	w.answer(s, control.Answer{CallID: "c1", ToolName: "location", Kind: control.ClientResult, Result: chunk.Value(`"Bern"`)})
	w.wantText(s, "You are in Bern.")
	w.want(posted(t, w.requests()[1]), "submit-message msg-1\nuser m-r1: [text Where am I?]\nassistant msg-1: [step-start] [tool-location c1 output-available \"Bern\"]", "second request")
}

var deletion = []string{
	`{"type":"start-step"}`, `{"type":"tool-input-available","toolCallId":"c1","toolName":"delete","input":{"file":"a"}}`,
	`{"type":"tool-approval-request","approvalId":"a1","toolCallId":"c1"}`, `{"type":"tool-input-available","toolCallId":"c2","toolName":"delete","input":{"file":"b"}}`,
	`{"type":"tool-approval-request","approvalId":"a2","toolCallId":"c2"}`, `{"type":"finish-step"}`,
}

// The decisions of a user are in the next request, and the endpoint runs the approved call. Its outcome is committed before the model answers.
func TestApproval(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if p.n == 1 {
			sse(rw, answerOf(deletion)...)
			return
		}
		sse(rw, append([]string{
			`{"type":"start","messageId":"x"}`, `{"type":"tool-output-denied","toolCallId":"c2"}`, `{"type":"tool-output-available","toolCallId":"c1","output":"deleted"}`,
		}, answerOf(text("One is gone."))[1:]...)...)
	})
	w.serve(w.agent())
	s := w.ask("Delete them")
	snap := w.AwaitStatus(s, fold.Paused)
	if len(snap.Pending) != 2 || snap.Pending[0].Kind != fold.PendingApproval {
		t.Fatalf("pending calls %+v", snap.Pending)
	}
	w.answer(s,
		control.Answer{CallID: "c1", ToolName: "delete", Kind: control.Approval, ApprovalID: snap.Pending[0].ApprovalID, Approved: true},
		control.Answer{CallID: "c2", ToolName: "delete", Kind: control.Approval, ApprovalID: snap.Pending[1].ApprovalID, Reason: "needed"},
	)
	snap = w.wantText(s, "One is gone.")
	w.want(posted(t, w.requests()[1]), "submit-message msg-1\nuser m-r1: [text Delete them]\nassistant msg-1: [step-start] "+
		`[tool-delete c1 approval-responded {"id":"r1::c1","approved":true}] [tool-delete c2 approval-responded {"id":"r1::c2","approved":false,"reason":"needed"}]`, "second request")
	var calls []string
	for _, m := range snap.Messages(0) {
		for _, c := range m.Calls() {
			calls = append(calls, fmt.Sprintf("%s %s %s", c.ID, c.State, c.Output))
		}
	}
	w.want(fmt.Sprint(calls), `[c1 output-available "deleted" c2 output-denied null]`, "calls")
	if snap.Run.Step != 3 {
		t.Errorf("%d steps, want 3: the outcome has one of its own", snap.Run.Step)
	}
}

// An approved call of which the endpoint says nothing has failed.
func TestApprovedCallWithoutOutcome(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if p.n == 1 {
			sse(rw, answerOf(deletion[:3], deletion[5:])...)
			return
		}
		sse(rw, answerOf(text("Well."))...)
	})
	w.serve(w.agent())
	s := w.ask("Delete it")
	snap := w.AwaitStatus(s, fold.Paused)
	w.answer(s, control.Answer{CallID: "c1", ToolName: "delete", Kind: control.Approval, ApprovalID: snap.Pending[0].ApprovalID, Approved: true})
	snap = w.wantText(s, "Well.")
	if c := snap.Messages(1)[0].Calls()[0]; c.State != fold.CallFailed || c.Error != userMessages[CodeNoOutcome] {
		t.Errorf("call is %+v", c)
	}
}

// A stop request of a user cancels the request, and the log keeps what was written.
func TestStop(t *testing.T) {
	for _, kind := range []control.StopKind{control.StopInterrupt, control.StopAbort} {
		t.Run(string(kind), func(t *testing.T) {
			cancelled := make(chan struct{})
			w := newEnv(t, func(rw http.ResponseWriter, r *http.Request, _ post) {
				sse(rw, answerOf(text("Once upon "))[:4]...)
				<-r.Context().Done()
				close(cancelled)
			})
			w.serve(w.agent())
			s := w.ask("Tell me")
			w.Await(s, "the text", func(s fold.Snapshot) bool { return strings.Contains(stack.Conversation(s), "Once") })
			w.stop(s, kind)
			natstest.Receive(t, "the end of the request", cancelled)
			snap := w.Await(s, "the end of the run", func(s fold.Snapshot) bool { return s.Run.Status != fold.RunRunning })
			if !strings.Contains(stack.Conversation(snap), "Once") {
				t.Errorf("conversation is %q", stack.Conversation(snap))
			}
			if kind == control.StopInterrupt && snap.Run.Status != fold.RunInterrupted || kind == control.StopAbort && snap.Run.Status != fold.RunFailed {
				t.Errorf("run is %s", snap.Run.Status)
			}
		})
	}
}

// A stop request before the endpoint has answered cancels the request too.
func TestStopBeforeTheResponse(t *testing.T) {
	begun, cancelled := make(chan struct{}), make(chan struct{})
	w := newEnv(t, func(_ http.ResponseWriter, r *http.Request, _ post) {
		close(begun)
		<-r.Context().Done()
		close(cancelled)
	})
	w.serve(w.agent())
	s := w.ask("Tell me")
	natstest.Receive(t, "the request", begun)
	w.stop(s, control.StopInterrupt)
	natstest.Receive(t, "the end of the request", cancelled)
	w.Await(s, "the end of the run", func(s fold.Snapshot) bool { return s.Run.Status == fold.RunInterrupted })
}

// When the worker dies in the second step, the history with the first one is posted again, and the log has everything once.
func TestWorkerDies(t *testing.T) {
	begun := make(chan struct{})
	serve := func(rw http.ResponseWriter, r *http.Request, p post) {
		if p.n == 1 {
			parts := answerOf(text("First. "), text("Second, half."))
			sse(rw, parts[:len(parts)-4]...)
			close(begun)
			<-r.Context().Done()
			return
		}
		sse(rw, answerOf(text("Second."))...)
	}
	t.Run("restart", func(t *testing.T) {
		w := newEnv(t, serve)
		first := w.serve(w.agent())
		s := w.ask("Tell me")
		natstest.Receive(t, "the second step", begun)
		w.Await(s, "the second step", func(s fold.Snapshot) bool { return strings.Contains(stack.Conversation(s), "Second") })
		first.Kill()
		w.serve(w.agent())
		w.wantText(s, "First. Second.")
		w.want(posted(t, w.requests()[1]), "submit-message msg-1\nuser m-r1: [text Tell me]\nassistant msg-1: [step-start] [text First.]", "second request")
		w.want(w.requests()[1].header.Get("Idempotency-Key"), s.ID+"/r1/1", "key")
	})
	begun = make(chan struct{})
	t.Run("fail", func(t *testing.T) {
		w := newEnv(t, serve)
		fail := func(c *Config) { c.OnCrash = Fail }
		first := w.serve(w.agent(fail))
		s := w.ask("Tell me")
		natstest.Receive(t, "the second step", begun)
		w.Await(s, "the second step", func(s fold.Snapshot) bool { return strings.Contains(stack.Conversation(s), "Second") })
		first.Kill()
		w.serve(w.agent(fail))
		w.wantFailure(s, CodeInterrupted)
		if n := len(w.requests()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// A worker that shuts down gives a running step some time. Then the request is cancelled, and another worker posts the history again.
func TestWorkerShutsDown(t *testing.T) {
	begun := make(chan struct{})
	w := newEnv(t, func(rw http.ResponseWriter, r *http.Request, p post) {
		if p.n == 1 {
			sse(rw, answerOf(text("Half."))[:4]...)
			close(begun)
			hang(r)
			return
		}
		sse(rw, answerOf(text("Whole."))...)
	})
	first := w.serve(w.agent())
	s := w.ask("Tell me")
	natstest.Receive(t, "the request", begun)
	first.Stop()
	w.serve(w.agent())
	w.wantText(s, "Whole.")
}

// An open call of subagent__<type> starts that agent.
func TestDelegation(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		switch {
		case strings.Contains(p.body, "In Bern."):
			sse(rw, answerOf(text("Your parcel is in Bern."))...)
		case strings.Contains(p.body, "Find it"):
			sse(rw, answerOf(text("In Bern."))...)
		default:
			sse(rw, answerOf([]string{`{"type":"start-step"}`, `{"type":"tool-input-available","toolCallId":"c1","toolName":"subagent__app","input":{"message":"Find it"}}`, `{"type":"finish-step"}`})...)
		}
	})
	w.serve(w.agent())
	w.wantText(w.ask("My parcel?"), "Your parcel is in Bern.")
}

// A step that the endpoint discards and sends again is in the log once.
func TestResetStep(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) {
		half := text("First. ")
		sse(rw, answerOf(half, append(text("wro")[:3], `{"type":"reset-step"}`), text("Right.")[1:])...)
	})
	w.serve(w.agent())
	w.wantText(w.ask("Well?"), "First. Right.")
}

// A call of the model's provider may get its outcome in a later step, or in none.
func TestProviderTool(t *testing.T) {
	search := []string{`{"type":"start-step"}`, `{"type":"tool-input-available","toolCallId":"c1","toolName":"search","input":{},"providerExecuted":true}`, `{"type":"finish-step"}`}
	late := append([]string{`{"type":"start-step"}`, `{"type":"tool-output-available","toolCallId":"c1","output":1,"providerExecuted":true}`}, text("Found.")[1:]...)
	for name, c := range map[string]struct {
		steps [][]string
		text  string
		state fold.CallState
	}{
		"later": {[][]string{search, late}, "Found.", fold.CallDone},
		"never": {[][]string{search, text("Lost.")}, "Lost.", fold.CallOpen}, // no outcome is claimed
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) { sse(rw, answerOf(c.steps...)...) })
			w.serve(w.agent())
			snap := w.wantText(w.ask("Well?"), c.text)
			if calls := snap.Messages(1)[0].Calls(); len(calls) != 1 || calls[0].State != c.state {
				t.Errorf("calls %+v", calls)
			}
		})
	}
}

// Calls whose arguments are invalid or incomplete have an outcome, and a denial by a rule of the endpoint does not ask a user.
func TestOddCalls(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, _ post) {
		sse(rw, answerOf([]string{
			`{"type":"start-step"}`, `{"type":"tool-input-error","toolCallId":"c1","toolName":"a","input":"{","errorText":"bad"}`,
			`{"type":"tool-input-start","toolCallId":"c2","toolName":"a"}`, `{"type":"tool-input-delta","toolCallId":"c2","inputTextDelta":"{"}`,
			`{"type":"tool-input-available","toolCallId":"c3","toolName":"a","input":{}}`, `{"type":"tool-approval-request","approvalId":"x","toolCallId":"c3","isAutomatic":true}`,
			`{"type":"tool-approval-response","approvalId":"x","approved":false,"reason":"policy"}`, `{"type":"tool-input-available","toolCallId":"c4","toolName":"a","input":{}}`,
			`{"type":"tool-output-error","toolCallId":"c4","errorText":"no such thing"}`, `{"type":"tool-output-available","toolCallId":"c4","output":1}`,
			`{"type":"tool-input-start","toolCallId":"c5","toolName":"a"}`, `{"type":"finish-step"}`,
		})...)
	})
	w.serve(w.agent())
	snap := w.AwaitStatus(w.ask("Well?"), fold.Ended)
	got := ""
	for _, c := range snap.Messages(1)[0].Calls() {
		got += fmt.Sprintf("%s %s %s; ", c.ID, c.State, c.Error)
	}
	const incomplete = "the arguments of the call are incomplete; "
	w.want(got, "c1 output-error bad; c2 output-error "+incomplete+"c3 output-denied call denied: policy; c4 output-error no such thing; c5 output-error "+incomplete, "calls")
}

// Chunks of the log as NDJSON, without their head.
func TestNative(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		rw.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
		if p.n == 1 {
			fmt.Fprint(rw, `{"type":"step_start"}`+"\n\n"+`{"type":"text_delta","delta":"Where? "}`+"\r\n"+`{"type":"tool_start","toolCallId":"c1","toolName":"location","arguments":{}}`+"\n"+
				`{"type":"state_patch","patches":[{"op":"add","path":"/n","value":1}]}`+"\n"+`{"type":"step_end","usage":{"inputTokens":3,"outputTokens":4}}`+"\n"+`{"type":"stream_end","streamId":"x"}`)
			return
		}
		if !strings.Contains(p.body, `"state":{"n":1}`) || !strings.Contains(p.body, `"output":"Bern"`) {
			t.Errorf("second request %s", p.body)
		}
		fmt.Fprint(rw, `{"type":"text_delta","delta":"There."}`+"\n"+`{"type":"stream_failed","error":"out of words"}`)
	})
	w.serve(w.agent(func(c *Config) { c.Dialect = Native }))
	s := w.ask("Where am I?")
	w.AwaitStatus(s, fold.Paused)
	w.answer(s, control.Answer{CallID: "c1", ToolName: "location", Kind: control.ClientResult, Result: chunk.Value(`"Bern"`)})
	f := w.wantFailure(s, CodeFailed)
	w.want(f.Message, "out of words", "message")
	if u := w.Snapshot(s).Usage; u != (fold.Usage{Input: 3, Output: 4}) {
		t.Errorf("usage %+v", u)
	}
}

// Chunks of a Mastra server.
func TestMastra(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if !strings.Contains(p.body, `"runId":"r1"`) {
			t.Errorf("request %s", p.body)
		}
		sse(rw, `{"type":"start","runId":"r1","from":"AGENT","payload":{"id":"planner","messageId":"m1"}}`, `{"type":"step-start","runId":"r1","from":"AGENT","payload":{}}`,
			`{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t","text":"Hello."}}`,
			`{"type":"tool-call","runId":"r1","from":"AGENT","payload":{"toolCallId":"c1","toolName":"a","args":{"x":1}}}`,
			`{"type":"tool-result","runId":"r1","from":"AGENT","payload":{"toolCallId":"c1","toolName":"a","result":2}}`,
			`{"type":"step-finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"},"output":{"usage":{"inputTokens":5,"outputTokens":7}}}}`,
			`{"type":"finish","runId":"r1","from":"AGENT","payload":{"stepResult":{"reason":"stop"}}}`, `[DONE]`)
	})
	w.serve(w.agent(func(c *Config) { c.Dialect = Mastra }))
	snap := w.wantText(w.ask("Hi"), "Hello.")
	if c := snap.Messages(1)[0].Calls(); len(c) != 1 || string(c[0].Output) != "2" {
		t.Errorf("calls %+v", c)
	}
	if u := snap.Usage; u != (fold.Usage{Input: 5, Output: 7}) {
		t.Errorf("usage %+v", u)
	}
}

// An endpoint that is asked in the native form answers with the messages of the Claude Agent SDK, which has run its tool.
func TestResponse(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if !strings.Contains(p.body, `"agentType"`) {
			t.Errorf("request %s", p.body)
		}
		sse(rw, `{"type":"system","subtype":"init","tools":["a"]}`,
			`{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"tool_use","id":"c1","name":"a","input":{"x":1}}],"usage":{"input_tokens":2,"output_tokens":3}}}`,
			`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"2"}]}}`,
			`{"type":"assistant","message":{"id":"m2","model":"m","content":[{"type":"text","text":"Hello."}],"usage":{"input_tokens":3,"output_tokens":4}}}`,
			`{"type":"result","subtype":"success","result":"Hello."}`)
	})
	w.serve(w.agent(func(c *Config) { c.Dialect, c.Response = Native, "anthropic" }))
	snap := w.wantText(w.ask("Hi"), "Hello.")
	var calls []fold.ToolCall
	for _, m := range snap.Messages(1) {
		calls = append(calls, m.Calls()...)
	}
	if len(calls) != 1 || string(calls[0].Output) != `"2"` {
		t.Errorf("calls %+v", calls)
	}
	if u := snap.Usage; u != (fold.Usage{Input: 5, Output: 7}) {
		t.Errorf("usage %+v", u)
	}
	if _, err := New(Config{URL: "http://127.0.0.1/", Response: "anthropic"}); err == nil {
		t.Error("a request of the AI SDK with a response of Anthropic is accepted")
	}
}

// The response of a model, or of the OpenAI Agents SDK, ends at [DONE]: the endpoint keeps the connection open until the agent closes it.
func TestResponseOfOpenAI(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  string // the text, "" if the run waits
	}{
		"chat completions":      {[]string{`{"id":"1","choices":[{"index":0,"delta":{"content":"Hello."},"finish_reason":"stop"}]}`}, "Hello."},
		"without a reason":      {[]string{`{"id":"1","choices":[{"index":0,"delta":{"content":"Hello."}}]}`}, "Hello."},
		"a call of the browser": {[]string{`{"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`}, ""},
		"Agents SDK": {[]string{
			`{"type":"raw_model_stream_event","data":{"type":"response_started"}}`,
			`{"type":"raw_model_stream_event","data":{"type":"response_done","response":{"id":"r1","usage":{"inputTokens":2,"outputTokens":3},"output":[]}}}`,
			`{"type":"run_item_stream_event","name":"tool_called","item":{"type":"tool_call_item","rawItem":{"type":"function_call","callId":"c1","name":"a","arguments":"{}"}}}`,
			`{"type":"run_item_stream_event","name":"tool_output","item":{"type":"tool_call_output_item","rawItem":{"type":"function_call_result","callId":"c1","name":"a"},"output":"2"}}`,
			`{"type":"raw_model_stream_event","data":{"type":"response_started"}}`,
			`{"type":"raw_model_stream_event","data":{"type":"output_text_delta","delta":"Hello."}}`,
			`{"type":"raw_model_stream_event","data":{"type":"response_done","response":{"id":"r2","usage":{},"output":[]}}}`,
		}, "Hello."},
		"an approval of the Agents SDK": {[]string{
			`{"type":"run_item_stream_event","name":"tool_approval_requested","item":{"rawItem":{"type":"function_call","callId":"c1","name":"a","arguments":"{}"}}}`,
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			w := newEnv(t, func(rw http.ResponseWriter, r *http.Request, _ post) {
				sse(rw, append(tt.lines, "[DONE]")...)
				<-r.Context().Done()
				close(closed)
			})
			w.serve(w.agent(func(c *Config) { c.Dialect, c.Response, c.IdleTimeout = Native, "openai", Off }))
			if s := w.ask("Hi"); tt.want == "" {
				w.AwaitStatus(s, fold.Paused)
			} else {
				w.wantText(s, tt.want)
			}
			<-closed
			if n := len(w.requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// Chunks of a Kortyx route, which gets the texts of the conversation.
func TestKortyx(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if p.n == 1 {
			sse(rw, `{"type":"session","sessionId":"k"}`, `{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"Hello."}`, `{"type":"text-end","id":"t"}`, `{"type":"done"}`, `[DONE]`)
			return
		}
		sse(rw, `{"type":"error","message":"On strike."}`, `{"type":"done"}`, `[DONE]`)
	})
	w.serve(w.agent(func(c *Config) { c.Dialect = Kortyx }))
	s := w.ask("Hi")
	w.wantText(s, "Hello.")
	w.askIn(s, "r2", "Again")
	w.want(w.wantFailure(s, CodeFailed).Message, "On strike.", "message")
	w.want(w.requests()[1].body, fmt.Sprintf(`{"sessionId":%q,"stream":true,"messages":[{"id":"msg-0","role":"user","content":"Hi"},{"id":"msg-1","role":"assistant","content":"Hello."},{"id":"msg-2","role":"user","content":"Again"}]}`, s.ID), "body")
}

// The answers to the interrupts of an AG-UI agent are posted under its own ids.
func TestAGUI(t *testing.T) {
	w := newEnv(t, func(rw http.ResponseWriter, _ *http.Request, p post) {
		if p.n == 1 {
			sse(rw, `{"type":"RUN_STARTED","threadId":"s","runId":"r1"}`, `{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"delete"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{}"}`,
				`{"type":"TOOL_CALL_END","toolCallId":"c1"}`, `{"type":"RUN_FINISHED","threadId":"s","runId":"r1","outcome":{"type":"interrupt","interrupts":[`+
					`{"id":"i1","reason":"approval","toolCallId":"c1"},{"id":"i2","reason":"question","message":"Which?"}]}}`)
			return
		}
		sse(rw, `{"type":"RUN_STARTED","threadId":"s","runId":"r2"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"No."}`,
			`{"type":"TEXT_MESSAGE_END","messageId":"m"}`, `{"type":"RUN_FINISHED","threadId":"s","runId":"r2"}`)
	})
	w.serve(w.agent(func(c *Config) { c.Dialect = AGUI }))
	s := w.ask("Delete it")
	if p := w.AwaitStatus(s, fold.Paused).Pending; len(p) != 2 {
		t.Fatalf("pending calls %+v", p)
	}
	w.answer(s, control.Answer{CallID: "c1", ToolName: "delete", Kind: control.Approval, ApprovalID: "r1::c1", Reason: "needed"},
		control.Answer{CallID: "i2", ToolName: "agui.interrupt", Kind: control.ClientResult, Result: chunk.Value(`"this"`)})
	w.wantText(s, "No.")
	var body struct {
		ThreadID string            `json:"threadId"`
		Resume   []json.RawMessage `json:"resume"`
	}
	if err := json.Unmarshal([]byte(w.requests()[1].body), &body); err != nil {
		t.Fatal(err)
	}
	w.want(fmt.Sprintf("%s %s", body.ThreadID, body.Resume), s.ID+` [{"interruptId":"i1","status":"resolved","payload":{"approved":false,"reason":"needed"}} `+
		`{"interruptId":"i2","status":"resolved","payload":"this"}]`, "resume")
}
