package httpkit

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// ServerConfig configures the http.Server of an edge. The zero ServerConfig is ready for production. NewServer sets the other limits of
// http.Server, which the caller may change.
type ServerConfig struct {
	// TLS is for ServeTLS, with HTTP/2 for clients that negotiate it; ReloadingTLSConfig creates one from files. Defaults to none.
	TLS *tls.Config

	// H2C accepts HTTP/2 without TLS from clients that start with it, as proxies can be configured to. Requests to upgrade are ignored either way.
	H2C bool

	// BodyTimeout is how long a client may take to send a body. Defaults to 10 seconds.
	BodyTimeout time.Duration

	// HTTP2Timeout is how long an HTTP/2 connection may accept no data, or not answer a ping, before it is closed with all its streams. WriteTimeout is the
	// same for one stream. Defaults to 10 seconds.
	HTTP2Timeout time.Duration

	// Log receives the messages of net/http. Defaults to none.
	Log *slog.Logger
}

// NewServer returns a server with limits against slow clients. It has no timeout for a whole read or write, because a stream may last for days. Reading ends
// with the header, or has a deadline that is removed at the end of the body; every write has its own deadline, which is extended as the client accepts data.
//
// In HTTP/2 that deadline resets one stream and does not affect the others. It does not help if the connection itself accepts no data: the reset is one more
// frame that waits to be written, and the handlers wait for it. So the connection has a deadline too; and a ping after 15 seconds without a frame of the
// client, because a proxy may keep the connection open for a client that is gone.
func NewServer(cfg ServerConfig, handler http.Handler) *http.Server {
	timeout := cmp.Or(cfg.HTTP2Timeout, 10*time.Second)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // by ALPN, so only with TLS
	protocols.SetUnencryptedHTTP2(cfg.H2C)
	server := &http.Server{
		Handler:           boundBodies(handler, cmp.Or(cfg.BodyTimeout, 10*time.Second)),
		TLSConfig:         cfg.TLS,
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    32 << 10,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100,
			WriteByteTimeout:     timeout,
			SendPingTimeout:      15 * time.Second,
			PingTimeout:          timeout,
		},
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return server
}

// boundBodies sets a deadline for the body of a request. It also bounds what net/http reads by itself if a handler has not read everything.
func boundBodies(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if err := control.SetReadDeadline(time.Now().Add(limit)); err != nil {
				panic(err) // the ResponseWriter of net/http supports it
			}
			bounded := *r // net/http checks its own body when the handler returns
			bounded.Body = &boundedBody{r.Body, control}
			r = &bounded
		}
		next.ServeHTTP(w, r)
	})
}

type boundedBody struct {
	io.ReadCloser

	control *http.ResponseController
}

// Read removes the deadline at the end of the body. From then on net/http reads in the background to detect that the client has left, and would take the
// deadline for that.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		if failed := b.control.SetReadDeadline(time.Time{}); failed != nil {
			return n, failed
		}
	}
	return n, err
}
