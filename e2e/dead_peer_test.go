//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Clients disappear without closing their connections, at different times
// between two heartbeats, half of them from a silent session and half from an
// active one. Each stream is closed within 30 seconds, and no live stream is.
func TestVanishedClientsAreDisconnected(t *testing.T) {
	t.Parallel() // most of it is waiting
	const (
		bound   = 30 * time.Second
		clients = 12
		apart   = 1500 * time.Millisecond // together longer than a heartbeat
	)
	ops := "127.0.0.1:" + strconv.Itoa(freePort(t))
	u := newUp(t, "--demo", "off", "--ops-listen", ops)
	u.start(t)
	silent := openSession(t, u, "silent")
	busy := openSession(t, u, "busy")
	var conns []*net.TCPConn
	for i := range clients {
		conns = append(conns, watch(t, u, []string{"silent", "busy"}[i%2]))
	}
	alive := watch(t, u, "busy")
	go func() { _, _ = io.Copy(io.Discard, alive) }()
	awaitStreams(t, ops, clients+1)

	stagger, emitTick := time.NewTicker(apart), time.NewTicker(50*time.Millisecond)
	defer stagger.Stop()
	defer emitTick.Stop()
	var vanished []time.Time
	for open := clients + 1; open > 1; {
		select {
		case <-emitTick.C:
			busy.emit(t)
		case <-stagger.C:
			if len(vanished) < clients {
				vanish(t, conns[len(vanished)])
				vanished = append(vanished, time.Now())
			}
			open = openStreams(t, ops)
			allowed := clients + 1 - len(vanished)
			for _, at := range vanished {
				if time.Since(at) < bound {
					allowed++
				}
			}
			if open > allowed {
				t.Fatalf("%d streams are open, want at most %d", open, allowed)
			}
		}
	}
	t.Logf("the last one was closed within %s", time.Since(vanished[clients-1]))
	if len(vanished) < clients {
		t.Errorf("only %d clients had vanished when the streams were gone", len(vanished))
	}
	silent.end(t)
	busy.end(t)
	awaitStreams(t, ops, 0)
}

// vanish makes the kernel drop all incoming packets of the connection before
// TCP, so that nothing is acknowledged and no reset is sent. It needs no
// privileges.
func vanish(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}} // keep 0 bytes
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]})
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// watch opens a stream on a connection that sends no data, and reads the first
// event.
func watch(t *testing.T, u *up, session string) *net.TCPConn {
	t.Helper()
	dialer := net.Dialer{KeepAlive: -1}
	conn, err := dialer.DialContext(t.Context(), "tcp", u.listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET /v1/sessions/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", session); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return conn.(*net.TCPConn)
		}
	}
	t.Fatalf("no event of session %s: %v", session, lines.Err())
	return nil
}

// publisher is a session that `publish` keeps open.
type publisher struct {
	in  io.WriteCloser
	cmd *exec.Cmd
}

func openSession(t *testing.T, u *up, session string) *publisher {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), u.bin, "publish", "--session", session)
	cmd.Env, cmd.Stderr, cmd.Stdout = u.env(), u.log, io.Discard
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &publisher{in, cmd}
	s.emit(t)
	natstest.Eventually(t, "session "+session, func(context.Context) error {
		if status, _, _ := get(t, u.url+"/v1/sessions/"+session+"/snapshot"); status != 200 {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
	return s
}

func (s *publisher) emit(t *testing.T) {
	t.Helper()
	const line = `{"type":"text_delta","agentId":"a","agentType":"t","timestamp":1,"step":0,"delta":"x"}` + "\n"
	if _, err := io.WriteString(s.in, line); err != nil {
		t.Fatal(err)
	}
}

func (s *publisher) end(t *testing.T) {
	t.Helper()
	if err := s.in.Close(); err != nil {
		t.Error(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// openStreams returns the number of open streams from the metrics of the edge.
func openStreams(t *testing.T, ops string) int {
	t.Helper()
	status, _, metrics := get(t, "http://"+ops+"/metrics")
	if status != 200 {
		t.Fatalf("metrics: status %d", status)
	}
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, "tailrace_edge_connections "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("metrics lack the number of streams:\n%s", metrics)
	return 0
}

func awaitStreams(t *testing.T, ops string, want int) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%d open streams", want), func(context.Context) error {
		if n := openStreams(t, ops); n != want {
			return fmt.Errorf("%d streams are open", n)
		}
		return nil
	})
}
