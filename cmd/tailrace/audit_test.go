package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// auditReader reads what the edge of a matrix has recorded.
type auditReader struct {
	*matrix

	store *jscontrol.Audit
	seen  uint64
	text  []string // all events as JSON
}

func newAuditReader(t *testing.T, m *matrix) *auditReader {
	t.Helper()
	store, err := jscontrol.NewAudit(m.JS, subjects.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	return &auditReader{matrix: m, store: store}
}

// next returns the events since the last call.
func (a *auditReader) next(t *testing.T) []audit.Event {
	t.Helper()
	if err := a.edge.audit.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var events []audit.Event
	for e, err := range a.store.Events(t.Context(), jscontrol.AuditQuery{}) {
		if err != nil || e.Err != nil {
			t.Fatal(err, e.Err)
		}
		if e.Seq <= a.seen {
			continue
		}
		a.seen = e.Seq
		data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		a.text = append(a.text, string(data))
		events = append(events, e.Event)
	}
	return events
}

// one returns the only event since the last call.
func (a *auditReader) one(t *testing.T, what string) audit.Event {
	t.Helper()
	events := a.next(t)
	if len(events) != 1 {
		t.Errorf("%s: %d events, want 1: %+v", what, len(events), events)
		return audit.Event{}
	}
	return events[0]
}

// suspended writes a session of ann that waits for an approval of the call c1, and returns its id and that of the approval.
func (m *matrix) suspended(t *testing.T, id string) (session, approval string) {
	t.Helper()
	run, err := m.writer.Start(t.Context(), chunk.RootSession("acme", id), chunk.RunStarted{
		RunID: "run-" + id, Mode: "execute", Input: []chunk.InputMessage{{Content: "the secret of ann"}}, By: &chunk.Principal{Subject: "ann"},
	}, producers.AgentType("demo"))
	if err != nil {
		t.Fatal(err)
	}
	approval, call := "run-"+id+"::c1", "c1"
	for _, b := range []chunk.Body{
		chunk.ToolApprovalRequest{ToolCallID: call, ToolName: "delete_file", ApprovalID: approval, Input: chunk.Value(`{"path":"secret"}`)},
		chunk.RunPaused{RunID: "run-" + id, Reason: "suspended_client_tool", PendingToolCallID: &call},
	} {
		if err := run.EmitBody(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Pause(t.Context(), "suspended_client_tool"); err != nil {
		t.Fatal(err)
	}
	return id, approval
}

// Each route records one event for each refused access and for each act, with the client and without content.
func TestAudit(t *testing.T) {
	m := newMatrix(t)
	a := newAuditReader(t, m)
	ann := auth.Grant{Tenant: "acme", Subject: "ann", TokenID: "token-of-ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}
	token := func(change func(*auth.Grant)) string {
		g := ann
		change(&g)
		return m.issuer.Token(g, time.Hour, nil)
	}
	all := token(func(*auth.Grant) {})
	otherSession := token(func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"another"}} })
	otherOwner := token(func(g *auth.Grant) { g.Subject, g.Sessions = "bob", auth.Sessions{Own: true} })
	for i, p := range m.edge.edge.Policies() {
		route, known := p.Method+" "+p.Path, m.sessionFor(p, fmt.Sprintf("s-known%d", i))
		m.send(t, p, known, "")
		if p.Public {
			if events := a.next(t); len(events) != 0 {
				t.Errorf("%s: public: %+v", route, events)
			}
			continue
		}
		if e := a.one(t, route+" without a credential"); e.Act != audit.Access || e.Outcome != audit.Refused || e.Status != 401 || e.Tenant != "" || e.By != nil || e.Route != route || e.Address != "127.0.0.1" || e.Reason != "UNAUTHENTICATED" {
			t.Errorf("%s: without a credential: %+v", route, e)
		}
		m.send(t, p, known, token(func(g *auth.Grant) { g.Scopes = auth.AllScopes &^ p.Scope }))
		e := a.one(t, route+" without rights")
		if e.Act != audit.Access || e.Status != http.StatusForbidden && e.Status != http.StatusNotFound || e.Tenant != "acme" || e.By == nil || e.By.Subject != "ann" || e.By.TokenID != "token-of-ann" || e.Route != route {
			t.Errorf("%s: without rights: %+v", route, e)
		}
		if p.NamesSessions && e.Session.ID != known {
			t.Errorf("%s: without rights: session %q", route, e.Session)
		}
		if !ofSession(p) {
			continue
		}
		for name, other := range map[string]string{"other session": otherSession, "other owner": otherOwner} {
			m.send(t, p, known, other)
			if e := a.one(t, route+", "+name); e.Act != audit.Access || e.Reason != audit.ReasonHidden || e.Session.ID != known || e.By == nil {
				t.Errorf("%s: %s: %+v", route, name, e)
			}
		}
		if p.Method == http.MethodGet {
			m.send(t, p, known, all)
			if events := a.next(t); len(events) != 0 {
				t.Errorf("%s: read: %+v", route, events)
			}
		}
	}

	for _, tt := range []struct {
		method, path, session, body string
		want                        audit.Act
		run, call                   string
	}{
		{"POST", "/api/chat", "c-1", "", audit.Message, "", ""},
		{"POST", "/api/chat/{id}", "c-2", "", audit.Message, "", ""},
		{"POST", "/api/chat/{id}/stop", "c-2", "", audit.Interrupt, "", ""},
		{"POST", "/agents/start", "a-1", "", audit.Start, "", ""},
		{"POST", "/agents/interrupt", "a-1", "", audit.Interrupt, "", ""},
		{"POST", "/agents/start", "a-2", "", audit.Start, "", ""},
		{"POST", "/agents/abort", "a-2", "", audit.Abort, "", ""},
		{"POST", "/api/chat/{id}/answers", "w-1", `{"kind":"approval-response","toolCallId":"c1","approvalId":"run-w-1::c1","approved":true,"reason":"secret"}`, audit.Approve, "run-w-1", "c1"},
		{"POST", "/api/chat/{id}/answers", "w-2", `{"kind":"approval-response","toolCallId":"c1","approvalId":"run-w-2::c1","approved":false,"reason":"secret"}`, audit.Deny, "run-w-2", "c1"},
		{"DELETE", "/v1/sessions/{id}", "c-1", "", audit.Delete, "", ""},
		{"POST", "/v1/sessions/{id}/runs", "i-1", `{"runId":"i1"}`, audit.OpenRun, "i1", ""},
		{"POST", "/v1/sessions/{id}/runs/{run}/cleanup", "i-1", `{"step":0}`, audit.CleanUpRun, "i1", ""},
		{"POST", "/v1/sessions/{id}/runs/{run}/pause", "i-1", `{"reason":"secret"}`, audit.PauseRun, "i1", ""},
		{"POST", "/v1/sessions/{id}/runs/{run}/end", "i-1", `{"finalOutput":"secret"}`, audit.EndRun, "i1", ""},
		{"POST", "/v1/sessions/{id}/runs", "i-2", `{}`, audit.OpenRun, "", ""},
		{"POST", "/v1/sessions/{id}/runs", "i-2", `{"runId":"i1","takeOver":true}`, audit.TakeOverRun, "i1", ""},
		{"POST", "/v1/sessions/{id}/runs/{run}/fail", "i-2", `{"error":"secret"}`, audit.FailRun, "i1", ""},
	} {
		what := tt.method + " " + tt.path + " " + tt.session
		if strings.HasPrefix(tt.session, "w-") {
			m.suspended(t, tt.session)
		}
		body := tt.body
		if body == "" && tt.method == "POST" {
			body = bodyOf(tt.path, tt.session)
		}
		epoch := 1
		if tt.session == "i-2" {
			epoch = 2
		}
		address := strings.Replace(tt.path, "/{run}/", "/i1/", 1)
		if address != tt.path {
			address += fmt.Sprintf("?epoch=%d", epoch)
		}
		status := m.do(t, httpkit.Policy{Method: tt.method, Path: address}, tt.session, all, body)
		e := a.one(t, what)
		if status > 299 || e.Act != tt.want || e.Outcome != audit.Done || e.Tenant != "acme" || e.By == nil || e.By.Subject != "ann" || e.By.TokenID != "token-of-ann" || e.Route != tt.method+" "+tt.path || e.Address != "127.0.0.1" {
			t.Errorf("%s: %d, %+v", what, status, e)
		}
		if e.Session.ID != tt.session || tt.want != audit.Delete && e.Run == "" || tt.run != "" && e.Run != tt.run || e.Call != tt.call {
			t.Errorf("%s: %+v", what, e)
		}
	}
	m.suspended(t, "w-3")
	answers := httpkit.Policy{Method: "POST", Path: "/api/chat/{id}/answers"}
	of := `{"kind":"approval-response","toolCallId":"c1","approvalId":"run-w-3::c1","approved":true,"inputHash":"` + control.InputHash(chunk.Value(`{"path":"other"}`)) + `"}`
	if status := m.do(t, answers, "w-3", all, of); status != http.StatusConflict {
		t.Errorf("an approval of another input: %d", status)
	}
	if events := a.next(t); len(events) != 0 {
		t.Errorf("an approval of another input: %+v", events)
	}
	if status := m.do(t, answers, "w-3", all, strings.Replace(of, control.InputHash(chunk.Value(`{"path":"other"}`)), control.InputHash(chunk.Value(`{ "path":"secret" }`)), 1)); status != http.StatusNoContent {
		t.Errorf("an approval of the input that was shown: %d", status)
	}
	a.one(t, "an approval of the input that was shown")

	service, err := runs.New(m.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"demo"}, Audit: audit.New(audit.Config{Store: a.store, Mode: audit.Sync})}})
	if err != nil {
		t.Fatal(err)
	}
	cron := service.As(conversation.Caller{By: &chunk.Principal{Subject: "cron"}})
	if _, refusal := cron.Start(t.Context(), conversation.StartRequest{Session: chunk.RootSession("acme", "p-1"), AgentType: "demo"}); refusal != nil {
		t.Fatal(refusal)
	}
	if e := a.one(t, "a program"); e.Act != audit.Start || e.By == nil || e.By.Subject != "cron" || e.Session.ID != "p-1" || e.Route != "" {
		t.Errorf("a program: %+v", e)
	}
	for _, text := range a.text {
		for _, secret := range []string{"secret", "Bearer", all[20:60], otherSession[20:60], `"hi"`, "delete_file"} {
			if strings.Contains(text, secret) {
				t.Errorf("%q is in %s", secret, text)
			}
		}
	}
	m.printAudit(t)
}

// printAudit runs the command.
func (m *matrix) printAudit(t *testing.T) {
	t.Helper()
	show := func(args ...string) []string {
		t.Helper()
		code, out, errs := runCommand(t, "", append([]string{"audit", "--nats-url", m.Server.URL, "--no-follow"}, args...)...)
		if code != exitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, errs)
		}
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	lines := show("--session", "w-1")
	if len(lines) != 1 || !strings.Contains(lines[0], `"type":"audit.approve"`) || !strings.Contains(lines[0], `"subject":"ann"`) {
		t.Errorf("json: %q", lines)
	}
	lines = show("--session", "w-1", "--format", "text", "--tenant", "acme", "--since", "1h")
	if len(lines) != 1 || !strings.Contains(lines[0], "approve      done      tenant=acme subject=ann") || !strings.Contains(lines[0], "token=token-of-ann session=w-1 run=run-w-1 call=c1") {
		t.Errorf("text: %q", lines)
	}
	if lines := show("--tenant", "umbrella"); len(lines) != 1 || lines[0] != "" {
		t.Errorf("other tenant: %q", lines)
	}
	for _, bad := range [][]string{{"--format", "xml"}, {"--tenant", "a.b"}, {"--since", "-1h"}, {"more"}} {
		tailrace(t, exitUsage, append([]string{"audit"}, bad...)...)
	}
}

// do sends a request with a body, reads the header of the response and returns its status.
func (m *matrix) do(t *testing.T, p httpkit.Policy, id, token, body string) int {
	t.Helper()
	resp, err := do(t.Context(), p.Method, m.url+strings.ReplaceAll(p.Path, "{id}", id), body, bearer(token))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}
