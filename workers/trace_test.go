package workers

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/subjects"
)

const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// recorder is a provider whose spans the test reads.
func recorder(t *testing.T) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = p.Shutdown(context.WithoutCancel(t.Context())) })
	return p, spans
}

// attributesOf returns the attributes of a span as texts.
func attributesOf(s tracetest.SpanStub) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// named returns the only span with a name.
func named(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	var found tracetest.SpanStubs
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %q, want 1: %q", len(found), name, names)
	}
	return found[0]
}

// talk is an agent with a step that calls tools and one that answers.
func talk() Agent {
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		if t.Steps() == 0 {
			err := t.Step(ctx, func(ctx context.Context, s *Step) error {
				good, bad := s.Tool("c1", "weather"), s.Tool("c2", "mail")
				return errors.Join(
					s.Text(ctx, "secret text"), good.Start(ctx, map[string]any{"secret": "argument"}), bad.Start(ctx, map[string]any{}),
					good.End(ctx, "secret result"), bad.Fail(ctx, errors.New("secret error")),
					s.Usage(chunk.Usage{InputTokens: "7", OutputTokens: "3"}))
			})
			if err != nil {
				return err
			}
		}
		return t.Step(ctx, func(ctx context.Context, s *Step) error {
			s.MarkFinal()
			return s.Text(ctx, "secret answer")
		})
	})
}

// A command, its run, the steps, the tool calls and the publish are one trace, which continues that of the request. The run records have it, the deltas do not.
// No span has a text.
func TestTraceOfARun(t *testing.T) {
	w := newEnv(t)
	tracer, recorded := recorder(t)
	w.tracer = tracer
	c := execute("traced", "talker", "secret question")
	c.TraceParent = caller
	if err := w.worker(map[string]Agent{"talker": talk()}).handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	spans := recorded.GetSpans()
	command := named(t, spans, "process command")
	if got := command.Parent.SpanID().String(); got != caller[36:52] {
		t.Errorf("parent of the command: got %s, want that of the request", got)
	}
	run := named(t, spans, "invoke_agent talker")
	publish := named(t, spans, "publish")
	var steps tracetest.SpanStubs
	for _, s := range spans {
		if s.SpanContext.TraceID().String() != caller[3:35] {
			t.Errorf("span %q has another trace", s.Name)
		}
		if s.Name == "chat" {
			steps = append(steps, s)
		}
		if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), "secret") {
			t.Errorf("span %q has text: %s, %v", s.Name, text, err)
		}
	}
	if run.Parent.SpanID() != command.SpanContext.SpanID() || publish.Parent.SpanID() != run.SpanContext.SpanID() || len(steps) != 2 {
		t.Fatalf("got %d steps, want 2, a run below the command and a publish below the run", len(steps))
	}
	good, bad := named(t, spans, "execute_tool weather"), named(t, spans, "execute_tool mail")
	for _, s := range []tracetest.SpanStub{good, bad} {
		if s.Parent.SpanID() != steps[0].SpanContext.SpanID() {
			t.Errorf("%s is not below the first step", s.Name)
		}
	}
	if bad.Status.Code != codes.Error || good.Status.Code != codes.Unset {
		t.Errorf("status of the calls: %v, %v", good.Status, bad.Status)
	}
	for _, want := range []struct {
		span       tracetest.SpanStub
		attributes map[string]string
	}{
		{command, map[string]string{"tailrace.command": "execute", "tailrace.outcome": "done", "tailrace.run": "r1"}},
		{run, map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "talker", "gen_ai.conversation.id": "traced", "tailrace.tenant": "acme", "tailrace.outcome": "completed"}},
		{steps[0], map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "3",
			"gen_ai.response.finish_reasons": `["tool-calls"]`, "tailrace.step": "1",
		}},
		{steps[1], map[string]string{"gen_ai.response.finish_reasons": `["stop"]`, "tailrace.step": "2"}},
		{good, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1", "gen_ai.tool.type": "function"}},
		{bad, map[string]string{"error.type": CodeToolFailed}},
	} {
		got := attributesOf(want.span)
		for key, value := range want.attributes {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", want.span.Name, key, got[key], value)
			}
		}
	}
	records := w.Bodies(c.Session)
	if got := attributesOf(publish)["messaging.batch.message_count"]; got != attribute.IntValue(len(records)).String() {
		t.Errorf("publish counts %s records, want %d", got, len(records))
	}
	w.checkTraceParents(c.Session, "00-"+caller[3:35]+"-"+run.SpanContext.SpanID().String()+"-01")
}

// checkTraceParents checks that the run records of a session, and no others, have a traceparent.
func (w *env) checkTraceParents(s chunk.Session, want string) {
	w.t.Helper()
	with := 0
	stream, err := w.JS.Stream(w.t.Context(), subjects.Layout{}.Stream(0))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, rec := range w.Records(s) {
		m, err := stream.GetMsg(w.t.Context(), uint64(rec.Seq))
		if err != nil {
			w.t.Fatal(err)
		}
		typ := chunk.Type(m.Header.Get("ce-type"))
		got := codec.TraceParentOf(m.Header, m.Data)
		if expected := map[bool]string{true: want}[typ.Control()]; got != expected {
			w.t.Errorf("%s has %q, want %q", typ, got, expected)
		}
		if got != "" {
			with++
		}
	}
	if want != "" && with < 2 {
		w.t.Errorf("%d records have a traceparent, want the start and the end", with)
	}
}

// A run of a worker without a TracerProvider has the trace of its request, so that the spans of other processes are linked; without one it has none.
func TestRunWithoutTracing(t *testing.T) {
	w := newEnv(t)
	worker := w.worker(map[string]Agent{"talker": talk()})
	for session, parent := range map[string]string{"passed": caller, "none": "", "malformed": "00-x" + strings.Repeat("y", 5000)} {
		c := execute(session, "talker", "question")
		c.TraceParent = parent
		if err := worker.handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		want := ""
		if parent == caller {
			want = caller
		}
		w.checkTraceParents(c.Session, want)
	}
}

// The spans of a run that waits for a user and is resumed: each part has one, the call of the user none.
func TestTraceOfASuspendedRun(t *testing.T) {
	w := newEnv(t)
	tracer, recorded := recorder(t)
	w.tracer = tracer
	agent := oneStep(func(ctx context.Context, _ *Turn, s *Step) error {
		if calls := s.ApprovedCalls(); len(calls) > 0 {
			return calls[0].End(ctx, "sent")
		}
		return s.Tool("c1", "mail").AskApproval(ctx, map[string]any{}, time.Time{})
	})
	c := execute("waiting", "talker", "Send it")
	c.TraceParent = caller
	worker := w.worker(map[string]Agent{"talker": agent})
	if err := worker.handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	spans := recorded.GetSpans()
	if got := attributesOf(named(t, spans, "invoke_agent talker"))["tailrace.outcome"]; got != "suspended" {
		t.Errorf("outcome of the run: %s", got)
	}
	step := named(t, spans, "chat")
	if !slices.ContainsFunc(step.Events, func(e sdktrace.Event) bool { return e.Name == "tool call handed over" }) || step.Status.Code == codes.Error {
		t.Errorf("events of the step: %v, status %v", step.Events, step.Status)
	}
	if slices.ContainsFunc(spans, func(s tracetest.SpanStub) bool { return strings.HasPrefix(s.Name, "execute_tool") }) {
		t.Error("a call that waits for a user has a span")
	}
	recorded.Reset()
	w.answer(control.Answer{Session: c.Session, RunID: c.RunID, CallID: "c1", Kind: control.Approval, ApprovalID: approvalID(c.RunID, "c1"), Approved: true})
	resume := c
	resume.Kind, resume.RunID, resume.Resumes, resume.Input = control.Resume, "r2", c.RunID, nil
	if err := worker.handle(t.Context(), resume); err != nil {
		t.Fatal(err)
	}
	spans = recorded.GetSpans()
	if tool := named(t, spans, "execute_tool mail"); tool.Parent.SpanID() != named(t, spans, "chat").SpanContext.SpanID() {
		t.Error("the approved call is not below the step that runs it")
	}
}
