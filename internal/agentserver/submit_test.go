package agentserver

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/conversation"
)

// submits sends an answer to a call of s1, and checks the status or the code of the refusal.
func (w *env) submits(members, want string) answered {
	w.t.Helper()
	got := w.post("/submit-tool-result", `{"sessionId":"s1",`+members+`}`)
	status := got.member("status")
	if status == "" {
		status = got.String()
	}
	if status != want {
		w.t.Errorf("%s: %s %s, want %s", members, status, got.body, want)
	}
	return got
}

func TestAnswersOfAParent(t *testing.T) {
	w := newEnv(t, nil)
	w.work(asking(0))
	run := w.post("/start", startS1).member("runId")
	got := w.awaitStatus("s1", "suspended_client_tool")
	if got.member("pendingToolCallIds") != `["where","pay"]` || got.member("suspended") != `{"toolCallIds":["where","pay"]}` {
		t.Errorf("status %s", got.body)
	}
	if got := w.post("/resume", `{"sessionId":"s1"}`); got.member("runId") != run {
		t.Errorf("resume before the answers: %s %s", got, got.body)
	}
	if got := w.post("/resume", `{"sessionId":"s1","message":"never mind"}`); got.String() != "409 EXECUTION_ERROR" {
		t.Errorf("resume with a message before the answers: %s", got)
	}
	approval := run + "::pay"

	// CS-14: an answer of the wrong kind, or to another approval, is refused.
	w.submits(`"toolCallId":"pay","result":"paid"`, "400 VALIDATION_ERROR")
	w.submits(`"kind":"approval-response","toolCallId":"where","approvalId":"`+approval+`","approved":true`, "400 VALIDATION_ERROR")
	w.submits(`"kind":"approval-response","toolCallId":"pay","approvalId":"other::pay","approved":true`, "400 VALIDATION_ERROR")
	w.submits(`"kind":"approval-response","toolCallId":"pay","approved":true`, "400 VALIDATION_ERROR")
	w.submits(`"kind":"subagent-result","toolCallId":"where","result":1`, "400 VALIDATION_ERROR")
	w.submits(`"toolCallId":"where"`, "400 VALIDATION_ERROR")
	w.submits(`"toolCallId":"where","result":1,"error":"both"`, "400 VALIDATION_ERROR")
	w.submits(`"toolCallId":"nowhere","result":1`, "404 NOT_FOUND")
	// CS-15: limits of ids, errors and results.
	w.submits(`"toolCallId":"`+strings.Repeat("w", 257)+`","result":1`, "400 VALIDATION_ERROR")
	w.submits(`"toolCallId":"where","error":"`+strings.Repeat("e", 8<<10+1)+`"`, "400 VALIDATION_ERROR")
	w.submits(`"toolCallId":"where","result":"`+strings.Repeat("r", 1<<19)+`"`, "413 CONTENT_TOO_LARGE")
	w.submits(`"toolCallId":"where","result":"`+strings.Repeat("r", 1<<20)+`"`, "413 CONTENT_TOO_LARGE")

	// None of these answers was stored.
	w.submits(`"toolCallId":"where","result":"Oslo"`, "accepted")
	if late := w.submits(`"toolCallId":"where","result":"Bergen"`, "already_completed"); !strings.Contains(late.member("first"), `"result":"Oslo"`) {
		t.Errorf("the first answer is %s", late.member("first"))
	}
	if got := w.status("s1"); got.member("pendingToolCallIds") != `["pay"]` {
		t.Errorf("status %s", got.body)
	}
	w.submits(`"kind":"approval-response","toolCallId":"pay","approvalId":"`+approval+`","approved":true`, "accepted")
	if got := w.awaitStatus("s1", "completed"); got.member("output") != `location "Oslo", payment , allowed` {
		t.Errorf("output %q", got.member("output"))
	}
	w.submits(`"toolCallId":"where","result":"Oslo"`, "already_completed")
}

// Of many concurrent answers one is accepted, and the run is resumed once.
func TestOneAnswerCounts(t *testing.T) {
	w := newEnv(t, nil)
	w.work(asking(0))
	run := w.post("/start", startS1).member("runId")
	w.awaitStatus("s1", "suspended_client_tool")
	w.submits(`"kind":"approval-response","toolCallId":"pay","approvalId":"`+run+`::pay","approved":false,"reason":"too dear"`, "accepted")
	var taken, late atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			switch got := w.post("/submit-tool-result", fmt.Sprintf(`{"sessionId":"s1","toolCallId":"where","result":%d}`, i)); got.member("status") {
			case "accepted":
				taken.Add(1)
			case "already_completed":
				late.Add(1)
			default:
				t.Errorf("%s %s", got, got.body)
			}
		})
	}
	all.Wait()
	if taken.Load() != 1 || late.Load() != 19 {
		t.Errorf("%d were accepted and %d late, want 1 and 19", taken.Load(), late.Load())
	}
	w.awaitStatus("s1", "completed")
	if past := w.snapshot("s1").PastRuns; len(past) != 1 {
		t.Errorf("%d runs before the last, want 1", len(past))
	}
}

// An answer after the deadline gets already_completed; the run continues without it.
func TestAnswerAfterTheDeadline(t *testing.T) {
	w := newEnv(t, nil)
	w.work(asking(time.Millisecond))
	w.post("/start", startS1)
	w.awaitStatus("s1", "completed")
	got := w.post("/submit-tool-result", `{"sessionId":"s1","toolCallId":"where","result":"Oslo"}`)
	if got.status != http.StatusOK || got.member("status") != "already_completed" {
		t.Errorf("%s %s", got, got.body)
	}
}

// The records of a call were lost with the log: the caller does not get a retryable status.
func TestAnswerToALostCall(t *testing.T) {
	_, p := resultOf(&conversation.Refusal{Reason: conversation.ReasonLost})
	if p == nil || p.Status != http.StatusGone || p.Code != codeFailed {
		t.Errorf("problem %+v, want 410 %s", p, codeFailed)
	}
}
