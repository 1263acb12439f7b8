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
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/hublog"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
	"github.com/tailrace/tailrace/sseedge/chat"
	"github.com/tailrace/tailrace/sseedge/hub"
	"github.com/tailrace/tailrace/workers"
)

// town is a server with edges, each on a connection of its own, and with workers
// that play the script below.
type town struct {
	t       *testing.T
	connect func() jetstream.JetStream
	opt     dialect.Options
	log     *slog.Logger
	acts    *script
	edges   []string // URLs
	kill    func()   // the worker that was started last, with kill -9

	killEdge func() // the last edge, if it is a process
}

func makeTown(t *testing.T, opt dialect.Options) *town {
	t.Helper()
	return &town{t: t, opt: opt, acts: newScript(), log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))}
}

// newTown is a town in this process, with two edges.
func newTown(t *testing.T, opt dialect.Options) *town {
	t.Helper()
	opt.ClientTool = clientTool
	w := makeTown(t, opt)
	srv := natstest.Start(t)
	w.connect = func() jetstream.JetStream { return srv.JetStream(t) }
	if err := topology.Ensure(t.Context(), w.connect(), topology.Config{}); err != nil {
		t.Fatal(err)
	}
	w.edge()
	w.edge()
	return w
}

// edge starts an edge.
func (w *town) edge() {
	w.t.Helper()
	js := w.connect()
	reader, err := consumers.New(js.Conn(), js, consumers.Config{})
	w.must(err)
	store, err := kvstore.New(js, kvstore.Config{})
	w.must(err)
	queue, err := commands.New(js, commands.Config{})
	w.must(err)
	box, err := inbox.New(js, inbox.Config{})
	w.must(err)
	h, err := hub.New(hublog.Log{Reader: reader}, hublog.Feed{Reader: reader}, hub.Config{Encode: chat.Encode, Log: w.log})
	w.must(err)
	service, err := chat.New(chat.Config{
		Snapshots: projector.NewReader(store, natssource.Log{Reader: reader}), Commands: queue, Inbox: box, Live: chat.Hub{Hub: h},
		AgentTypes: []string{"actor"}, Dialect: w.opt, Log: w.log,
	})
	w.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running errgroup.Group
	running.Go(func() error { return h.Run(ctx) })
	front := httptest.NewServer(service)
	w.t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		cancel()
		if err := running.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	})
	w.edges = append(w.edges, front.URL)
}

// worker starts a worker.
func (w *town) worker() {
	w.t.Helper()
	js := w.connect()
	made, err := workers.New(js, workers.Config{
		Agents: map[string]workers.Agent{"actor": w.acts, "helper": w.acts}, Grace: workers.NoGrace,
		Queue:    commands.Config{AckWait: time.Second, RetryDelay: 20 * time.Millisecond},
		Producer: producers.Config{Linger: time.Millisecond, Patience: 10 * time.Second},
		Log:      w.log,
	})
	w.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan struct{})
	nc := js.Conn()
	go func() {
		defer close(done)
		if err := made.Run(ctx); err != nil && !nc.IsClosed() {
			w.t.Errorf("a worker: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		w.acts.curtain()
		cancel()
		<-done
		if err := made.Close(); err != nil && !nc.IsClosed() {
			w.t.Error(err)
		}
	})
	w.kill = nc.Close
}

func (w *town) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// page is a page of the stock client before an edge.
type page struct {
	*chatPage

	town *town
	url  string
	id   string
	t    *testing.T
}

var chats atomic.Int64

// newPage is a page with a chat of its own, before the first edge.
func (w *town) newPage(t *testing.T, j *judge, with map[string]any) *page {
	t.Helper()
	return w.pageOf(t, j, w.edges[0], fmt.Sprintf("chat%d", chats.Add(1)), with)
}

func (w *town) pageOf(t *testing.T, j *judge, url, id string, with map[string]any) *page {
	t.Helper()
	whole := map[string]any{"api": url + "/api/chat", "chatId": id, "auto": true, "hook": j.major == 6}
	maps.Copy(whole, with)
	return &page{chatPage: j.open(t, whole), town: w, url: url, id: id, t: t}
}

// another is a page with another chat.
func (p *page) another(with map[string]any) *page {
	p.t.Helper()
	return p.town.newPage(p.t, p.judge, with)
}

// reload is a page of the same chat that is loaded now: hydrated, not resumed yet.
func (p *page) reload(with map[string]any) *page {
	p.t.Helper()
	messages, cursor := p.snapshot()
	whole := map[string]any{"messages": messages, "cursor": cursor}
	maps.Copy(whole, with)
	return p.town.pageOf(p.t, p.judge, p.url, p.id, whole)
}

// snapshot is what the edge serves to a page that is loaded, and the cursor with
// which it resumes.
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

// say sends what a person says and waits until the page rests.
func (p *page) say(text string) chatState {
	p.t.Helper()
	return p.act(p.t, "send", map[string]any{"text": text})
}

// begin sends it and waits for a text to appear.
func (p *page) sayUntil(text, sign string) chatState {
	p.t.Helper()
	p.begin(p.t, "send", map[string]any{"text": text})
	return p.until(p.t, map[string]any{"text": sign})
}

// shows makes sure that the page is at rest and shows what the snapshot says.
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

// differs says where the page shows something else than the snapshot, or what the
// SDK does not take for messages of its own in that.
func (p *page) differs() string {
	p.t.Helper()
	snapshot, _ := p.snapshot()
	if errs := p.judge.check(p.t, snapshot); len(errs) > 0 {
		return fmt.Sprintf("the snapshot is no history: %v\n%s", errs, bytes.Join(raw(snapshot), []byte("\n")))
	}
	var v verdict
	p.judge.ask(p.t, "compare", map[string]any{"chat": p.key, "messages": snapshot, "portable": p.town.opt.Major < 7}, &v)
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

// script is the agent of a town. What people say is what it plays; a cue lets it
// go on where it waits.
type script struct {
	mu   sync.Mutex // guards cues and came
	cues map[string]chan struct{}
	came map[string]int // how often the cue of a session was waited for
	end  chan struct{}
	once sync.Once
}

func newScript() *script {
	return &script{cues: make(map[string]chan struct{}), came: make(map[string]int), end: make(chan struct{})}
}

func (s *script) curtain() { s.once.Do(func() { close(s.end) }) }

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

// give lets the session go on that waits for the cue, now and whenever it plays
// this again.
func (s *script) give(session string) { close(s.cue(session)) }

// times is how often anybody waited for the cue of a session.
func (s *script) times(session string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came[session]
}

func (s *script) wait(ctx context.Context, session string) error {
	cue := s.cue(session)
	s.mu.Lock()
	s.came[session]++
	s.mu.Unlock()
	select {
	case <-cue:
		return nil
	case <-s.end:
		return errors.New("the curtain fell")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answer plays.
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
			step.Final()
			return step.Text(ctx, "lo")
		case words == "where" && first:
			return step.Tool("c1", "page_where").AskClient(ctx, map[string]any{"exact": true}, time.Time{})
		case strings.HasPrefix(words, "ask ") && first:
			return step.Tool("c1", workers.SubagentTool("helper")).Delegate(ctx, map[string]any{"message": words[4:]})
		case words == "delete" && first:
			return errors.Join(step.Text(ctx, "Shall I?"), step.Tool("c1", "delete").AskApproval(ctx, map[string]any{"all": true}, time.Time{}))
		}
		for _, call := range step.Granted() {
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
		step.Final()
		return step.Text(ctx, "Done: "+words)
	})
}
