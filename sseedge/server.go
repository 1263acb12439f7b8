package sseedge

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// ServerConfig shapes the http.Server around an Edge. The zero ServerConfig is
// ready for production but for Addr.
type ServerConfig struct {
	Addr string // as http.Server has it

	// TLS makes it a server for ServeTLS, with HTTP/2 for whoever asks for it;
	// Certificates makes one from files. Defaults to none.
	TLS *tls.Config

	// H2C takes HTTP/2 without TLS from a client that starts with it, as proxies
	// do that were told to. A request to upgrade is passed over either way.
	H2C bool

	// HeaderTimeout is how long a client may take to send its request.
	// Defaults to 5 seconds.
	HeaderTimeout time.Duration

	// BodyTimeout is how long a client may take to send what follows, for those
	// handlers beside an Edge that read a body. Defaults to 10 seconds.
	BodyTimeout time.Duration

	// IdleTimeout is how long a connection is kept between requests. Defaults
	// to 60 seconds.
	IdleTimeout time.Duration

	// Patience is how long an HTTP/2 connection may take nothing, or leave a
	// ping without its answer, before it is closed with all its streams. It is
	// as long as Config.Patience is for one stream. Defaults to 10 seconds.
	Patience time.Duration

	// HeaderBytes bounds the header of a request. Defaults to 32 KiB.
	HeaderBytes int

	// Streams bounds the streams on one HTTP/2 connection. Defaults to 100.
	Streams int

	// Log hears what net/http has to say. Defaults to silence.
	Log *slog.Logger
}

// NewServer returns a server with the limits that keep strangers from holding
// it up. There is no timeout for a whole read or write on purpose: a stream may
// last for days. Reading ends with the header, for an Edge reads no body, or has a
// deadline that is taken back at the end of the body; every write has a deadline
// of its own, which moves with the progress of the client.
//
// In HTTP/2 that deadline resets one stream and leaves the others alone. It is
// of no help when the connection itself takes nothing: the reset is one more
// frame that waits to be written, and the handlers wait with it. So the
// connection has a deadline too; and a ping after 15 seconds without a frame of
// the client, because a proxy may keep the connection up for one that is gone.
func NewServer(cfg ServerConfig, handler http.Handler) *http.Server {
	patience := orDefault(cfg.Patience, 10*time.Second)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // by ALPN: without TLS nobody can ask for it
	protocols.SetUnencryptedHTTP2(cfg.H2C)
	server := &http.Server{
		Addr:              cfg.Addr,
		Handler:           boundBodies(handler, orDefault(cfg.BodyTimeout, 10*time.Second)),
		TLSConfig:         cfg.TLS,
		Protocols:         protocols,
		ReadHeaderTimeout: orDefault(cfg.HeaderTimeout, 5*time.Second),
		IdleTimeout:       orDefault(cfg.IdleTimeout, 60*time.Second),
		MaxHeaderBytes:    orDefault(cfg.HeaderBytes, 32<<10),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: orDefault(cfg.Streams, 100),
			WriteByteTimeout:     patience,
			SendPingTimeout:      15 * time.Second,
			PingTimeout:          patience,
		},
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return server
}

// boundBodies sets a deadline for the body of a request. It holds for what
// net/http reads by itself, too, when a handler has left something.
func boundBodies(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if err := control.SetReadDeadline(time.Now().Add(limit)); err != nil {
				panic(err) // net/http's own ResponseWriter can do that
			}
			bounded := *r // net/http looks at the body of its own when it is done
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

// Read takes the deadline back at the end. After it net/http reads on in the
// background, to see the client leave, and would take the deadline for that.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		if failed := b.control.SetReadDeadline(time.Time{}); failed != nil {
			return n, failed
		}
	}
	return n, err
}

func orDefault[T comparable](value, def T) T {
	var zero T
	if value == zero {
		return def
	}
	return value
}
