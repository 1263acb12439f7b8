//go:build e2e

package clients

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
)

// byteCutter is a proxy that cuts a client once: after a number of bytes in one direction, over all its connections.
type byteCutter struct {
	url   string
	total atomic.Int64 // bytes of the direction
	cuts  atomic.Int64
	left  atomic.Int64
}

// newByteCutter serves a proxy to an edge that cuts after n bytes: of the edge, or of the client.
func newByteCutter(t *testing.T, edge string, n int, ofEdge bool) *byteCutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &byteCutter{url: "http://" + l.Addr().String()}
	c.left.Store(int64(n))
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { c.serve(client, strings.TrimPrefix(edge, "http://"), ofEdge) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return c
}

func (c *byteCutter) serve(client net.Conn, edge string, ofEdge bool) {
	defer client.Close()
	server, err := net.Dial("tcp", edge)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	relay := func(to, from net.Conn, counted bool) {
		defer from.Close()
		defer to.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if counted && n > 0 {
				c.total.Add(int64(n))
				if before := c.left.Add(-int64(n)) + int64(n); before > 0 && before <= int64(n) {
					c.cuts.Add(1)
					_, _ = to.Write(buf[:before-1]) // the connection is cut in any case
					return
				}
			}
			if n > 0 {
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	both.Go(func() { relay(server, client, !ofEdge) })
	both.Go(func() { relay(client, server, ofEdge) })
	both.Wait()
}

// TestPythonIsCutAtEveryByte writes runs and follows sessions through proxies each of which cuts at another byte of the requests or of the responses: the logs and the
// events are those without a cut.
func TestPythonIsCutAtEveryByte(t *testing.T) {
	b, w := newPython(t), newEnv(t)
	edge := w.ingestEdge()
	const notes = 2
	w.writeTree("followed", seedtest.Rand(t), 1)
	for _, mode := range []string{"write", "follow"} {
		for _, ofEdge := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, of edge %t", mode, ofEdge), func(t *testing.T) {
				whole := newByteCutter(t, edge, 1<<40, ofEdge)
				name := fmt.Sprintf("%s%t", mode, ofEdge)
				run := func(name string, cutters ...*byteCutter) []event {
					t.Helper()
					p := b.script(t, "cuts.py", mode, fmt.Sprint(notes), name)
					for i, c := range cutters {
						_, err := fmt.Fprintf(p.in, "%d %s\n", i, c.url)
						w.must(err)
					}
					w.must(p.in.Close())
					var all []event
					for {
						line, ok := p.next()
						if !ok {
							return all
						}
						all = append(all, readEvent(t, line))
					}
				}
				want := run(name+"-whole", whole)
				var cutters []*byteCutter
				for n := range whole.total.Load() {
					cutters = append(cutters, newByteCutter(t, edge, int(n)+1, ofEdge))
				}
				got := run(name, cutters...)
				if len(want) != 1 || len(got) != len(cutters) {
					t.Fatalf("%d results, want %d", len(got), len(cutters))
				}
				for _, e := range got {
					if e.Type != "return" || e.Reason != want[0].Reason {
						t.Errorf("cut at byte %s: %+v, want %+v", e.ID, e, want[0])
					}
				}
				cuts := int64(0)
				for i, c := range cutters {
					cuts += c.cuts.Load()
					if got := w.notes(fmt.Sprintf("%s-%d", name, i)); mode == "write" && !slices.Equal(got, []int{0, 1}) {
						t.Errorf("cut at byte %d: the log has %v", i, got)
					}
				}
				t.Logf("%d cuts", cuts)
				if cuts < whole.total.Load()*9/10 {
					t.Errorf("%d cuts, want %d", cuts, whole.total.Load())
				}
			})
		}
	}
}

// edgeProcess is an edge of the binary that can be killed.
type edgeProcess struct {
	url, ops string
	env      []string
	args     []string
	cmd      *exec.Cmd
	log      outputtest.Buffer
}

func newEdgeProcess(t *testing.T, users *roletest.Users, server *natstest.Process) *edgeProcess {
	t.Helper()
	addr, ops := fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t)), fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t))
	e := &edgeProcess{
		url: "http://" + addr, ops: ops,
		args: []string{"edge", "--listen", addr, "--ops-listen", ops, "--ingest", "on"},
		env:  append(append(os.Environ(), users.Env(natsauth.Edge)...), "TAILRACE_NATS_URL="+server.URL, "TAILRACE_LOG_LEVEL=warn"),
	}
	e.start(t)
	t.Cleanup(func() {
		e.kill()
		if t.Failed() {
			t.Logf("log of the edge on %s:\n%s", addr, e.log.String())
		}
	})
	return e
}

func (e *edgeProcess) start(t *testing.T) {
	t.Helper()
	e.cmd = exec.Command(roletest.Program(t, filepath.Join("..", "..", "bin", "tailrace")), e.args...)
	e.cmd.Env = e.env
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	roletest.AwaitStarted(t, e.ops)
}

// kill sends SIGKILL and waits for the exit.
func (e *edgeProcess) kill() {
	_ = e.cmd.Process.Kill() // fails if it has ended already
	_ = e.cmd.Wait()         // likewise
}

// TestPythonSurvivesKilledEdges writes and follows with threads and with asyncio through two edges that are killed by turns. Each log has every chunk once and in order,
// and each follower gets every event.
func TestPythonSurvivesKilledEdges(t *testing.T) {
	b := newPython(t)
	users := roletest.New(t, natsauth.Config{AllowIngest: true})
	server := natstest.StartProcess(t, users.Server(), natstest.FailOnViolation())
	w := &env{Stack: stack.Start(t, stack.Options{On: server}), t: t}
	edges := []*edgeProcess{newEdgeProcess(t, users, server), newEdgeProcess(t, users, server)}
	proxy := newCutter(t, []string{edges[0].url, edges[1].url}, seedtest.Rand(t), 0)
	const notes, sessions, kills = 3_000, 3, 6
	var writers, followers []*node
	for i := range sessions {
		mode := []string{"threads", "asyncio"}[i%2]
		writers = append(writers, b.script(t, "kills.py", mode+"-write", proxy.url, fmt.Sprintf("s%d", i), fmt.Sprint(notes)))
	}
	for i, p := range writers {
		if _, ok := p.next(); !ok { // the run is open
			t.Fatal("the writer has ended")
		}
		for _, mode := range []string{"threads", "asyncio"} {
			followers = append(followers, b.script(t, "kills.py", mode+"-follow", proxy.url, fmt.Sprintf("s%d", i), fmt.Sprint(notes)))
		}
	}
	for k := range kills {
		natstest.Eventually(t, "further chunks", func(context.Context) error {
			for i := range sessions {
				if n := len(w.notes(fmt.Sprintf("s%d", i))); n < k*notes/(kills+2)+1 {
					return fmt.Errorf("s%d has %d notes", i, n)
				}
			}
			return nil
		})
		edges[k%2].kill()
		for _, p := range writers {
			_, _ = io.WriteString(p.in, "\n") // the writer continues
		}
		edges[k%2].start(t)
	}
	for _, p := range writers {
		_ = p.in.Close() // likewise, to the end
	}
	for i, p := range writers {
		if e := p.until("its end", isLast); e[len(e)-1].Type != "return" {
			t.Errorf("writer %d: %+v", i, e)
		}
		w.checkNotes(fmt.Sprintf("s%d", i), notes)
	}
	for i, p := range followers {
		if e := p.until("its end", isLast); e[len(e)-1].Type != "return" || e[len(e)-1].Sequence != notes {
			t.Errorf("follower %d: %+v", i, e)
		}
	}
}
