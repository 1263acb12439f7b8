package httpkit

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A connection with a request is not closed for others, over each protocol: HTTP/1, HTTP/2 without TLS and with it. It is when it has none.
func TestConnectionsWithRequests(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/1.1 and TLS", "HTTP/2.0", "HTTP/2.0 and TLS"} {
		t.Run(protocol, func(t *testing.T) {
			secure, second := protocol[len(protocol)-1] == 'S', protocol[5] == '2'
			begun, release := make(chan string), make(chan struct{})
			server := httptest.NewUnstartedServer(nil)
			server.Config = NewServer(ServerConfig{H2C: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/wait" {
					begun <- r.Proto
					<-release
				}
				_, _ = io.WriteString(w, "done")
			}))
			plain := server.Listener
			server.Listener = LimitConnections(plain, 3, server.Config, nil)
			server.EnableHTTP2 = second
			changed := server.Config.ConnState
			if secure {
				server.StartTLS()
			} else {
				server.Start()
			}
			if changed == nil {
				t.Fatal("no ConnState")
			}
			t.Cleanup(server.Close)
			protocols := new(http.Protocols)
			protocols.SetHTTP1(!second)
			protocols.SetHTTP2(second && secure)
			protocols.SetUnencryptedHTTP2(second && !secure)
			client := func() *http.Client {
				transport := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				t.Cleanup(transport.CloseIdleConnections)
				return &http.Client{Transport: transport, Timeout: 10 * time.Second}
			}
			get := func(c *http.Client, path string) (string, error) {
				resp, err := c.Get(server.URL + path)
				if err != nil {
					return "", err
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				return string(text), err
			}
			waiting := client()
			if text, err := get(waiting, "/"); text != "done" || err != nil { // the connection is idle once before
				t.Fatal(text, err)
			}
			answer := make(chan error, 1)
			go func() { _, err := get(waiting, "/wait"); answer <- err }()
			if proto := <-begun; proto != protocol[:8] {
				t.Fatalf("the request is of %s", proto)
			}
			for range 10 {
				if text, err := get(client(), "/"); text != "done" || err != nil {
					t.Fatal(text, err)
				}
			}
			close(release)
			if err := <-answer; err != nil {
				t.Errorf("the request that waited: %v", err)
			}
			for range 5 { // its connection is idle now, and gives way
				conn, err := net.Dial("tcp", plain.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
			}
			if text, err := get(client(), "/"); text != "done" || err != nil {
				t.Errorf("after it: %q, %v", text, err)
			}
		})
	}
}
