package agentserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// env is a server with the streams of Tailrace, an edge that serves sessions,
// chats and this surface, and workers.
type env struct {
	*stack.Stack

	t      *testing.T
	logic  *conversation.Service
	edge   *httpedge.Edge
	server *Server
	url    string
}

const tenant = "acme"

// must fails the test if a constructor returns an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// edgeConfig is all that an edge is made of.
type edgeConfig struct {
	Config

	edge  httpedge.Config
	logic runs.Config
}

// newEnv assembles an edge as cmd/tailrace does.
func newEnv(t *testing.T, change func(*edgeConfig)) *env {
	t.Helper()
	w := &env{Stack: stack.Start(t, stack.Options{}), t: t}
	cfg := edgeConfig{
		edge:  httpedge.Config{Authenticator: authtest.None(t, tenant), Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
		logic: runs.Config{Config: conversation.Config{AgentTypes: []string{"helper", "other"}}},
	}
	if change != nil {
		change(&cfg)
	}
	w.logic = must(runs.New(w.JS, cfg.logic))(t)
	w.edge = must(httpedge.New(w.Log, w.Reader, cfg.edge))(t)
	must(chat.New(w.edge, w.logic, chat.Config{}))(t)
	w.server = must(New(w.edge, w.logic, cfg.Config))(t)
	w.url = w.Serve(w.edge, w.edge.Run).URL
	return w
}

// work serves the agent until the test ends.
func (w *env) work(agent workers.AgentFunc) {
	w.t.Helper()
	p := w.NewProcess(natsauth.Worker)
	worker := must(workers.New(p.JS, workers.Config{
		Agents: map[string]workers.Agent{"helper": agent},
		Lease:  250 * time.Millisecond, RetryDelay: 20 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}))(w.t)
	p.Go(worker.Run)
}

// answered is a response.
type answered struct {
	status int
	body   string
	header http.Header
}

// member returns a text member of the response, "" if it is missing.
func (a answered) member(name string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(a.body), &all) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(all[name], &text) != nil {
		return string(all[name])
	}
	return text
}

// String returns the status, and the code of a refusal.
func (a answered) String() string {
	if code := a.member("code"); code != "" {
		return fmt.Sprintf("%d %s", a.status, code)
	}
	return fmt.Sprint(a.status)
}

func (w *env) try(ctx context.Context, method, path, body string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, header)
	return http.DefaultClient.Do(req)
}

func (w *env) ask(method, path, body string) answered {
	w.t.Helper()
	resp, err := w.try(w.t.Context(), method, path, body, nil)
	if err != nil {
		w.t.Error(err)
		return answered{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Error(err)
	}
	return answered{resp.StatusCode, string(text), resp.Header}
}

func (w *env) post(path, body string) answered {
	w.t.Helper()
	return w.ask(http.MethodPost, "/agents"+path, body)
}

func (w *env) status(session string) answered {
	w.t.Helper()
	return w.ask(http.MethodGet, "/agents/status?sessionId="+session, "")
}

func (w *env) awaitStatus(session, want string) answered {
	w.t.Helper()
	var got answered
	natstest.Eventually(w.t, session+" is "+want, func(ctx context.Context) error {
		resp, err := w.try(ctx, http.MethodGet, "/agents/status?sessionId="+session, "", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		got = answered{resp.StatusCode, string(text), resp.Header}
		if got.member("status") != want {
			return fmt.Errorf("%d %s", got.status, got.body)
		}
		return nil
	})
	return got
}

func (w *env) snapshot(session string) fold.Snapshot {
	w.t.Helper()
	return w.Snapshot(chunk.RootSession(tenant, session))
}

// sseEvent is one event of a stream.
type sseEvent struct {
	id   string
	data string
}

// listen reads events from a cursor until see returns true, or the stream ends.
func (w *env) listen(ctx context.Context, path, cursor string, see func(sseEvent) bool) error {
	header := http.Header{}
	if cursor != "" {
		header.Set("Last-Event-ID", cursor)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := w.try(ctx, http.MethodGet, path, "", header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return fmt.Errorf("%d %s: %w", resp.StatusCode, text, err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var e sseEvent
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.data != "" && see(e) {
				return nil
			}
			e = sseEvent{}
		}
	}
	return fmt.Errorf("the stream ended: %w", lines.Err())
}
