//go:build e2e

package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

const tenant = "default"

// env is a NATS server with edges.
type env struct {
	*stack.Stack

	t        *testing.T
	producer *producers.Producer
}

func newEnv(t *testing.T) *env {
	t.Helper()
	w := &env{Stack: stack.Start(t, stack.Options{}), t: t}
	w.producer = w.NewWriter(producers.Config{Pace: time.Millisecond})
	return w
}

// edge serves an edge, and with it the handlers of other paths. change may be nil.
func (w *env) edge(change func(*httpedge.Config), handlers map[string]http.Handler) string {
	w.t.Helper()
	clients := stack.NewClients(w.t, w.NewProcess(natsauth.Edge).JS)
	cfg := httpedge.Config{
		Authenticator: authtest.None(w.t, tenant), RetryDelay: 10 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if change != nil {
		change(&cfg)
	}
	edge, err := httpedge.New(clients.Log, clients.Reader, cfg)
	w.must(err)
	mux := http.NewServeMux()
	mux.Handle("/", edge)
	for path, h := range handlers {
		mux.Handle(path, h)
	}
	return w.Serve(mux, edge.Run).URL
}

func (w *env) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func session(id string) chunk.Session { return chunk.RootSession(tenant, id) }

// start starts a run.
func (w *env) start(id string) *producers.Run {
	w.t.Helper()
	run, err := w.producer.Start(w.t.Context(), session(id), chunk.RunStarted{Mode: "execute", Input: []chunk.InputMessage{{Content: "question"}}})
	w.must(err)
	return run
}

// emit writes bodies.
func (w *env) emit(run *producers.Run, bodies ...chunk.Body) {
	w.t.Helper()
	for _, b := range bodies {
		w.must(run.EmitBody(w.t.Context(), b))
	}
}

// end ends a run.
func (w *env) end(run *producers.Run) {
	w.t.Helper()
	w.must(run.End(w.t.Context(), chunk.Value(`{"ok":true}`)))
}

// node runs a program of this directory and yields the lines of JSON that it writes. It reads lines of JSON from in.
type node struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan json.RawMessage
	done  chan struct{}
}

// program starts a program with options as its argument. It is killed when the test ends.
func program(t *testing.T, dir, path string, args ...string) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &node{t: t, lines: make(chan json.RawMessage, 100_000), done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, path, args...)
	p.cmd.Dir, p.cmd.Stderr = dir, t.Output()
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		defer close(p.lines)
		lines := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				_ = p.cmd.Wait() // its output tells whether it has failed
				return
			}
			p.lines <- line
		}
	}()
	t.Cleanup(func() {
		_ = p.in.Close()
		cancel()
		<-p.done
	})
	return p
}

// run starts a program of the TypeScript client.
func (b *built) run(t *testing.T, name string, options map[string]any) *node {
	t.Helper()
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return program(t, b.dir, b.node, name, string(text))
}

// next returns the next line, false at the end of the program.
func (p *node) next() (json.RawMessage, bool) {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		return line, ok
	case <-time.After(time.Minute):
		p.t.Fatal("no line within a minute")
		return nil, false
	}
}

// until returns the lines up to the first that is accepted.
func (p *node) until(what string, ok func(event) bool) (all []event) {
	p.t.Helper()
	for {
		line, more := p.next()
		if !more {
			p.t.Fatalf("the program ended before %s; it wrote %d lines, the last ones %+v", what, len(all), all[max(0, len(all)-3):])
		}
		e := readEvent(p.t, line)
		all = append(all, e)
		if ok(e) {
			return all
		}
	}
}

// event is a line of follow.mjs, and of the programs of the Python package.
type event struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Chunk     json.RawMessage `json:"chunk"`
	Sequence  chunk.Seq       `json:"sequence"`
	Snapshot  json.RawMessage `json:"snapshot"`
	Status    json.RawMessage `json:"status"`
	Reason    string          `json:"reason"`
	Error     string          `json:"error"`
	Code      string          `json:"code"`
	Retries   int             `json:"retries"`
	Refreshes int             `json:"refreshes"`
}

func readEvent(t *testing.T, line []byte) event {
	t.Helper()
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return e
}

// cutter is a proxy to one of several edges that cuts each connection after a random number of bytes of the server.
type cutter struct {
	url      string
	listener net.Listener
	targets  []string
	work     sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	limit  int           // bytes of the server; 0 cuts nothing
	asked  int           // bytes of the client; 0 cuts nothing
	most   int           // cuts, after which nothing is cut; 0 for no limit
	linger time.Duration // before a cut: Chromium drops bytes that a page has not read when the connection fails
	conns  map[net.Conn]bool
	cuts   int
}

func newCutter(t *testing.T, edges []string, random *rand.Rand, limit int) *cutter {
	t.Helper()
	c := &cutter{random: random, limit: limit, conns: map[net.Conn]bool{}}
	for _, edge := range edges {
		c.targets = append(c.targets, strings.TrimPrefix(edge, "http://"))
	}
	var err error
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c.url = "http://" + c.listener.Addr().String()
	c.work.Go(func() {
		for {
			conn, err := c.listener.Accept()
			if err != nil {
				return
			}
			c.work.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = c.listener.Close()
		c.cutAll()
		c.work.Wait()
	})
	return c
}

// cutAll cuts all connections.
func (c *cutter) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// setLimit cuts later connections after at most limit bytes, 0 for never.
func (c *cutter) setLimit(limit int, linger time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit, c.linger = limit, linger
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *cutter) serve(client net.Conn) {
	c.mu.Lock()
	target := c.targets[c.random.IntN(len(c.targets))]
	c.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.conns[client], c.conns[server] = true, true
	linger := c.linger
	budget, asked := c.budget(c.limit), c.budget(c.asked)
	c.mu.Unlock()
	closeBoth := func() {
		_ = client.Close()
		_ = server.Close()
	}
	c.work.Go(func() {
		n, _ := io.Copy(server, io.LimitReader(client, asked))
		closeBoth()
		c.ended(n == asked)
	})
	n, _ := io.Copy(client, io.LimitReader(server, budget))
	if n == budget {
		<-time.After(linger)
	}
	closeBoth()
	c.ended(n == budget)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, client)
	delete(c.conns, server)
}

// budget returns the number of bytes after which a direction is cut. The caller holds mu.
func (c *cutter) budget(limit int) int64 {
	if limit == 0 || c.most > 0 && c.cuts >= c.most {
		return 1 << 62
	}
	return int64(1 + c.random.IntN(limit))
}

func (c *cutter) ended(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cut {
		c.cuts++
	}
}

// cutAtMost cuts nothing any more after n cuts: the wait of a client grows with each attempt that achieves nothing.
func (c *cutter) cutAtMost(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = n
}

// cutRequests cuts later connections also after at most limit bytes of the client.
func (c *cutter) cutRequests(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = limit
}

var texts = []string{"Hello ", "é🌊", "\n", "data: x", "\u2028", "long " + string(make([]byte, 0)), `"quoted" \`}

// randomBody returns a chunk that any agent may write.
func randomBody(r *rand.Rand, n int) chunk.Body {
	switch r.IntN(6) {
	case 0:
		return chunk.Thinking{Content: texts[r.IntN(len(texts))]}
	case 1:
		return chunk.Custom{EventName: "note", Data: chunk.Value(fmt.Sprintf(`{"n":%d,"big":%d}`, n, r.Int64N(chunk.MaxInteger)))}
	default:
		return chunk.TextDelta{Delta: texts[r.IntN(len(texts))]}
	}
}
