package chat

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// serveWith serves the chats with the server of production.
func (e *edge) serveWith(cfg httpkit.ServerConfig) {
	e.t.Helper()
	e.Close()
	e.Server = httptest.NewUnstartedServer(nil)
	e.Config = httpkit.NewServer(cfg, e.service.surface)
	e.Start()
}

// sender is a client that sends a request in parts.
type sender struct {
	t    *testing.T
	conn net.Conn
}

// send starts a POST with a content length, -1 for none, and the first bytes of its body.
func (e *edge) send(t *testing.T, length int, body string) *sender {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	how := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		how = "Transfer-Encoding: chunked"
		body = fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	}
	head := "POST " + cmp.Or(e.base, "/api/chat/s1") + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + how + "\r\n\r\n"
	// A rejected request does not read the rest.
	if _, err := io.WriteString(conn, head+body); err != nil {
		t.Logf("a body is not read: %v", err)
	}
	return &sender{t, conn}
}

// answer returns the status and the body of the response, and whether it has a Retry-After and closes the connection.
func (s *sender) answer() (text string, rejected bool) {
	s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(s.conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body), resp.Close && resp.Header.Get("Retry-After") != ""
}

// awaitBodies waits until the bodies that are being read use an amount of memory.
func (e *edge) awaitBodies(what string, ok func(int64) bool) {
	e.t.Helper()
	natstest.Eventually(e.t, what, func(context.Context) error {
		if n := e.service.shared.Bodies.InUse(); !ok(n) {
			return fmt.Errorf("%d bytes", n)
		}
		return nil
	})
}

// Many large bodies of a tenant arrive slowly: together they use no more than half of the memory, one too many is rejected at once, and a short message is still accepted.
func TestSlowBodies(t *testing.T) {
	const maxBytes = 2 << 20
	w := newEnv(t)
	w.work(answer)
	for _, length := range []int{8 << 20, -1} {
		e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.BodyBytes = maxBytes })
		e.serveWith(httpkit.ServerConfig{BodyTimeout: time.Hour})
		e.base = fmt.Sprint("/api/chat/slow", max(length, 0))
		piece := strings.Repeat(" ", 200<<10)
		var slow []*sender
		for range 2 { // in buffers of 256 KiB; a third one does not fit while it grows
			slow = append(slow, e.send(t, length, piece))
			n := int64(len(slow)) * int64(len(piece))
			e.awaitBodies("a body is read", func(inUse int64) bool { return inUse >= n })
		}
		if got, rejected := e.send(t, length, piece+piece).answer(); !strings.HasPrefix(got, "503 ") || !strings.Contains(got, httpkit.CodeTooManyBodies) || !rejected {
			t.Errorf("the request over the limit gets %s, rejected: %t", got, rejected)
		}
		want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
		if n := e.service.shared.Bodies.InUse(); n > maxBytes/2 {
			t.Errorf("%d bytes in use, want at most %d", n, maxBytes/2)
		}
		for _, s := range slow {
			s.conn.Close()
		}
		e.awaitBodies("all memory is released", func(inUse int64) bool { return inUse == 0 })
		e.base += "b"
		large := chatBody("", `{"id":"m0","role":"system","parts":[]}`, user("u1", "hi")) + piece
		want(t, e.post("", large), whole("msg-1"))
	}
}

// A client that announces more than it sends uses only memory for the bytes that it sends.
func TestLiesAboutContentLength(t *testing.T) {
	const liars = 100 // clients that together announce 800 MiB
	w := newEnv(t)
	w.work(answer)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.BodyBytes = 4 << 20 })
	e.serveWith(httpkit.ServerConfig{BodyTimeout: time.Hour})
	for range liars {
		e.send(t, 8<<20, "{")
	}
	e.awaitBodies("all lies are being read", func(inUse int64) bool { return inUse >= liars })
	want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))

	// A body is read up to the announced length.
	if got, _ := e.send(t, 5, chatBody("", user("u2", "hi"))).answer(); !strings.HasPrefix(got, "400 ") || !strings.Contains(got, httpkit.CodeValidation) {
		t.Errorf("a body that is cut is %s", got)
	}
	// A body whose announced length exceeds the limit is not read.
	if got, _ := e.send(t, 8<<20+1, "").answer(); !strings.HasPrefix(got, "413 ") || !strings.Contains(got, httpkit.CodeTooLarge) {
		t.Errorf("a body that is too large is %s", got)
	}
}

// The memory of a body that does not arrive in time is released, also if a byte of it arrives from time to time.
func TestBodyTimeout(t *testing.T) {
	w := newEnv(t)
	w.work(answer)
	e := w.newEdge(nil)
	e.serveWith(httpkit.ServerConfig{BodyTimeout: 500 * time.Millisecond})
	silent := e.send(t, 8<<20, "{")
	dripping := e.send(t, -1, "{")
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(dripping.conn, "1\r\n \r\n"); err != nil {
				return
			}
		}
	}()
	for _, s := range []*sender{silent, dripping} {
		if got, _ := s.answer(); !strings.HasPrefix(got, "408 ") || !strings.Contains(got, httpkit.CodeBodyTimeout) {
			t.Errorf("a body that does not come is %s", got)
		}
	}
	e.awaitBodies("the memory of the bodies is released", func(inUse int64) bool { return inUse == 0 })
	want(t, e.post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
}

// The same in HTTP/2, where the connection stays open.
func TestBodyTimeoutOfHTTP2(t *testing.T) {
	w := newEnv(t)
	w.work(answer)
	e := w.newEdge(nil)
	e.serveWith(httpkit.ServerConfig{BodyTimeout: 300 * time.Millisecond, H2C: true})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	post := func(body io.Reader) string {
		t.Helper()
		req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL+"/api/chat/s1", body))(t)
		req.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.ProtoMajor != 2 {
			t.Errorf("%s: %v", resp.Proto, err)
		}
		return fmt.Sprintf("%d %s", resp.StatusCode, text)
	}
	silent, sent := io.Pipe()
	go io.WriteString(sent, "{")
	if got := post(silent); !strings.HasPrefix(got, "408 ") || !strings.Contains(got, httpkit.CodeBodyTimeout) {
		t.Errorf("a body that does not come is %s", got)
	}
	e.awaitBodies("the memory of the body is released", func(inUse int64) bool { return inUse == 0 })
	status, text, _ := strings.Cut(post(strings.NewReader(chatBody("", user("u1", "hi")))), " ")
	if want(t, brief(t, text), whole("msg-1")); status != "200" {
		t.Errorf("the next message gets %s", status)
	}
}

// The memory of a body whose connection breaks is released, too.
func TestBrokenBodies(t *testing.T) {
	e := newEnv(t).newEdge(nil)
	for range 10 {
		s := e.send(t, 8<<20, strings.Repeat(" ", 100<<10))
		e.awaitBodies("it is read", func(inUse int64) bool { return inUse >= 100<<10 })
		if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		e.awaitBodies("the memory is released", func(inUse int64) bool { return inUse == 0 })
	}
}
