package agentserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/workers"
)

const startS1 = `{"sessionId":"s1","agentType":"helper","message":"hi"}`

// An interrupted run keeps its output, and is resumed with or without a message.
func TestInterruptAndResume(t *testing.T) {
	for name, c := range map[string]struct{ resume, other string }{
		"without a message": {`{"sessionId":"s1"}`, `{"sessionId":"s1","message":"more"}`},
		"with a message":    {`{"sessionId":"s1","message":"continue"}`, `{"sessionId":"s1","message":"another"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, nil)
			begun, held := make(chan string, 2), make(chan struct{})
			w.work(holding(begun, held))
			first := w.post("/start", startS1).member("runId")
			<-begun
			for range 2 { // the second request finds it stopping, or stopped
				if got := w.post("/interrupt", `{"sessionId":"s1","reason":"lunch"}`); got.status != http.StatusAccepted || got.member("runId") != first {
					t.Errorf("interrupt: %s %s", got, got.body)
				}
			}
			if got := w.awaitStatus("s1", "interrupted"); got.member("streamStatus") != "paused" || got.member("runId") != first {
				t.Errorf("status %s", got.body)
			}
			if got := w.post("/start", startS1); got.member("runId") != first {
				t.Errorf("start of what was interrupted: %s %s", got, got.body)
			}
			resumed := w.post("/resume", c.resume)
			if resumed.status != http.StatusOK || resumed.member("runId") == first {
				t.Fatalf("resume: %s %s", resumed, resumed.body)
			}
			if run := <-begun; run != resumed.member("runId") {
				t.Errorf("run %q, want %q", run, resumed.member("runId"))
			}
			if again := w.post("/resume", c.resume); again.body != resumed.body {
				t.Errorf("resumed twice: %s, want %s", again.body, resumed.body)
			}
			if got := w.post("/resume", c.other); got.String() != "409 EXECUTION_ERROR" {
				t.Errorf("resume otherwise: %s %s", got, got.body)
			}
			close(held)
			w.awaitStatus("s1", "completed")
		})
	}
}

// An abort permanently fails a running run, one that waits for answers, one that was interrupted, and one that no worker has started.
func TestAbort(t *testing.T) {
	abort := func(w *env) {
		w.t.Helper()
		if got := w.post("/abort", `{"sessionId":"s1","reason":"enough"}`); got.status != http.StatusAccepted {
			w.t.Errorf("abort: %s %s", got, got.body)
		}
		if got := w.awaitStatus("s1", "failed"); !strings.Contains(got.member("error"), `"code":"aborted"`) {
			w.t.Errorf("status %s", got.body)
		}
		if got := w.post("/resume", `{"sessionId":"s1"}`); got.String() != "409 ALREADY_COMPLETED" {
			w.t.Errorf("resume of what was aborted: %s", got)
		}
	}
	t.Run("running", func(t *testing.T) {
		w := newEnv(t, nil)
		begun := make(chan string, 1)
		w.work(holding(begun, nil))
		w.post("/start", startS1)
		<-begun
		abort(w)
	})
	t.Run("waiting for answers", func(t *testing.T) {
		w := newEnv(t, nil)
		w.work(asking(0))
		w.post("/start", startS1)
		w.awaitStatus("s1", "suspended_client_tool")
		abort(w)
	})
	t.Run("interrupted", func(t *testing.T) {
		w := newEnv(t, nil)
		begun := make(chan string, 1)
		w.work(holding(begun, nil))
		w.post("/start", startS1)
		<-begun
		w.post("/interrupt", `{"sessionId":"s1"}`)
		w.awaitStatus("s1", "interrupted")
		abort(w)
	})
	t.Run("not begun", func(t *testing.T) {
		w := newEnv(t, nil)
		w.post("/start", startS1)
		if got := w.post("/abort", `{"sessionId":"s1"}`); got.status != http.StatusAccepted {
			t.Errorf("abort: %s %s", got, got.body)
		}
		w.work(echo)
		w.awaitStatus("s1", "failed")
	})
}

// A run that is interrupted while it waits for answers does not continue by itself when they arrive.
func TestInterruptOfARunThatWaits(t *testing.T) {
	w := newEnv(t, nil)
	w.work(asking(0))
	run := w.post("/start", startS1).member("runId")
	w.awaitStatus("s1", "suspended_client_tool")
	if got := w.post("/interrupt", `{"sessionId":"s1"}`); got.status != http.StatusAccepted {
		t.Errorf("interrupt: %s %s", got, got.body)
	}
	w.submits(`"toolCallId":"where","result":"Oslo"`, "accepted")
	w.submits(`"kind":"approval-response","toolCallId":"pay","approvalId":"`+run+`::pay","approved":true`, "accepted")
	w.awaitStatus("s1", "interrupted")
	if got := w.post("/resume", `{"sessionId":"s1"}`); got.status != http.StatusOK {
		t.Errorf("resume: %s %s", got, got.body)
	}
	// The approved call has not run, and is not run any more.
	if got := w.awaitStatus("s1", "completed"); got.member("output") != `location "Oslo", payment run interrupted` {
		t.Errorf("output %q", got.member("output"))
	}
}

// An abort of a run that is about to pause takes effect.
func TestAbortBeforeThePause(t *testing.T) {
	w := newEnv(t, nil)
	begun, ask := make(chan struct{}, 10), asking(0)
	w.work(func(ctx context.Context, t *workers.Turn) error {
		begun <- struct{}{}
		return ask(ctx, t)
	})
	for i := range 10 {
		session := fmt.Sprintf("s%d", i)
		w.post("/start", fmt.Sprintf(`{"sessionId":%q,"agentType":"helper","message":"hi"}`, session))
		<-begun
		if got := w.post("/abort", fmt.Sprintf(`{"sessionId":%q}`, session)); got.status != http.StatusAccepted {
			t.Errorf("abort: %s %s", got, got.body)
		}
		w.awaitStatus(session, "failed")
	}
}

// A run that has delegated waits for its sub-agents, reports that in its status, and fails when it is aborted.
func TestARunThatHasDelegated(t *testing.T) {
	w := newEnv(t, nil)
	w.work(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			return s.Tool("ask", "subagent__other").Delegate(ctx, map[string]any{"message": "and you?"})
		})
	})
	w.post("/start", startS1)
	got := w.awaitStatus("s1", "suspended_awaiting_children")
	if s := got.member("suspended"); !strings.Contains(s, `"agentType":"other","callId":"ask"`) || got.member("pendingToolCallIds") != "" {
		t.Errorf("status %s", got.body)
	}
	w.submits(`"toolCallId":"ask","result":"forged"`, "400 VALIDATION_ERROR")
	if got := w.post("/abort", `{"sessionId":"s1"}`); got.status != http.StatusAccepted {
		t.Errorf("abort: %s %s", got, got.body)
	}
	w.awaitStatus("s1", "failed")
}
