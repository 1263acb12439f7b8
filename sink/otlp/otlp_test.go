package otlp

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/sink/export"
	"github.com/tailrace/tailrace/sink/internal/exporttest"
)

// A turn of two runs with a sub-agent is one trace, and the parent of each span is in it.
func TestSpans(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", "word")
	exporttest.Run(t, log, to.config(t.Output()))
	byID, names := map[string]span{}, map[string]span{}
	for _, s := range to.spans() {
		if _, twice := byID[s.id()]; twice {
			t.Errorf("span %s twice", s.Name())
		}
		byID[s.id()], names[s.text(keySession)+" "+s.Name()+" "+s.text(keyRun)] = s, s
		if s.schema != schemaURL || s.trace() != to.spans()[0].trace() || s.text(keyConversation) != "s1" || s.text(keySessionID) != "s1" {
			t.Errorf("span %s: schema %q, trace %s, %v", s.Name(), s.schema, s.trace(), s.Attributes().AsRaw())
		}
	}
	parents := map[string]string{}
	for at, s := range names {
		if p, ok := byID[s.parent()]; ok {
			parents[at] = p.Name()
		} else if s.parent() != strings.Repeat("0", 16) {
			t.Errorf("the parent of %s does not exist", at)
		}
	}
	want := map[string]string{
		"s1 chat gpt-5 r1": "invoke_agent planner", "s1 chat r1": "invoke_agent planner", "s1 chat r2": "invoke_agent planner",
		"s1 execute_tool search r1": "chat gpt-5", "s1 execute_tool research r1": "chat gpt-5", "s1 execute_tool delete r1": "chat",
		"s1 wait delete r1":                "execute_tool delete",
		"child-s1 invoke_agent planner k1": "execute_tool research",
		"child-s1 chat gpt-5-mini k1":      "invoke_agent planner",
		"child-s1 execute_tool read k1":    "chat gpt-5-mini",
	}
	if diff := cmp.Diff(want, parents); diff != "" {
		t.Error(diff)
	}
	step := names["s1 chat gpt-5 r1"]
	got := step.Attributes().AsRaw()
	delete(got, keySequence)
	wantStep := map[string]any{
		keyTenant: "acme", keySession: "s1", keyConversation: "s1", keySessionID: "s1", keyRun: "r1", keyTurn: "r1", keyStep: int64(1), keyUserID: "ada", keyAgentName: "planner",
		keyStatus: "completed", keyOperation: "chat", keyProvider: "openai", keyRequestModel: "gpt-5", keyResponseModel: "gpt-5-mini", keyFinishReasons: []any{"tool-calls"},
		keyFirstChunk: 0.1, keyInputUsage: int64(100), keyOutputUsage: int64(20), keyCacheRead: int64(40), keyCacheWrite: int64(10), keyCacheCreation: int64(10),
		keyReasoning: int64(5), keyCost: 0.0125, keyCurrency: "USD", keyCostSource: "reported",
		keyOutputMessages: `[{"role":"assistant","parts":[{"type":"text","content":"word"},{"type":"tool_call","id":"c1","name":"search"},{"type":"tool_call","id":"c2","name":"research"}],"finish_reason":"tool-calls"}]`,
	}
	if diff := cmp.Diff(wantStep, got); diff != "" {
		t.Error(diff)
	}
	tool := names["s1 execute_tool search r1"]
	if tool.Status().Code() != ptrace.StatusCodeError || tool.Status().Message() != "word" || tool.text(keyErrorType) != "timeout" || tool.text(keyArguments) != `{"q":"word"}` {
		t.Errorf("the tool that failed: %v %v", tool.Status(), tool.Attributes().AsRaw())
	}
	if run := names["s1 invoke_agent planner r1"]; run.text(keyStatus) != "suspended" || !strings.Contains(run.text(keyInputMessages), `"role":"user"`) {
		t.Errorf("the run that waited: %v", run.Attributes().AsRaw())
	}
	if w := names["s1 wait delete r1"]; w.text(keyWait) != "approval" || w.text(keyApproved) != "true" || w.EndTimestamp() <= w.StartTimestamp() {
		t.Errorf("the wait: %v", w.Attributes().AsRaw())
	}
}

// Without content in the view, no word that a user, a model or a tool has written is in a request, a dead letter or a line of the log.
func TestNoContentWithoutAView(t *testing.T) {
	const word = "canary"
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", word)
	none, err := view.View{}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	to.answer = func(_ int, spans []span, w http.ResponseWriter) bool {
		if len(spans) > 1 || spans[0].Name() == "execute_tool search" {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		return false
	}
	path := filepath.Join(t.TempDir(), "dead")
	dead, err := export.OpenDeadLetters(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines exporttest.Lines
	cfg := to.config(&lines)
	cfg.Observe.Show, cfg.DeadLetters = none.Record, dead
	exporttest.Run(t, log, cfg)
	letters, err := os.ReadFile(path)
	if err != nil || strings.Count(string(letters), "\n") != 1 || !strings.Contains(string(letters), `"kind":"tool"`) {
		t.Errorf("the dead letters are %q, %v, want that of the tool", letters, err)
	}
	if n := len(to.spans()); n != 11 {
		t.Errorf("%d spans were accepted, want all others, 11", n)
	}
	for what, text := range map[string]string{"a request": string(to.raw), "a dead letter": string(letters), "the log": lines.String()} {
		if strings.Contains(text, word) {
			t.Errorf("%s has the content", what)
		}
	}
}

// Spans of a delivery that was not acknowledged are sent again, with the same ids and content.
func TestEndBeforeTheAcknowledgement(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Conversation("s1", "word")
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan struct{})
	to.answer = func(n int, _ []span, _ http.ResponseWriter) bool {
		if n == 1 { // it accepts the spans, and the program ends before it gets the answer
			cancel()
			<-answered
		}
		return false
	}
	cfg := to.config(t.Output())
	first, err := export.New(log.JS, cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = first.Run(ctx)
	close(answered)
	if err != nil {
		t.Fatal(err)
	}
	exporttest.Run(t, log, cfg)
	count := map[string][]string{}
	for _, s := range to.spans() {
		count[s.id()] = append(count[s.id()], whole(t, s))
	}
	if len(count) != 12 {
		t.Errorf("%d spans, want 12", len(count))
	}
	repeated := 0
	for id, versions := range count {
		slices.Sort(versions)
		if len(slices.Compact(versions)) != 1 {
			t.Errorf("span %s has several contents: %v", id, versions)
		}
		if len(versions) > 1 {
			repeated++
		}
	}
	if repeated == 0 {
		t.Error("no span was repeated")
	}
}

// whole returns everything that a span has, as JSON.
func whole(t *testing.T, s span) string {
	t.Helper()
	traces := ptrace.NewTraces()
	s.CopyTo(traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
	out, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A receiver that fails in each way gets every span in the end.
func TestReceiverThatFails(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	for _, id := range []string{"s1", "s2", "s3", "s4"} {
		log.Turn(id, "r")
	}
	to.answer = func(n int, _ []span, w http.ResponseWriter) bool {
		switch n {
		case 1, 2, 3, 4, 5, 6:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader([]int{408, 429, 500, 502, 503, 401}[n-1])
		case 7: // no answer
			panic(http.ErrAbortHandler)
		case 8:
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		case 9: // accepted, and the answer is lost
			return lose(to, n, w)
		default:
			return false
		}
		return true
	}
	cfg := to.config(t.Output())
	exporttest.Run(t, log, cfg)
	ids := map[string]bool{}
	for _, s := range to.spans() {
		ids[s.id()] = true
	}
	if len(ids) != 8 {
		t.Errorf("%d spans, want 8", len(ids))
	}
	if len(to.headers) < 10 {
		t.Errorf("%d requests, want at least 10", len(to.headers))
	}
}

// lose cuts the connection in the middle of the answer.
func lose(_ *receiver, _ int, w http.ResponseWriter) bool {
	w.Header().Set("Content-Length", "100")
	_, _ = w.Write([]byte("x"))
	panic(http.ErrAbortHandler)
}

// A receiver that does not answer is tried again after the timeout of a request.
func TestReceiverThatHangs(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Turn("s1", "r")
	release := make(chan struct{})
	defer close(release)
	to.answer = func(n int, _ []span, _ http.ResponseWriter) bool {
		if n == 1 {
			<-release
		}
		return n == 1
	}
	cfg := to.config(t.Output())
	deliver := cfg.Deliver
	cfg.Deliver = func(ctx context.Context, rows []export.Row) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		return deliver(ctx, rows)
	}
	exporttest.Run(t, log, cfg)
	if len(to.spans()) != 2 {
		t.Errorf("%d spans, want 2", len(to.spans()))
	}
}

// What a receiver rejects in a request that it accepts is counted and logged, and not sent again.
func TestPartialSuccess(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Turn("s1", "r")
	to.answer = func(_ int, _ []span, w http.ResponseWriter) bool {
		response := ptraceotlp.NewExportResponse()
		response.PartialSuccess().SetRejectedSpans(2)
		response.PartialSuccess().SetErrorMessage("too old")
		out, err := response.MarshalProto()
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(out)
		return true
	}
	var lines exporttest.Lines
	exporttest.Run(t, log, to.config(&lines))
	if len(to.headers) != 1 || !strings.Contains(lines.String(), `spans=2 reason="too old"`) {
		t.Errorf("%d requests, log %s", len(to.headers), lines.String())
	}
}

// A deletion is a span in a trace of its own.
func TestDeletion(t *testing.T) {
	log, to := exporttest.Start(t), newReceiver(t)
	log.Turn("s1", "r")
	log.Delete("s1")
	exporttest.Run(t, log, to.config(t.Output()))
	spans := to.spans()
	last := spans[len(spans)-1]
	if len(spans) != 3 || last.Name() != spanDeleted || last.text(keyConversation) != "s1" || last.TraceID() == pcommon.NewTraceIDEmpty() || last.trace() == spans[0].trace() {
		t.Errorf("%d spans, the last one is %s %v", len(spans), last.Name(), last.Attributes().AsRaw())
	}
}
