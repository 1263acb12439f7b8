package tailrace_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace"
	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/workers"
)

// serve serves the handler of a Tailrace until the test ends.
func (e *env) serve(tr *tailrace.Tailrace, a auth.Authenticator, o tailrace.Options) (url string) {
	e.t.Helper()
	h, err := tr.Handler(a, o)
	if err != nil {
		e.t.Fatal(err)
	}
	server := httptest.NewServer(h)
	e.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// request sends a request and returns the status and the body of the response, which may end with an error.
func (e *env) request(method, url, host, body string) (int, string, error) {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Host = host
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

const message = `{"id":"c1","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"good morning"}]}]}`

// A message of useChat is answered by a worker of the same process.
func TestChat(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{Tenant: "acme"})
	tr.Agent("support", workers.AgentFunc(echo))
	url := e.serve(tr, tailrace.Loopback(), tailrace.Options{ChatAgents: []string{"support"}, ClientTools: []string{"browser"}})
	e.run(tr)
	status, body, err := e.request(http.MethodPost, url+"/api/chat", "", message)
	if status != http.StatusOK || err != nil || !strings.Contains(body, "You said: good morning") || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("%d %v %s", status, err, body)
	}
	e.awaitPhase(tr, "c1", tailrace.PhaseCompleted)
	if got := text(t, e.follow(tr, "c1", chunk.Position{})); got != "You said: good morning" {
		t.Errorf("text %q", got)
	}
	if status, body, err := e.request(http.MethodGet, url+"/v1/sessions/c1/snapshot", "", ""); status != http.StatusOK || err != nil || !strings.Contains(body, "good morning") {
		t.Errorf("snapshot: %d %v %s", status, err, body)
	}
	if status, body, _ := e.request(http.MethodGet, url+"/v1/sessions/c1/snapshot", "attacker.example", ""); status/100 != 4 {
		t.Errorf("a request to another host: %d %s", status, body)
	}
	if status, body, _ := e.request(http.MethodDelete, url+"/v1/sessions/c1", "", ""); status/100 != 4 {
		t.Errorf("a deletion without Options.Delete: %d %s", status, body)
	}
}

// The roles of a deployment are those of different processes.
func TestRolesApart(t *testing.T) {
	e := newEnv(t)
	worker, edge, projector := e.open(tailrace.Config{}), e.open(tailrace.Config{}), e.open(tailrace.Config{})
	worker.Agent("support", workers.AgentFunc(echo))
	url := e.serve(edge, tailrace.Loopback(), tailrace.Options{ChatAgents: []string{"support"}, Delete: true})
	e.run(edge, tailrace.RoleEdge)
	stop := e.run(projector)
	e.run(worker, tailrace.RoleWorker)
	if status, body, err := e.request(http.MethodPost, url+"/api/chat", "", message); status != http.StatusOK || err != nil || !strings.Contains(body, "good morning") {
		t.Errorf("%d %v %s", status, err, body)
	}
	natstest.Eventually(t, "the session in the list, which the projector has stored", func(context.Context) error {
		if status, body, err := e.request(http.MethodGet, url+"/v1/sessions", "", ""); status != http.StatusOK || err != nil || !strings.Contains(body, `"c1"`) {
			return fmt.Errorf("%d %w %s", status, err, body)
		}
		return nil
	})
	stop()
	if status, body, err := e.request(http.MethodDelete, url+"/v1/sessions/c1", "", ""); status/100 != 2 || err != nil {
		t.Errorf("deletion: %d %v %s", status, err, body)
	}
}

// The end of Run ends an event stream after a complete event, and Run returns nil.
func TestRunDrains(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	url := e.serve(tr, tailrace.Loopback(), tailrace.Options{})
	stop := e.run(tr)
	run, err := tr.Write(t.Context(), "s1", chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Write(t.Context(), chunk.Chunk{Body: chunk.TextDelta{Delta: "half of"}}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/sessions/s1/events", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	for line := ""; !strings.Contains(line, "half of"); {
		if line, err = body.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if rest, err := io.ReadAll(body); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasSuffix(string(rest), "\n\n") {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
	if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
		t.Error(err)
	}
}

// Roles that do not fit the calls before are an error that names the missing call.
func TestRunErrors(t *testing.T) {
	e := newEnv(t)
	agent := func(tr *tailrace.Tailrace) { tr.Agent("support", workers.AgentFunc(echo)) }
	handler := func(tr *tailrace.Tailrace) { e.serve(tr, tailrace.Loopback(), tailrace.Options{}) }
	for want, row := range map[string]struct {
		prepare []func(*tailrace.Tailrace)
		roles   []tailrace.Role
	}{
		"want RoleEdge in Run":      {[]func(*tailrace.Tailrace){agent, handler}, []tailrace.Role{tailrace.RoleWorker, tailrace.RoleProjector}},
		"call of Handler":           {nil, []tailrace.Role{tailrace.RoleEdge}},
		"call of Agent":             {nil, []tailrace.Role{tailrace.RoleWorker}},
		`role "edges"`:              {nil, []tailrace.Role{"edges"}},
		`"support" was added twice`: {[]func(*tailrace.Tailrace){agent, agent}, nil},
		`"a b"`:                     {[]func(*tailrace.Tailrace){func(tr *tailrace.Tailrace) { tr.Agent("a b", workers.AgentFunc(echo)) }}, nil},
	} {
		tr := e.open(tailrace.Config{})
		for _, prepare := range row.prepare {
			prepare(tr)
		}
		if err := tr.Run(t.Context(), row.roles...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// Run, and what belongs before it, are refused after it.
func TestRunTwice(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	e.run(tr)()
	if err := tr.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("Run: %v", err)
	}
	if _, err := tr.Handler(tailrace.Loopback(), tailrace.Options{}); err == nil || !strings.Contains(err.Error(), "before Run") {
		t.Errorf("Handler: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Agent: no panic")
		}
	}()
	tr.Agent("late", workers.AgentFunc(echo))
}

// An origin that no browser sends is an error of Handler.
func TestHandlerErrors(t *testing.T) {
	e := newEnv(t)
	for _, o := range []tailrace.Options{{Origins: []string{"app.example"}}, {ChatAgents: []string{"a b"}}} {
		if _, err := e.open(tailrace.Config{}).Handler(tailrace.Loopback(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if _, err := e.open(tailrace.Config{}).Handler(nil, tailrace.Options{}); err == nil {
		t.Error("without an Authenticator: no error")
	}
}

// Run ends with an error when the program closes the connection.
func TestConnectionClosed(t *testing.T) {
	e := newEnv(t)
	js := e.JetStream(t)
	tr, err := tailrace.Open(t.Context(), js, tailrace.Config{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	e.serve(tr, tailrace.Loopback(), tailrace.Options{})
	ended := make(chan error)
	go func() { ended <- tr.Run(t.Context(), tailrace.RoleEdge) }()
	js.Conn().Close()
	if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("error %v", err)
	}
	_ = tr.Close()
}

// granted is an Authenticator that gives one Grant to each request.
type granted auth.Grant

func (g *granted) Authenticate(*http.Request) (*auth.Grant, error) { return (*auth.Grant)(g), nil }

// A Grant that no credential may have is refused, and a token in the query too.
func TestGrantsAreChecked(t *testing.T) {
	e := newEnv(t)
	for name, row := range map[string]struct {
		grant  *granted
		query  string
		status int
	}{
		"all sessions":         {&granted{Tenant: "acme", Subject: "ann"}, "", http.StatusOK},
		"a token in the query": {&granted{Tenant: "acme", Subject: "ann"}, "?access_token=x", http.StatusUnauthorized},
		"no tenant":            {&granted{Subject: "ann"}, "", http.StatusUnauthorized},
		"all tenants":          {&granted{Tenant: "*", Subject: "ann"}, "", http.StatusUnauthorized},
		"two tokens":           {&granted{Tenant: "acme.s1", Subject: "ann"}, "", http.StatusUnauthorized},
		"a subject of lines":   {&granted{Tenant: "acme", Subject: "ann\nbob"}, "", http.StatusUnauthorized},
		"expired":              {&granted{Tenant: "acme", Subject: "ann", ExpiresAt: time.Unix(1, 0)}, "", http.StatusUnauthorized},
		"no subject":           {&granted{Tenant: "acme"}, "", http.StatusUnauthorized},
		"nothing":              {nil, "", http.StatusUnauthorized},
	} {
		if row.grant != nil {
			row.grant.Scopes, row.grant.Sessions = auth.AllScopes, auth.Sessions{All: true}
		}
		url := e.serve(e.open(tailrace.Config{}), row.grant, tailrace.Options{})
		if status, body, err := e.request(http.MethodGet, url+"/v1/sessions"+row.query, "", ""); status != row.status || err != nil {
			t.Errorf("%s: %d %s, %v; want %d", name, status, body, err, row.status)
		}
	}
}
