package httpedge_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpkit"
)

// R01 to R07: a slow client cannot keep a connection open, and a response is sent at once. Times are from the first byte to the end of the connection.
func TestSlowRequestsAreCut(t *testing.T) {
	const start = "GET /healthz HTTP/1.1\r\nHost: edge\r\n"
	for _, tt := range []struct {
		name    string
		say     string        // at once
		drip    string        // then, one byte a second, indefinitely
		answer  string        // prefix of the response
		atLeast time.Duration // for valid requests
		atMost  time.Duration
	}{
		{"silent", "", "", "", 0, 6 * time.Second},
		{"slow header", start, "X: aaaaaaaaaaaaaaaa", "", 0, 6 * time.Second},
		{"missing end", start, "", "", 0, 6 * time.Second},
		{"idle between requests", start + "\r\n", "", "HTTP/1.1 200", 59 * time.Second, 61 * time.Second},
		{"slow body", "POST /healthz HTTP/1.1\r\nHost: edge\r\nContent-Length: 1000\r\n\r\n", "aaaaaaaaaaaa", "HTTP/1.1 405", 0, 11 * time.Second},
		{"E10 50 GB", "GET /healthz HTTP/1.1\r\nHost: edge\r\nContent-Length: 50000000000\r\n\r\n", "", "HTTP/1.1 413", 0, 3 * time.Second},
		{"endless body", "GET /healthz HTTP/1.1\r\nHost: edge\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n1\r\na\r\n1\r\na\r\n", "HTTP/1.1 413", 0, 11 * time.Second},
		{"half a greeting of HTTP/2", "PRI * HTTP/2.0\r\n\r\n", "", "", 0, 11 * time.Second},
		{"nothing behind a greeting of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "", "\x00", 0, 61 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnv(t, envConfig{server: httpkit.ServerConfig{H2C: true}})
			conn, err := w.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := time.Now()
			go func() {
				_, err := io.WriteString(conn, tt.say)
				for i := 0; err == nil && tt.drip != ""; i++ {
					time.Sleep(time.Second)
					_, err = io.WriteString(conn, tt.drip[i%len(tt.drip):][:1])
				}
			}()
			var first [1]byte
			n, err := io.ReadFull(conn, first[:])
			if err == nil && tt.answer != "" && time.Since(began) > 0 {
				t.Errorf("%s: the answer came after %s", tt.name, time.Since(began))
			}
			rest, err := io.ReadAll(conn)
			answer := string(first[:n]) + string(rest)
			took := time.Since(began)
			if err != nil || !strings.HasPrefix(answer, tt.answer) {
				t.Errorf("%s: got %q, %v", tt.name, answer, err)
			}
			if took < tt.atLeast || took > tt.atMost {
				t.Errorf("%s: it ended after %s, want %s to %s", tt.name, took, tt.atLeast, tt.atMost)
			}
		})
	}
}

// A handler next to the edge reads a body and responds with a stream: the body has a deadline, the stream has none, with either protocol.
func TestBodiesHaveADeadline(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "too slow", http.StatusRequestTimeout)
			return
		}
		select {
		case <-time.After(time.Minute):
			_, _ = w.Write(body)
		case <-r.Context().Done():
		}
	})
	for _, protocol := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			listener := newMemoryListener()
			server := httpkit.NewServer(httpkit.ServerConfig{H2C: true}, echo)
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			transport := http2Transport(func(context.Context, string, string) (net.Conn, error) { return listener.dial() })
			if protocol == 1 {
				transport.Protocols = nil
			}
			client := &http.Client{Transport: transport}
			for pace, want := range map[time.Duration]string{time.Second: "aaaaa", 3 * time.Second: "too slow\n"} {
				body, feed := io.Pipe()
				go func() {
					defer feed.Close()
					for range 5 {
						time.Sleep(pace)
						if _, err := io.WriteString(feed, "a"); err != nil {
							return
						}
					}
				}()
				resp, err := client.Post("http://edge/", "text/plain", body)
				if err != nil {
					t.Fatal(protocol, err)
				}
				if got := readAll(t, resp.Body); got != want || resp.ProtoMajor != protocol {
					t.Errorf("%s, a byte every %s: %s %q, want %q", resp.Proto, pace, resp.Status, got, want)
				}
				resp.Body.Close()
			}
			transport.CloseIdleConnections()
			server.Close()
			<-served
			time.Sleep(time.Minute) // what net/http leaves behind ends by itself
		})
	}
}

// Text chosen by an attacker must not be compressed together with secret text, and a compressor would delay events.
func TestNothingIsCompressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnv(t, envConfig{})
		w.log.Append(s1, chunk.TypeRunStarted, "")
		w.log.Append(s1, chunk.TypeTextDelta, `"delta":"`+strings.Repeat("x", 10_000)+`"`)
		w.log.Append(s1, chunk.TypeStreamEnd, "")
		for _, leaf := range []string{"events", "snapshot", "messages"} {
			resp := w.get(t.Context(), "/v1/sessions/s1/"+leaf, http.Header{"Accept-Encoding": {"gzip, deflate, br, zstd"}})
			body := readAll(t, resp.Body)
			resp.Body.Close()
			if got := resp.Header.Get("Content-Encoding"); got != "" || !strings.Contains(body, `{`) {
				t.Errorf("%s: encoded as %q: %.40q", leaf, got, body)
			}
		}
	})
}
