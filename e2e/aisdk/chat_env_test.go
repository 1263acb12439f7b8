//go:build e2e

package aisdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/workers"
)

// env is a server with edges, each with a separate connection, and with workers
// that run the script below.
type env struct {
	*stack.Stack

	t      *testing.T
	opt    dialect.Options
	log    *slog.Logger
	script *script
	edges  []string // URLs
	kill   func()   // kills the last started worker

	killEdge func() // kills the last edge, if it is a process
}

func prepareEnv(t *testing.T, opt dialect.Options) *env {
	t.Helper()
	return &env{t: t, opt: opt, script: newScript(), log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
}

// newEnv returns an env in this process with two edges.
func newEnv(t *testing.T, opt dialect.Options) *env {
	t.Helper()
	opt.ClientTool = clientTool
	w := prepareEnv(t, opt)
	w.Stack = stack.Start(t, stack.Options{})
	w.edge()
	w.edge()
	return w
}

// noSnapshots implements httpedge.Snapshots for edges whose clients request no snapshot.
type noSnapshots struct{ httpedge.Snapshots }

// edge starts an edge.
func (w *env) edge() {
	w.t.Helper()
	clients := stack.NewClients(w.t, w.NewProcess(natsauth.Edge).JS)
	logic, err := runs.New(clients.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"actor"}, Log: w.log}})
	w.must(err)
	edge, err := httpedge.New(clients.Log, noSnapshots{}, httpedge.Config{Authenticator: authtest.None(w.t, "default"), Log: w.log})
	w.must(err)
	_, err = chat.New(edge, logic, chat.Config{Dialect: w.opt})
	w.must(err)
	w.edges = append(w.edges, w.Serve(edge, edge.Run).URL)
}

// worker starts a worker.
func (w *env) worker() {
	w.t.Helper()
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{
		Agents: map[string]workers.Agent{"actor": w.script, "helper": w.script}, ShutdownTimeout: workers.Off,
		Lease: time.Second, RetryDelay: 20 * time.Millisecond, Pace: time.Millisecond, RetryTimeout: 10 * time.Second, Log: w.log,
	})
	w.must(err)
	w.t.Cleanup(func() {
		if err := worker.Close(); err != nil && !p.JS.Conn().IsClosed() {
			w.t.Error(err)
		}
	})
	p.Go(worker.Run)
	w.t.Cleanup(w.script.finish)
	w.kill = p.Kill
}

func (w *env) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// page is a page with a stock client of an edge.
type page struct {
	*chatPage

	env *env
	url string
	id  string
	t   *testing.T
}

var chats atomic.Int64

// newPage returns a page with a new chat that uses the first edge.
func (w *env) newPage(t *testing.T, j *sdkClient, with map[string]any) *page {
	t.Helper()
	return w.pageOf(t, j, w.edges[0], fmt.Sprintf("chat%d", chats.Add(1)), with)
}

func (w *env) pageOf(t *testing.T, j *sdkClient, url, id string, with map[string]any) *page {
	t.Helper()
	whole := map[string]any{"api": url + "/api/chat", "chatId": id, "auto": true, "hook": j.major == 6}
	maps.Copy(whole, with)
	return &page{chatPage: j.open(t, whole), env: w, url: url, id: id, t: t}
}

// another returns a page with another chat.
func (p *page) another(with map[string]any) *page {
	p.t.Helper()
	return p.env.newPage(p.t, p.sdkClient, with)
}

// reload returns a page of the same chat after a reload: with the messages of the
// snapshot, not resumed yet.
func (p *page) reload(with map[string]any) *page {
	p.t.Helper()
	messages, cursor := p.snapshot()
	whole := map[string]any{"messages": messages, "cursor": cursor}
	maps.Copy(whole, with)
	return p.env.pageOf(p.t, p.sdkClient, p.url, p.id, whole)
}

// snapshot returns the messages that the edge serves for a reload, and the
// cursor for the resume.
func (p *page) snapshot() (messages []verbatim, cursor uint64) {
	p.t.Helper()
	body := p.request(http.MethodGet, "/snapshot", "", http.StatusOK)
	var s struct {
		Messages       []json.RawMessage `json:"messages"`
		StreamSequence uint64            `json:"streamSequence"`
	}
	if err := json.Unmarshal(body, &s); err != nil {
		p.t.Fatal(err)
	}
	messages = []verbatim{}
	for _, m := range s.Messages {
		messages = append(messages, verbatim(m))
	}
	return messages, s.StreamSequence
}

func (p *page) request(method, path, body string, status int) []byte {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+"/api/chat/"+p.id+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		p.t.Fatalf("%s %s: status %d, want %d: %s (%v)", method, path, resp.StatusCode, status, text, err)
	}
	return text
}

// send sends a user message and waits until the page is idle.
func (p *page) send(text string) chatState {
	p.t.Helper()
	return p.act(p.t, "send", map[string]any{"text": text})
}

// sendUntil sends a user message and waits for a text to appear.
func (p *page) sendUntil(text, sign string) chatState {
	p.t.Helper()
	p.begin(p.t, "send", map[string]any{"text": text})
	return p.until(p.t, map[string]any{"text": sign})
}

// shows checks that the page is idle and shows the messages of the snapshot.
func (p *page) shows(want string) chatState {
	p.t.Helper()
	s := p.act(p.t, "rest")
	if s.String() != want || s.Status != "ready" && !strings.HasPrefix(want, "error") {
		p.t.Errorf("the page shows %q (%s %s %v), want %q", s, s.Status, s.Error, s.Errors, want)
	}
	if d := p.differs(); d != "" {
		p.t.Errorf("the page shows %s: %s", s, d)
	}
	return s
}

// differs returns the first difference between the page and the snapshot, or the
// errors of the SDK's validation of the snapshot.
func (p *page) differs() string {
	p.t.Helper()
	snapshot, _ := p.snapshot()
	if errs := p.sdkClient.check(p.t, snapshot); len(errs) > 0 {
		return fmt.Sprintf("invalid snapshot: %v\n%s", errs, bytes.Join(raw(snapshot), []byte("\n")))
	}
	var v foldResult
	p.sdkClient.ask(p.t, "compare", map[string]any{"chat": p.key, "messages": snapshot, "portable": p.env.opt.Major < 7}, &v)
	if v.Difference != "" {
		return v.Difference + "\n" + string(bytes.Join(raw(snapshot), []byte("\n")))
	}
	return ""
}

func raw(list []verbatim) [][]byte {
	var out [][]byte
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// script is the agent of an env. The user message selects its behavior; a cue
// continues it where it waits.
type script struct {
	mu    sync.Mutex // guards cues and waits
	cues  map[string]chan struct{}
	waits map[string]int // number of waits for the cue of a session
	end   chan struct{}
	once  sync.Once
}

func newScript() *script {
	return &script{cues: make(map[string]chan struct{}), waits: make(map[string]int), end: make(chan struct{})}
}

func (s *script) finish() { s.once.Do(func() { close(s.end) }) }

func (s *script) cue(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cues[name]
	if !ok {
		c = make(chan struct{})
		s.cues[name] = c
	}
	return c
}

// release continues the session that waits for the cue, now and in later runs.
func (s *script) release(session string) { close(s.cue(session)) }

// waitsOf returns the number of waits for the cue of a session.
func (s *script) waitsOf(session string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits[session]
}

func (s *script) wait(ctx context.Context, session string) error {
	cue := s.cue(session)
	s.mu.Lock()
	s.waits[session]++
	s.mu.Unlock()
	select {
	case <-cue:
		return nil
	case <-s.end:
		return errors.New("the test has ended")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answer runs the behavior that the user message selects.
func (s *script) Answer(ctx context.Context, t *workers.Turn) error {
	in := t.Input()
	words := ""
	if len(in) > 0 {
		words = in[len(in)-1].Content
	}
	first := t.Steps() == 0
	return t.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		switch {
		case words == "fail":
			return errors.Join(step.Text(ctx, "Well"), &workers.Error{Message: "the model is tired", Code: "provider_overloaded"})
		case words == "slow":
			if err := step.Text(ctx, "Hel"); err != nil {
				return err
			}
			if err := s.wait(ctx, t.Session().ID); err != nil {
				return err
			}
			step.MarkFinal()
			return step.Text(ctx, "lo")
		case words == "where" && first:
			return step.Tool("c1", "page_where").AskClient(ctx, map[string]any{"exact": true}, time.Time{})
		case strings.HasPrefix(words, "ask ") && first:
			return step.Tool("c1", workers.SubagentTool("helper")).Delegate(ctx, map[string]any{"message": words[4:]})
		case words == "delete" && first:
			return errors.Join(step.Text(ctx, "Shall I?"), step.Tool("c1", "delete").AskApproval(ctx, map[string]any{"all": true}, time.Time{}))
		}
		for _, call := range step.ApprovedCalls() {
			if err := call.End(ctx, map[string]any{"deleted": 3}); err != nil {
				return err
			}
		}
		if first {
			search := step.Tool("c0", "search")
			if err := errors.Join(
				step.Think(ctx, "hm"), search.Args(ctx, `{"q":`), search.Args(ctx, `"x"}`), search.Start(ctx, map[string]any{"q": "x"}), search.End(ctx, []int{1, 2}),
				step.Custom(ctx, "progress", map[string]any{"__proto__": 1}),
			); err != nil {
				return err
			}
		}
		step.MarkFinal()
		return step.Text(ctx, "Done: "+words)
	})
}
