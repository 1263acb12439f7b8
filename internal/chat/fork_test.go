package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/openapitest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// forkSite is an edge with chats and a worker, for clients with tokens.
type forkSite struct {
	*stack.Stack
	*authtest.Issuer

	t      *testing.T
	edge   *stack.Site
	doc    *openapitest.Document
	eraser *eraser
}

// eraser is a retention.Eraser with a hook before each deletion.
type eraser struct {
	*retention.Eraser

	before func(s chunk.Session) error
}

func (e *eraser) DeleteBy(ctx context.Context, s chunk.Session, by *chunk.Principal) error {
	if e.before != nil {
		if err := e.before(s); err != nil {
			return err
		}
	}
	return e.Eraser.DeleteBy(ctx, s, by)
}

func newForkSite(t *testing.T, agent workers.AgentFunc) *forkSite {
	t.Helper()
	w := &forkSite{Stack: stack.Start(t, stack.Options{}), Issuer: authtest.NewIssuer(t), t: t, doc: openapitest.Load(t)}
	views, err := view.New(view.Config{Views: map[string]view.View{"public": {Preset: view.Public}}})
	if err != nil {
		t.Fatal(err)
	}
	clients := stack.NewClients(t, w.NewProcess(natsauth.Edge).JS)
	store, err := jssnapshots.New(clients.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	deletes, err := retention.NewEraser(clients.JS, store, retention.EraserConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w.eraser = &eraser{Eraser: deletes}
	front, err := httpedge.New(clients.Log, clients.Reader, httpedge.Config{Authenticator: w.Issuer, Views: views, Eraser: w.eraser})
	if err != nil {
		t.Fatal(err)
	}
	logic, err := runs.New(clients.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"support"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chat.New(front, logic, chat.Config{}); err != nil {
		t.Fatal(err)
	}
	w.edge = w.Serve(front, front.Run)
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{Agents: map[string]workers.Agent{"support": agent}, RetryDelay: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.Go(worker.Run)
	return w
}

// repeat answers with the texts of the history.
func repeat(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		s.MarkFinal()
		var texts []string
		for _, m := range t.Messages() {
			texts = append(texts, m.Text())
		}
		return s.Text(ctx, strings.Join(texts, "|"))
	})
}

func (w *forkSite) as(change func(*auth.Grant)) string {
	g := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead | auth.ScopeChat | auth.ScopeFork, Sessions: auth.Sessions{All: true}}
	if change != nil {
		change(&g)
	}
	return "Bearer " + w.Token(g, time.Hour, nil)
}

// do sends a request and returns the status and the body, which are those of the document.
func (w *forkSite) do(method, path, token, body string) (int, string) {
	w.t.Helper()
	status, _, text := w.request(method, path, token, body)
	return status, text
}

// open returns the response when its headers are there.
func (w *forkSite) open(method, path, token, body string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.edge.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.edge.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

func (w *forkSite) request(method, path, token, body string) (int, http.Header, string) {
	w.t.Helper()
	resp := w.open(method, path, token, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.doc.Check(w.t, resp, text)
	return resp.StatusCode, resp.Header, string(text)
}

// say sends a message to a chat and waits for the end of its answer.
func (w *forkSite) say(id, token, text string) chunk.Session {
	w.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"messages":[{"id":"u-%s","role":"user","parts":[{"type":"text","text":%q}]}]}`, id, text, text)
	if status, answer := w.do(http.MethodPost, "/api/chat/"+url.PathEscape(id)+"?agentType=support", token, body); status != http.StatusOK {
		w.t.Fatalf("%d %s", status, answer)
	}
	s := chunk.RootSession("acme", id)
	w.AwaitStatus(s, fold.Ended)
	return s
}

func (w *forkSite) end(s chunk.Session) string {
	w.t.Helper()
	all := w.Records(s)
	return all[len(all)-1].Cursor().String()
}

// A fork over HTTP has the messages of its origin in the snapshot, answers a new message after them, and streams the answer.
func TestForkOverHTTP(t *testing.T) {
	w := newForkSite(t, repeat)
	token := w.as(nil)
	s := w.say("s1", token, "one")
	status, text := w.do(http.MethodPost, "/v1/sessions/s1/fork", token, fmt.Sprintf(`{"at":%q,"message":{"content":"two"}}`, w.end(s)))
	var forked conversation.Forked
	if err := json.Unmarshal([]byte(text), &forked); status != http.StatusCreated || err != nil || forked.At != w.end(s) || forked.Boundary != "end" || forked.Messages != 2 || forked.Run == "" {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	id := chunk.RootSession("acme", forked.Session)
	w.Await(id, "the end of its run", func(snap fold.Snapshot) bool { return snap.Run.ID == forked.Run && snap.Status == fold.Ended }) // the history of the origin has ended too
	_, text = w.do(http.MethodGet, "/v1/sessions/"+forked.Session+"/snapshot", token, "")
	var snap struct {
		Messages []struct {
			ID    string `json:"id"`
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"messages"`
		Origin struct {
			Session  string `json:"session"`
			Anchor   string `json:"anchor"`
			Run      string `json:"run"`
			Sequence int64  `json:"sequence"`
			Step     int64  `json:"step"`
		} `json:"origin"`
	}
	if err := json.Unmarshal([]byte(text), &snap); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range snap.Messages {
		for _, p := range m.Parts {
			if p.Text != "" {
				got = append(got, m.ID+" "+p.Text)
			}
		}
	}
	if want := "[msg-0 one msg-1 one msg-2 two msg-3 one|one|two]"; fmt.Sprint(got) != want || snap.Origin.Session != "s1" || snap.Origin.Anchor == "" || snap.Origin.Run == "" || snap.Origin.Step != 1 {
		t.Errorf("%v, want %s\norigin %+v", got, want, snap.Origin)
	}
	// The stream has the records of the fork in the dialect of records, and nothing of them in the native one.
	_, records := w.do(http.MethodGet, "/v1/sessions/"+forked.Session+"/events?dialect=records", token, "")
	_, native := w.do(http.MethodGet, "/v1/sessions/"+forked.Session+"/events", token, "")
	for _, typ := range []string{`"session_seed"`, `"session_forked"`} {
		if !strings.Contains(records, typ) || strings.Contains(native, typ) || !strings.Contains(native, "one|one|two") {
			t.Errorf("%s\nrecords: %s\nnative: %s", typ, records, native)
		}
	}
	// A chat continues in the fork.
	w.say(forked.Session, token, "three")
	if all := stack.Conversation(w.Snapshot(id)); !strings.Contains(all, "one|one|two|one|one|two|three") {
		t.Errorf("%s", all)
	}
	// The same request returns the same fork.
	if status, again := w.do(http.MethodPost, "/v1/sessions/s1/fork", token, fmt.Sprintf(`{"at":%q,"message":{"content":"two"}}`, w.end(s))); status != http.StatusCreated || !strings.Contains(again, forked.Run) {
		t.Errorf("%d %s", status, again)
	}
}

// While a fork continues a turn, the page has the steps of the origin, and the stream the rest of the same message.
func TestForkContinuesAMessage(t *testing.T) {
	gate := make(chan struct{}, 1)
	w := newForkSite(t, func(ctx context.Context, t *workers.Turn) error {
		for t.Steps() < 2 {
			if t.Steps() == 1 {
				<-gate
			}
			err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				if t.Steps() == 1 {
					s.MarkFinal()
				}
				return s.Text(ctx, fmt.Sprintf("part %d of %s", s.Number(), t.Session().ID))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	token := w.as(nil)
	gate <- struct{}{}
	s := w.say("s1", token, "go")
	at := ""
	for _, rec := range w.Records(s) {
		if rec.Type == chunk.TypeStepCommitted {
			at = rec.Cursor().String()
			break
		}
	}
	if status, text := w.do(http.MethodPost, "/v1/sessions/s1/fork", token, fmt.Sprintf(`{"at":%q,"session":"f1","continue":true}`, at)); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	fork := chunk.RootSession("acme", "f1")
	w.Await(fork, "its run", func(snap fold.Snapshot) bool { return snap.Status == fold.Active })
	for _, path := range []string{"/v1/sessions/f1/snapshot", "/api/chat/f1/snapshot"} {
		if _, page := w.do(http.MethodGet, path, token, ""); !strings.Contains(page, `"id":"msg-1"`) || !strings.Contains(page, "part 1 of s1") || !strings.Contains(page, `"status":"active"`) {
			t.Errorf("%s: %s", path, page)
		}
	}
	stream := w.open(http.MethodGet, "/api/chat/f1/stream", token, "")
	defer stream.Body.Close()
	gate <- struct{}{} // the run ends after the stream is open
	if text, err := io.ReadAll(stream.Body); err != nil {
		t.Fatal(err)
	} else if text := string(text); !strings.Contains(text, `"messageId":"msg-1"`) || !strings.Contains(text, "part 2 of f1") || strings.Contains(text, "part 1") {
		t.Errorf("the stream: %s", text)
	}
	w.AwaitStatus(fork, fold.Ended)
	if _, page := w.do(http.MethodGet, "/v1/sessions/f1/snapshot", token, ""); strings.Count(page, `"id":"msg-`) != 2 || !strings.Contains(page, "part 2 of f1") {
		t.Errorf("after the end: %s", page)
	}
}

// The rights of forks, and the codes of refusals. A client finds out nothing about sessions that it must not know.
func TestForkRights(t *testing.T) {
	w := newForkSite(t, repeat)
	all := w.as(nil)
	s := w.say("s1", all, "one")
	w.say("s2", all, "other")
	scopes := func(s auth.Scope) func(*auth.Grant) { return func(g *auth.Grant) { g.Scopes = s } }
	own := func(subject string) func(*auth.Grant) {
		return func(g *auth.Grant) { g.Subject, g.Sessions = subject, auth.Sessions{Own: true} }
	}
	at := fmt.Sprintf(`"at":%q`, w.end(s))
	for name, row := range map[string]struct {
		grant      func(*auth.Grant)
		path, body string
		status     int
		code       string
	}{
		"without fork":      {scopes(auth.ScopeRead | auth.ScopeChat), "s1", "{" + at + "}", 403, "FORBIDDEN"},
		"without chat":      {scopes(auth.ScopeRead | auth.ScopeFork), "s1", "{" + at + "}", 403, "FORBIDDEN"},
		"without read":      {scopes(auth.ScopeChat | auth.ScopeFork), "s1", "{" + at + "}", 404, "STREAM_NOT_FOUND"},
		"with a view":       {func(g *auth.Grant) { g.Views = []string{"public"} }, "s1", "{" + at + "}", 403, "FORBIDDEN"},
		"an approval":       {nil, "s1", "{" + at + `,"edits":[{"callId":"c1","approved":true}]}`, 403, "FORBIDDEN"},
		"of another owner":  {own("bob"), "s1", "{" + at + "}", 404, "STREAM_NOT_FOUND"},
		"unknown":           {own("bob"), "none", "{" + at + "}", 404, "STREAM_NOT_FOUND"},
		"another tenant":    {func(g *auth.Grant) { g.Tenant = "globex" }, "s1", "{" + at + "}", 404, "STREAM_NOT_FOUND"},
		"an id not covered": {func(g *auth.Grant) { g.Sessions = auth.Sessions{IDs: []string{"s1"}} }, "s1", "{" + at + "}", 403, "FORBIDDEN"},
		"an id in use":      {nil, "s1", "{" + at + `,"session":"s2"}`, 409, "SESSION_EXISTS"},
		"an id of another":  {own("bob"), "s1", "{" + at + `,"session":"s2"}`, 404, "STREAM_NOT_FOUND"},
		"a bad id":          {nil, "s1", "{" + at + `,"session":"a b"}`, 400, "VALIDATION_ERROR"},
		"no turn":           {nil, "s1", "{" + at + `,"continue":true}`, 409, "NO_OPEN_TURN"},
		"unknown call":      {nil, "s1", "{" + at + `,"edits":[{"callId":"c1","output":1}]}`, 422, "UNKNOWN_CALL"},
		"unknown message":   {nil, "s1", `{"before":"msg-9"}`, 404, "NOT_FOUND"},
		"another record":    {nil, "s1", fmt.Sprintf(`{"at":"%s-1"}`, strings.Split(w.end(s), "-")[0]), 410, "HISTORY_EXPIRED"},
		"unknown member":    {nil, "s1", "{" + at + `,"edit":[]}`, 400, "VALIDATION_ERROR"},
		"unknown agent":     {nil, "s1", "{" + at + `,"agentType":"none"}`, 400, "VALIDATION_ERROR"},
		"a bad message":     {nil, "s1", "{" + at + `,"message":"hi"}`, 400, "VALIDATION_ERROR"},
	} {
		status, text := w.do(http.MethodPost, "/v1/sessions/"+row.path+"/fork", w.as(row.grant), row.body)
		if status != row.status || !strings.Contains(text, `"code":"`+row.code+`"`) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, row.status, row.code)
		}
	}
	if n := len(w.Records(chunk.RootSession("globex", "s1"))); n > 0 {
		t.Errorf("%d records in another tenant", n)
	}
	// A client with own sessions forks its own, and owns the fork.
	s3 := w.say("s3", w.as(own("bob")), "mine")
	status, text := w.do(http.MethodPost, "/v1/sessions/s3/fork", w.as(own("bob")), fmt.Sprintf(`{"at":%q,"session":"f3"}`, w.end(s3)))
	if snap := w.Snapshot(chunk.RootSession("acme", "f3")); status != http.StatusCreated || snap.Owner == nil || snap.Owner.Subject != "bob" {
		t.Errorf("%d %s, owner %+v", status, text, snap.Owner)
	}
	if status, text := w.do(http.MethodGet, "/v1/sessions/f3/snapshot", w.as(own("ann")), ""); status != http.StatusNotFound {
		t.Errorf("another user: %d %s", status, text)
	}
	if status, text := w.do(http.MethodGet, "/v1/sessions/f3/snapshot?view=public", w.as(func(g *auth.Grant) { g.Views = []string{"public"} }), ""); status != http.StatusOK || strings.Contains(text, "origin") {
		t.Errorf("under a view: %d %s", status, text)
	}
}
