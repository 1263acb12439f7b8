package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
)

// A hostile tenant holds all that it can get of what the tenants of an edge share: memory for bodies and for lines that it does not finish, memory for pages that it does
// not read, places for earlier states, connections. Each request of a normal tenant is answered meanwhile as before.
func TestHostileTenant(t *testing.T) {
	m := newMatrix(t)
	x := &hostile{matrix: m, t: t, token: m.issuer.Token(auth.Grant{Tenant: "hostile", Subject: "eve", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}, time.Hour, nil)}
	ann := m.issuer.Token(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}, time.Hour, nil)
	policies := slices.DeleteFunc(m.edge.edge.Policies(), func(p httpkit.Policy) bool { return p.Public })
	var usual time.Duration // of the slowest request before the attacks, which has the load of the machine in it
	ask := func(when string) map[string]int {
		answers := make(map[string]int)
		var slowest time.Duration
		for i, p := range policies {
			id := m.sessionFor(p, fmt.Sprintf("%s-%d", when, i))
			began := time.Now()
			r := m.send(t, p, id, ann)
			answers[p.Method+" "+p.Path] = r.status
			took := time.Since(began)
			slowest = max(slowest, took)
			// A request that waits for what the hostile tenant has gets 503 from the edge after 5 s. The time that a request may take is longer, because the attacks use the processor, too.
			if usual > 0 && took > max(10*time.Second, 20*usual) || r.status >= 500 {
				t.Errorf("%s: %s %s: %d after %s, %s before: %s", when, p.Method, p.Path, r.status, took, usual, r.body)
			}
		}
		if usual == 0 {
			usual = slowest
		}
		return answers
	}
	before := ask("before")
	x.write("hostile", 12, 12)
	x.write("acme", 1, 4)
	for name, attack := range map[string]func(){
		"unfinished bodies":       func() { x.unfinished("/api/chat") },
		"unfinished lines":        func() { x.unfinished("/v1/sessions/%s/runs/r1/chunks?epoch=1") },
		"pages that are not read": x.unread,
		"earlier states":          x.earlier,
	} {
		t.Run(name, func(t *testing.T) {
			x.t = t
			attack()
			for route, status := range ask(strings.ReplaceAll(name, " ", "-")) {
				if status != before[route] {
					t.Errorf("%s: %d, %d before", route, status, before[route])
				}
			}
			header := map[string]string{"Authorization": "Bearer " + ann, "Content-Type": "application/json"}
			body := fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":"u9","role":"user","parts":[{"type":"text","text":%q}]}]}`, m.session("m-"+name[:4]), strings.Repeat("x", 400<<10))
			if status, _, text := sendAs(t, http.MethodPost, m.url+"/api/chat", body, header); status != http.StatusOK {
				t.Errorf("a long message of the normal tenant: %d %s", status, text)
			}
			for _, path := range []string{"/v1/sessions/long0/snapshot", fmt.Sprint("/v1/sessions/long0/snapshot?at=", x.position)} {
				for range 3 {
					if status, _, text := sendAs(t, http.MethodGet, m.url+path, "", header); status != http.StatusOK {
						t.Errorf("%s of the normal tenant: %d %.200s", path, status, text)
					}
				}
			}
		})
	}
}

type hostile struct {
	*matrix

	t        *testing.T
	token    string
	position chunk.Seq // after the long sessions
}

// write writes sessions long0, long1, …, with messages of 400 KiB.
func (x *hostile) write(tenant string, sessions, messages int) {
	x.t.Helper()
	for n := range sessions {
		s := chunk.RootSession(tenant, fmt.Sprint("long", n))
		for k := range messages {
			run, err := x.writer.Start(x.t.Context(), s, chunk.RunStarted{
				Mode: "execute", Input: []chunk.InputMessage{{Content: strings.Repeat("x", 400<<10)}}, By: &chunk.Principal{Subject: "eve"}, RunID: fmt.Sprint("r", k),
			}, producers.AgentType("demo"))
			if err == nil {
				err = run.End(x.t.Context(), nil)
			}
			if err != nil {
				x.t.Fatal(err)
			}
		}
		x.position = x.Snapshot(s).Position.Seq
	}
}

// send sends a request, and returns its connection.
func (x *hostile) send(text string) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
	if err != nil {
		return nil, err
	}
	err = errors.Join(conn.(*net.TCPConn).SetReadBuffer(4<<10), second(io.WriteString(conn, text))) //nolint:forcetypeassert // of a dial to TCP
	return conn, err
}

func second(_ int, err error) error { return err }

// unfinished sends requests whose bodies stop, large ones and small ones in what the edge has left. When the edge ends one, another one follows.
func (x *hostile) unfinished(path string) {
	x.t.Helper()
	bodies := x.edge.edge.Shared().Bodies
	for _, size := range []int{900 << 10, 200 << 10, 100 << 10, 60 << 10} {
		head := fmt.Sprintf("Host: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", x.token, size+100, strings.Repeat("x", size))
		for n := range min(40, 16<<20/size) {
			of := path
			if strings.Contains(path, "%s") { // a run has one request for lines
				session := fmt.Sprintf("lines-%d-%d", size, n)
				if r := x.matrix.send(x.t, httpkit.Policy{Method: http.MethodPost, Path: "/v1/sessions/{id}/runs"}, session, x.token); r.status > 299 {
					x.t.Fatalf("a run for lines: %+v", r)
				}
				of = fmt.Sprintf(path, session)
			}
			x.repeat(func(ctx context.Context) {
				conn, err := x.send("POST " + of + " HTTP/1.1\r\n" + head)
				if conn != nil {
					defer conn.Close()
					defer context.AfterFunc(ctx, func() { conn.Close() })()
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, conn) // until the edge ends it
				}
			})
		}
	}
	natstest.Eventually(x.t, "the edge holds bodies", func(context.Context) error {
		if n := bodies.InUse(); n < 8<<20 {
			return fmt.Errorf("%d bytes", n)
		}
		return nil
	})
}

// repeat does something again and again until the test ends.
func (x *hostile) repeat(f func(context.Context)) {
	ctx, cancel := context.WithCancel(x.t.Context())
	ended := make(chan struct{})
	x.t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		ticker := time.NewTicker(100 * time.Millisecond) // the machine has other work too
		defer ticker.Stop()
		for ctx.Err() == nil {
			f(ctx)
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}()
}

// unread requests pages of many sessions, and reads nothing of the responses.
func (x *hostile) unread() {
	x.t.Helper()
	for n := range 12 {
		conn, err := x.send(fmt.Sprintf("GET /v1/sessions/long%d/snapshot HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", n, x.token))
		if err != nil {
			x.t.Fatal(err)
		}
		x.t.Cleanup(func() { conn.Close() })
	}
}

// earlier requests earlier states of twice as many sessions as it may have at once, all the time.
func (x *hostile) earlier() {
	x.t.Helper()
	for n := range 4 {
		x.repeat(func(ctx context.Context) {
			resp, err := do(ctx, http.MethodGet, fmt.Sprintf("%s/v1/sessions/long%d/snapshot?at=%d", x.url, n, x.position), "", map[string]string{"Authorization": "Bearer " + x.token})
			if err == nil {
				resp.Body.Close()
			}
		})
	}
}
