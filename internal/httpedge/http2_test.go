package httpedge_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// Three sessions on one connection, with and without TLS: records arrive, heartbeats are sent, a complete session ends cleanly, and an aborted stream is an
// error for its client and does not affect the others.
func TestHTTP2(t *testing.T) {
	pair := newPair(t, "first")
	config, err := httpkit.ReloadingTLSConfig(pair.Cert, pair.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]httpkit.ServerConfig{"TLS": {TLS: config}, "cleartext": {H2C: true}} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, envConfig{edge: httpedge.Config{Heartbeat: 10 * time.Millisecond, DrainPeriod: time.Millisecond}})
			client := serveHTTP2(t, w, cfg)
			var streams []io.Reader
			for i := range 3 {
				s := chunk.RootSession("default", fmt.Sprintf("s%d", i))
				w.log.Append(s, chunk.TypeRunStarted, "")
				streams = append(streams, client.get(t, "/v1/sessions/"+s.ID+"/events"))
			}
			for _, stream := range streams {
				lines := bufio.NewScanner(stream)
				for beats := 0; beats < 2 && lines.Scan(); {
					if strings.HasPrefix(lines.Text(), ":") {
						beats++
					}
				}
				if err := lines.Err(); err != nil {
					t.Errorf("waiting for heartbeats: %v", err)
				}
			}
			w.log.Append(chunk.RootSession("default", "s0"), chunk.TypeStreamEnd, "")
			rest := readAll(t, streams[0]) // fails unless the end is clean
			if !strings.Contains(rest, `"type":"end"`) {
				t.Errorf("the last words were %q", rest)
			}
			if err := w.edge.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			for _, stream := range streams[1:] {
				if rest, err := io.ReadAll(stream); err == nil {
					t.Errorf("a stream that was cut ended cleanly, after %q", rest)
				}
			}
			if n := client.dials.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
		})
	}
}

type http2Client struct {
	http.Client

	base  string
	dials atomic.Int64
}

// serveHTTP2 serves the edge of w over loopback and returns a client that uses HTTP/2 only.
func serveHTTP2(t *testing.T, w *env, cfg httpkit.ServerConfig) *http2Client {
	t.Helper()
	server := httpkit.NewServer(cfg, w.edge)
	listener, err := httpkit.Listen(t.Context(), "127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &http2Client{base: "http://" + listener.Addr().String()}
	serve := func() error { return server.Serve(listener) }
	transport := http2Transport(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	transport.MaxConnsPerHost = 1
	if cfg.TLS != nil {
		serve = func() error { return server.ServeTLS(listener, "", "") }
		c.base = "https://" + listener.Addr().String()
		transport.Protocols.SetHTTP2(true)
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	c.Transport = transport
	served := make(chan error, 1)
	go func() { served <- serve() }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return c
}

func http2Transport(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	transport := &http.Transport{DialContext: dial, DisableCompression: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return transport
}

// get opens a stream; the test's cleanup closes it.
func (c *http2Client) get(t *testing.T, path string) io.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %s", path, resp.Proto, resp.Status)
	}
	return resp.Body
}

// memoryHTTP2 returns a client that uses the connections of a bubble.
func memoryHTTP2(t *testing.T, w *env) *http2Client {
	t.Helper()
	c := &http2Client{base: "http://edge"}
	transport := http2Transport(func(context.Context, string, string) (net.Conn, error) {
		c.dials.Add(1)
		return w.dial()
	})
	// The smallest windows that HTTP/2 allows, so that a stream that is not read stalls.
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 64 << 10}
	c.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

// In HTTP/2 a deadline resets its stream even when no write is in progress. An idle session is not a stalled client.
func TestHTTP2IdleStreamIsNotStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{Heartbeat: time.Minute}, server: httpkit.ServerConfig{H2C: true}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		stream := memoryHTTP2(t, w).get(t, "/v1/sessions/s1/events")
		go func() {
			time.Sleep(10 * time.Minute)
			w.log.Append(s1, chunk.TypeStreamEnd, "")
		}()
		if rest := readAll(t, stream); strings.Count(rest, ": keepalive\n") < 9 {
			t.Errorf("got %q", rest)
		}
	})
}

// A stream that is not read is closed; another one on the same connection is not delayed.
func TestHTTP2OnlyTheStalledStreamIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{server: httpkit.ServerConfig{H2C: true}})
		s2 := chunk.RootSession("default", "s2")
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(s2, chunk.TypeRunStarted, "")
		client := memoryHTTP2(t, w)
		stalled := client.get(t, "/v1/sessions/s1/events")
		synctest.Wait() // until the transport knows that it may use the connection again
		reading := client.get(t, "/v1/sessions/s2/events")
		read := make(chan string)
		go func() {
			defer close(read)
			lines := bufio.NewScanner(reading)
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					read <- lines.Text()
				}
			}
			if err := lines.Err(); err != nil {
				t.Errorf("the stream beside it: %v", err)
			}
		}()
		<-read
		for range 30 {
			w.log.Append(s1, chunk.TypeTextDelta, fmt.Sprintf(`"delta":%q`, strings.Repeat("x", 20<<10)))
			sent := time.Now()
			w.log.Append(s2, chunk.TypeTextDelta, `"delta":"x"`)
			<-read
			if late := time.Since(sent); late > 0 {
				t.Errorf("an event is %s late", late)
			}
			time.Sleep(time.Second)
		}
		if n := w.hub.Stats().Cursors; n != 1 {
			t.Errorf("%d watchers, want that of the stream that is read", n)
		}
		if _, err := io.ReadAll(stalled); err == nil {
			t.Error("a stream that was cut ended cleanly")
		}
		w.log.Append(s2, chunk.TypeStreamEnd, "")
		for range read {
		}
		if n := client.dials.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// A connection that accepts no data is closed with all its streams.
func TestHTTP2StalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{server: httpkit.ServerConfig{H2C: true}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		conn := dialFrames(t, w)
		for i := range 5 {
			conn.write(t, frameHeaders, flagEndHeaders|flagEndStream, uint32(2*i+1), requestBlock("/v1/sessions/s1/events"))
		}
		go conn.readUntilQuiet(time.Second)
		time.Sleep(2 * time.Second)
		if n := w.hub.Stats().Cursors; n != 5 {
			t.Fatalf("%d watchers, want 5", n)
		}
		began := time.Now() // no reads after this
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"x"`)
		for w.hub.Stats().Cursors > 0 && time.Since(began) < time.Minute {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%d watchers after %s", w.hub.Stats().Cursors, took)
		}
	})
}

// A client behind a proxy has disappeared, and the proxy has not: data is accepted, and no frame is sent.
func TestHTTP2SilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{server: httpkit.ServerConfig{H2C: true}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		conn := dialFrames(t, w)
		conn.write(t, frameHeaders, flagEndHeaders|flagEndStream, 1, requestBlock("/v1/sessions/s1/events"))
		began := time.Now()
		if _, err := io.Copy(io.Discard, conn); err != nil { // reads everything, sends nothing
			t.Errorf("reading: %v", err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it was noticed after %s", took)
		}
		synctest.Wait()
		if n := w.hub.Stats().Cursors; n != 0 {
			t.Errorf("%d watchers", n)
		}
	})
}

// Streams that are opened and reset as fast as possible cost no more than the open streams that one connection may have.
func TestHTTP2RapidReset(t *testing.T) {
	const limit = 100
	w := newEnv(t, envConfig{tcp: true, server: httpkit.ServerConfig{H2C: true}})
	w.log.Append(s1, chunk.TypeRunStarted, "")
	before := runtime.NumGoroutine()
	conn := dialFrames(t, w)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, conn) // until the server closes it
	}()
	peak := 0
	for i := range 10_000 {
		id := uint32(2*i + 1)
		var burst bytes.Buffer
		appendFrame(&burst, frameHeaders, flagEndHeaders|flagEndStream, id, requestBlock("/v1/sessions/s1/events"))
		appendFrame(&burst, frameReset, 0, id, []byte{0, 0, 0, 8}) // CANCEL
		if _, err := conn.Write(burst.Bytes()); err != nil {
			break // the server closed it, which is allowed
		}
		peak = max(peak, runtime.NumGoroutine()-before)
	}
	conn.Close()
	<-drained
	if peak > 2*limit+10 { // a stream that ends has a second one for a moment, which context.AfterFunc starts
		t.Errorf("%d goroutines more than before, for at most %d streams", peak, limit)
	}
	t.Logf("at most %d goroutines more than before", peak)
	// The next client is served.
	next, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if _, err := io.WriteString(next, "GET /healthz HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer := readAll(t, next); !strings.Contains(answer, "200 OK") {
		t.Errorf("afterwards: %s", answer)
	}
}

// A connection cannot have more streams than the advertised limit.
func TestHTTP2StreamsPerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{server: httpkit.ServerConfig{H2C: true}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		conn := dialFrames(t, w)
		go conn.readUntilQuiet(time.Second)
		for i := range 120 {
			conn.write(t, frameHeaders, flagEndHeaders|flagEndStream, uint32(2*i+1), requestBlock("/v1/sessions/s1/events"))
		}
		synctest.Wait()
		if n := w.hub.Stats().Cursors; n != 100 {
			t.Errorf("%d streams, want 100", n)
		}
	})
}

// H37: no connection is upgraded, with h2c on or off.
func TestUpgradeToHTTP2IsIgnored(t *testing.T) {
	for _, h2c := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t, envConfig{server: httpkit.ServerConfig{H2C: h2c}})
			conn, err := w.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request := "GET /healthz HTTP/1.1\r\nHost: edge\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(body, "true") {
				t.Errorf("h2c %t: %s %s", h2c, resp.Status, body)
			}
		})
	}
}

// HTTP/2 without TLS works only if it is enabled.
func TestHTTP2WithoutTLSIsOptIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		client := memoryHTTP2(t, w)
		resp, err := client.Get("http://edge/healthz")
		if err == nil {
			resp.Body.Close()
			t.Errorf("got %s %s", resp.Proto, resp.Status)
		}
	})
}

// Frames written by hand, for clients that violate the protocol.

const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4

	flagEndStream  = 1
	flagEndHeaders = 4
)

type frameConn struct{ net.Conn }

// dialFrames opens a connection and sends the preface. Responses of the server are not read.
func dialFrames(t *testing.T, w *env) frameConn {
	t.Helper()
	conn, err := w.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c := frameConn{conn}
	c.write(t, frameSettings, 0, 0, nil)
	return c
}

func (c frameConn) write(t *testing.T, kind, flags byte, stream uint32, payload []byte) {
	t.Helper()
	var b bytes.Buffer
	appendFrame(&b, kind, flags, stream, payload)
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// readUntilQuiet reads until nothing was received for a while.
func (c frameConn) readUntilQuiet(quiet time.Duration) {
	buf := make([]byte, 64<<10)
	for {
		if err := c.SetReadDeadline(time.Now().Add(quiet)); err != nil {
			return
		}
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

func appendFrame(b *bytes.Buffer, kind, flags byte, stream uint32, payload []byte) {
	b.Write([]byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags})
	b.Write(binary.BigEndian.AppendUint32(nil, stream))
	b.Write(payload)
}

// requestBlock encodes a GET in HPACK, with indexed fields of the static table only.
func requestBlock(path string) []byte {
	block := []byte{0x82, 0x86} // :method GET, :scheme http
	block = append(block, 0x04, byte(len(path)))
	block = append(block, path...)
	block = append(block, 0x01, 4)
	return append(block, "edge"...) // :authority
}

// A client whose stream was drained retries on the same connection, is rejected, and retries on another connection, which leads to another edge. The other
// stream of the connection continues until it is drained itself.
func TestHTTP2DrainMovesClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{edge: httpedge.Config{DrainPeriod: time.Minute}, server: httpkit.ServerConfig{H2C: true}})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		client := memoryHTTP2(t, w)
		var ends [2]time.Time
		var reading sync.WaitGroup
		for i := range ends {
			stream := client.get(t, "/v1/sessions/s1/events")
			synctest.Wait() // until the transport knows that it may use the connection again
			reading.Go(func() {
				if _, err := io.ReadAll(stream); err == nil {
					t.Error("a stream that was cut ended cleanly")
				}
				ends[i] = time.Now()
			})
		}
		drained := make(chan error)
		go func() { drained <- w.edge.Drain(t.Context()) }()
		synctest.Wait()
		for attempt := int64(1); attempt <= 2; attempt++ {
			resp, err := client.Get(client.base + "/v1/sessions/s1/events")
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp.Body)
			resp.Body.Close()
			if n := client.dials.Load(); resp.StatusCode != http.StatusServiceUnavailable || n != attempt {
				t.Errorf("attempt %d: %s on connection %d", attempt, resp.Status, n)
			}
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		reading.Wait()
		if apart := ends[0].Sub(ends[1]).Abs(); apart != 30*time.Second {
			t.Errorf("the streams ended %s apart, want half of the spread", apart)
		}
	})
}
