package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

const tenant = "acme"

// env is a log with edges.
type env struct {
	*stack.Stack

	t      testing.TB
	edges  []edge
	config httpedge.Config // of the edges
}

// edge is one edge, with a connection and the rights of that role.
type edge struct {
	url    string
	site   *stack.Site
	edge   *httpedge.Edge
	server *Server
}

type envConfig struct {
	Config

	edges    int
	on       stack.Server // nil for one in this process
	replicas int
	edge     httpedge.Config
	producer producers.Config
	dies     bool // in place of what follows the end of a run
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// newEnv assembles edges as cmd/tailrace does.
func newEnv(tb testing.TB, change func(*envConfig)) *env {
	tb.Helper()
	cfg := envConfig{edges: 1, edge: httpedge.Config{Authenticator: authtest.None(tb, tenant), Log: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}}
	if change != nil {
		change(&cfg)
	}
	w := &env{Stack: stack.Start(tb, stack.Options{On: cfg.on, Topology: topology.Config{Replicas: cfg.replicas}}), t: tb, config: cfg.edge}
	for range cfg.edges {
		w.edges = append(w.edges, w.newEdge(cfg))
	}
	return w
}

func (w *env) newEdge(cfg envConfig) edge {
	w.t.Helper()
	p := w.NewProcess(natsauth.Edge)
	cfg.producer.Positions = w.Reader
	producer := must(producers.New(p.JS, cfg.producer))(w.t)
	w.t.Cleanup(func() { _ = producer.Close() }) // the last requests of a test may be cut
	e := edge{edge: must(httpedge.New(w.Log, w.Reader, cfg.edge))(w.t)}
	runs := jsingest.New(producer, dialects.NewTranslator)
	if cfg.dies {
		runs.OnEnd(func(context.Context, chunk.Session) { panic(http.ErrAbortHandler) })
	} else {
		runs.OnEnd(must(workers.NewReaper(p.JS, workers.ReaperConfig{}))(w.t).StartQueued)
	}
	e.server = must(New(e.edge, runs, cfg.Config))(w.t)
	e.site = w.Serve(e.edge, e.edge.Run)
	e.url = e.site.URL
	return e
}

// answer is a response.
type answer struct {
	status int
	body   string
	header http.Header
}

// members returns the members of the last line.
func (a answer) members() (m map[string]any) {
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	_ = json.Unmarshal([]byte(lines[len(lines)-1]), &m) // the caller misses the members
	return m
}

func (a answer) number(name string) int64 {
	n, _ := a.members()[name].(float64)
	return int64(n)
}

func (a answer) text(name string) string {
	s, _ := a.members()[name].(string)
	return s
}

// String returns the status, and the code of a problem, also of one in a line.
func (a answer) String() string {
	if code := a.text("code"); code != "" {
		return fmt.Sprintf("%d %s", a.status, code)
	}
	return fmt.Sprint(a.status)
}

// send sends a request. The error is that of the connection; the answer has what arrived before it.
func (e edge) send(ctx context.Context, method, path, media string, body io.Reader, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, body)
	if err != nil {
		return answer{}, err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), resp.Header}, err
}

func (w *env) ask(method, path, body string, header ...string) answer {
	w.t.Helper()
	media := ""
	if body != "" {
		media = "application/json"
	}
	a, err := w.edges[0].send(w.t.Context(), method, path, media, strings.NewReader(body), header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// append sends lines.
func (w *env) append(path, lines string, header ...string) answer {
	w.t.Helper()
	a, err := w.edges[0].send(w.t.Context(), http.MethodPost, path, "application/x-ndjson", strings.NewReader(lines), header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// lines returns the records of a session without the members that differ by the time, one a line.
func (w *env) lines(s chunk.Session) string {
	w.t.Helper()
	var b strings.Builder
	for _, c := range w.Chunks(s) {
		c.Timestamp = 1
		text, err := c.AppendJSON(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// notes returns the data of the custom events of a session.
func (w *env) notes(session string) (all []string) {
	w.t.Helper()
	for _, b := range w.Bodies(chunk.RootSession(tenant, session)) {
		if b, ok := b.(chunk.Custom); ok {
			all = append(all, string(b.Data))
		}
	}
	return all
}
