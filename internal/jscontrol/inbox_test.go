package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/subjects"
)

// full has answers of all kinds with all members.
func fullAnswers() []control.Answer {
	at := time.UnixMilli(1700000000123)
	all := []control.Answer{
		result("c1", `{"big":123456789012345678901234567890,"half":"\ud83d","html":"<b>&"}`),
		result("c2", `null`),
		{Session: session, RunID: "run-1", CallID: "c3", ToolName: "lookup", Kind: control.ClientResult, Error: "no <network>", ErrorCode: "client_tool_error"},
		approval("c4", true),
		approval("c5", false),
		{Session: session, RunID: "run-1", CallID: "c6", ToolName: "delete", Kind: control.Approval, ApprovalID: "run-1::c6", Error: "too late", ErrorCode: "client_tool_deadline_exceeded"},
		{Session: session, RunID: "run-1", CallID: "call of a model: .*> 💥\x00", ToolName: "subagent__x", Kind: control.SubagentResult, Result: chunk.Value(`[1]`)},
	}
	for i := range all {
		all[i].At = at
	}
	return all
}

// The worker reads the stored answers of its run, in the order in which they were stored.
func TestAnswersAreRead(t *testing.T) {
	b := newInbox(t, streamtest.Start(t).JetStream(t), InboxConfig{})
	if got := answers(t, b, "run-1"); got != nil {
		t.Errorf("before: %+v", got)
	}
	for i, a := range fullAnswers() {
		if err := b.Answer(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		other := fullAnswers()[len(fullAnswers())-1-i]
		other.RunID = "run-10"
		if err := b.Answer(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		other.RunID, other.Session = "run-1", chunk.Session{Tenant: "acme", Root: "r1", ID: "s2"}
		if err := b.Answer(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: control.StopAbort}); err != nil {
		t.Fatal(err)
	}
	if got := answers(t, b, "run-1"); !reflect.DeepEqual(got, fullAnswers()) {
		t.Errorf("got  %+v\nwant %+v", got, fullAnswers())
	}
	if got := answers(t, b, "run-10"); len(got) != len(fullAnswers()) {
		t.Errorf("the other run has %d", len(got))
	}
}

// Of fifty concurrent answers, equal or not, one is stored, and the errors of the others contain it.
func TestFirstAnswerWins(t *testing.T) {
	srv := streamtest.Start(t)
	boxes := []*Inbox{newInbox(t, srv.JetStream(t), InboxConfig{}), newInbox(t, srv.JetStream(t), InboxConfig{})}
	for round := range 20 {
		call := fmt.Sprint("c", round)
		var all sync.WaitGroup
		accepted, refused := make(chan control.Answer, 50), make(chan control.Answer, 50)
		for i := range 50 {
			all.Go(func() {
				a := approval(call, true)
				if round%2 == 0 {
					a = approval(call, i%2 == 0)
					a.Reason = fmt.Sprint(i)
				}
				err := boxes[i%2].Answer(t.Context(), a)
				if err == nil {
					accepted <- a
					return
				}
				refused <- wantAnswered(t, err)
			})
		}
		all.Wait()
		if len(accepted) != 1 || len(refused) != 49 {
			t.Fatalf("%d accepted, %d refused", len(accepted), len(refused))
		}
		want := <-accepted
		close(refused)
		for got := range refused {
			if want.At = got.At; !reflect.DeepEqual(got, want) {
				t.Errorf("refused with %+v, accepted %+v", got, want)
			}
		}
	}
}

// A repeated stop request has no effect; an abort replaces an interrupt, and an interrupt does not replace an abort.
func TestStopEscalation(t *testing.T) {
	b := newInbox(t, streamtest.Start(t).JetStream(t), InboxConfig{})
	if s, stopped, err := b.StopRequest(t.Context(), session, "run-1"); stopped || err != nil {
		t.Fatalf("before: %+v, %v", s, err)
	}
	steps := []struct {
		ask        control.StopKind
		reason     string
		want       control.StopKind
		wantReason string
	}{
		{control.StopInterrupt, "first", control.StopInterrupt, "first"},
		{control.StopInterrupt, "second", control.StopInterrupt, "first"},
		{control.StopAbort, "third", control.StopAbort, "third"},
		{control.StopInterrupt, "fourth", control.StopAbort, "third"},
		{control.StopAbort, "fifth", control.StopAbort, "third"},
	}
	for _, step := range steps {
		if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: step.ask, Reason: step.reason}); err != nil {
			t.Fatal(err)
		}
		got, stopped, err := b.StopRequest(t.Context(), session, "run-1")
		if !stopped || err != nil || got.Kind != step.want || got.Reason != step.wantReason || got.RunID != "run-1" || got.Session != session || got.At.IsZero() {
			t.Errorf("after %q: %+v, %v, %v", step.reason, got, stopped, err)
		}
	}
	if _, stopped, _ := b.StopRequest(t.Context(), session, "run-2"); stopped {
		t.Error("the other run is stopped, too")
	}
}

// Concurrent interrupts and aborts: an abort is never lost.
func TestStopsAtOnce(t *testing.T) {
	srv := streamtest.Start(t)
	boxes := []*Inbox{newInbox(t, srv.JetStream(t), InboxConfig{}), newInbox(t, srv.JetStream(t), InboxConfig{})}
	for round := range 20 {
		run := fmt.Sprint("r", round)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				s := control.Stop{Session: session, RunID: run, Kind: control.StopInterrupt}
				if i == round {
					s.Kind = control.StopAbort
				}
				if err := boxes[i%2].Stop(t.Context(), s); err != nil {
					t.Error(err)
				}
				if got, ok, err := boxes[i%2].StopRequest(t.Context(), session, run); err != nil || !ok || s.Escalates(got) {
					t.Errorf("read %+v, %v, %v after %s", got, ok, err, s.Kind)
				}
			})
		}
		all.Wait()
		if s, _, err := boxes[0].StopRequest(t.Context(), session, run); s.Kind != control.StopAbort {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// A hint is sent after its value was stored: a read after the hint returns the value.
func TestHintComesAfterTheAnswer(t *testing.T) {
	srv := streamtest.Start(t)
	b, other := newInbox(t, srv.JetStream(t), InboxConfig{}), newInbox(t, srv.JetStream(t), InboxConfig{})
	hints, stop, err := b.Watch(session, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		go func() {
			if err := other.Answer(context.WithoutCancel(t.Context()), result(fmt.Sprint("c", i), "1")); err != nil {
				t.Error(err)
			}
		}()
		natstest.Receive(t, "a hint", hints)
		if got := len(answers(t, b, "run-1")); got != i+1 {
			t.Fatalf("after hint %d: %d answers", i+1, got)
		}
	}
	if err := other.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: control.StopInterrupt}); err != nil {
		t.Fatal(err)
	}
	natstest.Receive(t, "a hint of the stop", hints)
	stop()
	stop()
	if err := other.Answer(t.Context(), result("more", "1")); err != nil {
		t.Fatal(err)
	}
	if err := b.js.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if len(hints) != 0 {
		t.Error("a hint after the end")
	}
}

// The error names the invalid field, and nothing is stored.
func TestRefusedAnswers(t *testing.T) {
	b := newInbox(t, streamtest.Start(t).JetStream(t), InboxConfig{})
	long, reason := strings.Repeat("ü", control.MaxAnswerID+1), strings.Repeat("x", control.MaxError+1)
	tests := map[string]struct {
		change func(*control.Answer)
		want   string
		is     error
	}{
		"no kind":                 {func(a *control.Answer) { a.Kind = "" }, "Kind", chunk.ErrInvalid},
		"no call":                 {func(a *control.Answer) { a.CallID = "" }, "CallID is empty", chunk.ErrInvalid},
		"a long call":             {func(a *control.Answer) { a.CallID = long }, "CallID has 257 characters", chunk.ErrInvalid},
		"a call that is not text": {func(a *control.Answer) { a.CallID = "\xff" }, "CallID", chunk.ErrInvalid},
		"a long tool":             {func(a *control.Answer) { a.ToolName = long }, "ToolName", chunk.ErrInvalid},
		"a long code":             {func(a *control.Answer) { a.Result, a.ErrorCode = nil, long }, "ErrorCode", chunk.ErrInvalid},
		"a long error":            {func(a *control.Answer) { a.Result, a.Error = nil, reason }, "Error has 8193 bytes", chunk.ErrInvalid},
		"a long reason":           {func(a *control.Answer) { a.Reason = reason }, "Reason", chunk.ErrInvalid},
		"result and error":        {func(a *control.Answer) { a.Error = "no" }, "Result", chunk.ErrInvalid},
		"a result that is not":    {func(a *control.Answer) { a.Result = chunk.Value(`{"a":`) }, "Result", chunk.ErrInvalid},
		"a deep result":           {func(a *control.Answer) { a.Result = chunk.Value(strings.Repeat("[", 33) + strings.Repeat("]", 33)) }, "32 levels", chunk.ErrInvalid},
		"a result of many values": {
			func(a *control.Answer) { a.Result = chunk.Value("[" + strings.Repeat("1,", 20000) + "1]") }, "20000 values", chunk.ErrInvalid,
		},
		"a member twice":            {func(a *control.Answer) { a.Result = chunk.Value(`{"a":1,"a":2}`) }, "once", chunk.ErrInvalid},
		"a result that is not text": {func(a *control.Answer) { a.Result = chunk.Value("\"\xff\"") }, "UTF-8", chunk.ErrInvalid},
		"a large result":            {func(a *control.Answer) { a.Result = chunk.Value(`"` + strings.Repeat("x", control.MaxResult) + `"`) }, "result", chunk.ErrTooLarge},
		"a result and approved":     {func(a *control.Answer) { a.Approved = true }, "ApprovalID", chunk.ErrInvalid},
		"an approval without id":    {func(a *control.Answer) { a.Kind, a.Result = control.Approval, nil }, "ApprovalID", chunk.ErrInvalid},
		"an approval with result": {
			func(a *control.Answer) { a.Kind, a.ApprovalID = control.Approval, "x" }, "Result", chunk.ErrInvalid,
		},
		"approved and failed": {
			func(a *control.Answer) { *a = approval("c1", true); a.Error = "no" }, "Error", chunk.ErrInvalid,
		},
		"a long approval": {
			func(a *control.Answer) {
				*a = approval("c1", true)
				a.ApprovalID = strings.Repeat("x", control.MaxApprovalID+1)
			}, "ApprovalID", chunk.ErrInvalid,
		},
		"a run with a dot":     {func(a *control.Answer) { a.RunID = "run.>" }, "run", chunk.ErrInvalid},
		"a session of a space": {func(a *control.Answer) { a.Session.ID = "a b" }, "session", chunk.ErrInvalid},
		"no tenant":            {func(a *control.Answer) { a.Session.Tenant = "" }, "tenant", chunk.ErrInvalid},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := result("c1", "1")
			test.change(&a)
			if err := b.Answer(t.Context(), a); !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v, want %v that names %q", err, test.is, test.want)
			}
		})
	}
	if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: "pause"}); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("a stop of another kind: %v", err)
	}
	if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "", Kind: control.StopAbort}); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("a stop of no run: %v", err)
	}
	if _, err := b.Answers(t.Context(), session, ">"); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("all answers: %v", err)
	}
	if _, _, err := b.StopRequest(t.Context(), session, "*"); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("all stops: %v", err)
	}
	if _, _, err := b.Watch(session, "*"); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("all hints: %v", err)
	}
	if got := answers(t, b, "run-1"); got != nil {
		t.Errorf("stored: %+v", got)
	}
}

// The largest accepted result fits a message, and the log record that it becomes, with all ids.
func TestLargestResultFitsTheLog(t *testing.T) {
	b := newInbox(t, streamtest.Start(t).JetStream(t), InboxConfig{})
	a := result(strings.Repeat("💥", control.MaxAnswerID), `"`+strings.Repeat("<", control.MaxResult-2)+`"`)
	a.ToolName = strings.Repeat("💥", control.MaxAnswerID)
	if err := b.Answer(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got := answers(t, b, "run-1")
	if len(got) != 1 || len(got[0].Result) != control.MaxResult {
		t.Fatalf("%d answers", len(got))
	}
	const maxChunk = 512 << 10 // producers.Config.MaxChunk
	record, err := chunk.Chunk{
		AgentID: session.ID, AgentType: strings.Repeat("a", subjects.MaxToken), Timestamp: 1700000000123,
		Body: chunk.ToolEnd{ToolCallID: a.CallID, ToolName: a.ToolName, Result: got[0].Result},
	}.AppendJSON(nil)
	if err != nil || len(record) > maxChunk {
		t.Errorf("a record of %d bytes, %v", len(record), err)
	}
}

// Malformed values under the keys of the inbox are ignored, by readers and by clients that answer.
func TestStrayValuesAreReplaced(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	b := newInbox(t, js, InboxConfig{})
	kv, err := js.KeyValue(t.Context(), "TR_INBOX")
	if err != nil {
		t.Fatal(err)
	}
	key, err := names.InboxAnswerKey(session, "run-1", "c1")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := names.InboxStopKey(session, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	strays := map[string]string{
		"nothing":         ``,
		"no JSON":         `{"version":1`,
		"no version":      `{"kind":"client-tool-result","toolCallId":"c1"}`,
		"another call":    `{"version":1,"kind":"client-tool-result","toolCallId":"c2","result":1,"at":1}`,
		"no call":         `{"version":1,"kind":"client-tool-result","at":1}`,
		"too deep":        `{"version":1,"kind":"client-tool-result","toolCallId":"c1","result":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `,"at":1}`,
		"another kind":    `{"version":1,"kind":"gossip","toolCallId":"c1","at":1}`,
		"half a decision": `{"version":1,"kind":"approval-response","toolCallId":"c1","approvalId":"a","at":1}`,
	}
	for name, stray := range strays {
		for _, k := range []string{key, stop} {
			if _, err := kv.PutString(t.Context(), k, stray); err != nil {
				t.Fatal(err)
			}
		}
		if got := answers(t, b, "run-1"); got != nil {
			t.Errorf("%s: read as %+v", name, got)
		}
		if s, stopped, err := b.StopRequest(t.Context(), session, "run-1"); stopped || err != nil {
			t.Errorf("%s: read as %+v, %v", name, s, err)
		}
		if err := b.Answer(t.Context(), result("c1", "1")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: control.StopInterrupt}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, stopped, err := b.StopRequest(t.Context(), session, "run-1"); !stopped || err != nil {
			t.Errorf("%s: the stop is not there: %v", name, err)
		}
		wantAnswered(t, b.Answer(t.Context(), result("c1", "2")))
	}
	// A key that was deleted by hand is like one that never existed.
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := answers(t, b, "run-1"); got != nil {
		t.Errorf("deleted, and read as %+v", got)
	}
	if err := b.Answer(t.Context(), result("c1", "1")); err != nil {
		t.Error(err)
	}
}

// A value of a newer build is not changed.
func TestNewerValuesAreNotChanged(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	b := newInbox(t, js, InboxConfig{})
	kv, err := js.KeyValue(t.Context(), "TR_INBOX")
	if err != nil {
		t.Fatal(err)
	}
	key, _ := names.InboxAnswerKey(session, "run-1", "c1")
	stop, _ := names.InboxStopKey(session, "run-1")
	for _, k := range []string{key, stop} {
		if _, err := kv.PutString(t.Context(), k, `{"version":2}`); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Answer(t.Context(), result("c1", "1")); !errors.Is(err, control.ErrUnsupported) {
		t.Errorf("answer: %v", err)
	}
	if _, err := b.Answers(t.Context(), session, "run-1"); !errors.Is(err, control.ErrUnsupported) {
		t.Errorf("answers: %v", err)
	}
	if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: control.StopAbort}); !errors.Is(err, control.ErrUnsupported) {
		t.Errorf("stop: %v", err)
	}
	if _, _, err := b.StopRequest(t.Context(), session, "run-1"); !errors.Is(err, control.ErrUnsupported) {
		t.Errorf("stopped: %v", err)
	}
}

// The acknowledgement of an answer is lost with the connection: it is stored once, and its client does not get ErrAnswered.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	srv := streamtest.Start(t)
	proxy := natstest.StartProxy(t, srv.URL)
	far := natstest.JetStream(t, proxy.URL)
	b := newInbox(t, far, InboxConfig{})
	near := newInbox(t, srv.JetStream(t), InboxConfig{})
	for i, forget := range []bool{false, true} {
		call := fmt.Sprint("c", i)
		proxy.DropReplies()
		done := make(chan error, 1)
		go func() { done <- b.Answer(t.Context(), result(call, "1")) }()
		natstest.Eventually(t, "the answer to arrive", func(context.Context) error {
			if n := len(answers(t, near, "run-1")); n != i+1 {
				return fmt.Errorf("%d answers", n)
			}
			return nil
		})
		if forget { // the server knows the ids of stored messages for this window
			shortenWindow(t, near.js, "KV_TR_INBOX")
		}
		proxy.Restore()
		if err := natstest.Receive(t, "the answer", done); err != nil {
			t.Errorf("forget %v: %v", forget, err)
		}
	}
}

// The server does not respond within RetryTimeout: the outcome is unknown.
func TestUnknownOutcome(t *testing.T) {
	srv := streamtest.Start(t)
	b := newInbox(t, srv.JetStream(t), InboxConfig{RetryTimeout: 300 * time.Millisecond})
	srv.Shutdown()
	if err := b.Answer(t.Context(), result("c1", "1")); !errors.Is(err, chunk.ErrUnknownOutcome) {
		t.Errorf("answer: %v", err)
	}
	if err := b.Stop(t.Context(), control.Stop{Session: session, RunID: "run-1", Kind: control.StopAbort}); !errors.Is(err, chunk.ErrUnknownOutcome) {
		t.Errorf("stop: %v", err)
	}
	if _, err := b.Answers(t.Context(), session, "run-1"); err == nil {
		t.Error("answers of no server")
	}
	b.js.Conn().Close()
	if err := b.Answer(t.Context(), result("c1", "1")); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("a closed connection: %v", err)
	}
}

func TestInboxConfigNamesTheField(t *testing.T) {
	for want, cfg := range map[string]InboxConfig{
		"RetryTimeout is -1s": {RetryTimeout: -time.Second},
		"Layout":              {Layout: subjects.Layout{Partitions: -1}},
	} {
		if _, err := NewInbox(nil, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q in it", err, want)
		}
	}
}
