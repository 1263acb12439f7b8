package agentserver

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/workers"
)

// confiding thinks and asks; then it ends with a text.
func confiding(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		if t.Steps() > 0 {
			for _, call := range s.ApprovedCalls() {
				if err := call.End(ctx, "paid"); err != nil {
					return err
				}
			}
			s.MarkFinal()
			return s.Text(ctx, "s3cret done")
		}
		return errors.Join(
			s.Tool("where", "location").AskClient(ctx, map[string]any{"a": "s3cret"}, time.Time{}),
			s.Tool("pay", "payment").AskApproval(ctx, map[string]any{"a": "s3cret"}, time.Time{}),
		)
	})
}

// A delegating client gets what its view shows: events, calls that it may answer, and the output. A hidden call is like one that does not exist.
func TestViews(t *testing.T) {
	views := must(view.New(view.Config{
		Default: "progress", Selectable: []string{"customer", "staff"},
		Views: map[string]view.View{
			"progress": {Types: []chunk.Type{chunk.TypeRunStarted}, Hide: map[chunk.Type][]string{chunk.TypeRunStarted: {"input"}}},
			"customer": {Preset: view.Public}, "staff": {Types: []chunk.Type{"*"}, SubAgents: true}, "board": {},
		},
	}))(t)
	w := newEnv(t, func(cfg *edgeConfig) { cfg.edge.Views = views })
	w.work(confiding)
	run := w.post("/start", startS1).member("runId")
	got := w.awaitStatus("s1", "suspended_client_tool")
	if strings.Contains(got.body, "where") || got.member("pendingToolCallIds") != "" {
		t.Errorf("the status is %s", got.body)
	}
	for _, name := range []string{"customer", "staff"} {
		if got := w.ask(http.MethodGet, "/agents/status?sessionId=s1&view="+name, ""); got.member("pendingToolCallIds") != `["where","pay"]` {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	for _, answer := range []string{`"toolCallId":"*","result":1`, `"kind":"approval-response","toolCallId":"*","approvalId":"` + run + `::*","approved":true`} {
		unknown := w.submits(strings.ReplaceAll(answer, "*", "nowhere"), "404 NOT_FOUND")
		for _, call := range []string{"where", "pay"} {
			if got := w.submits(strings.ReplaceAll(answer, "*", call), "404 NOT_FOUND"); got.body != unknown.body {
				t.Errorf("%s: %s, an unknown call: %s", call, got.body, unknown.body)
			}
		}
	}
	staff := func(path, body string) answered { return w.post(path+"?view=staff", `{"sessionId":"s1",`+body+`}`) }
	if got := staff("/submit-tool-result", `"toolCallId":"where","result":"s3cret"`); got.member("status") != "accepted" {
		t.Errorf("an answer to a shown call: %s", got.body)
	}
	if got := w.post("/submit-tool-result?view=customer", `{"sessionId":"s1","toolCallId":"where","result":1}`); got.member("status") != "already_completed" || strings.Contains(got.body, "s3cret") {
		t.Errorf("the first answer is %s", got.body)
	}
	staff("/submit-tool-result", `"kind":"approval-response","toolCallId":"pay","approvalId":"`+run+`::pay","approved":true`)
	if got := w.awaitStatus("s1", "completed"); strings.Contains(got.body, "s3cret") {
		t.Errorf("the hidden output is in %s", got.body)
	}
	for view, shows := range map[string]bool{"": false, "&view=customer": true, "&view=staff": true} {
		events := w.ask(http.MethodGet, "/agents/sse?sessionId=s1&after=0"+view, "").body
		if output := w.ask(http.MethodGet, "/agents/status?sessionId=s1"+view, "").member("output"); (output == "s3cret done") != shows || strings.Contains(events, "s3cret done") != shows {
			t.Errorf("view %q: output %q, events\n%s", view, output, events)
		}
	}
	for _, rt := range w.server.surface.Routes() {
		method, path, _ := strings.Cut(rt, " ")
		for _, name := range []string{"board", "none"} {
			target, body := path+"?view="+name, `{"sessionId":"s1","agentType":"helper","message":"hi","toolCallId":"where","result":1}`
			if method == http.MethodGet {
				target, body = target+"&sessionId=s1", ""
			}
			if got := w.ask(method, target, body); got.status != http.StatusBadRequest || !strings.Contains(got.body, "there is no such view") {
				t.Errorf("%s: %s %s", rt, got, got.body)
			}
		}
	}
}
