package sseedge

import (
	"log/slog"
	"net/http"
	"time"
)

// ServerConfig shapes the http.Server around an Edge. The zero ServerConfig is
// ready for production but for Addr.
type ServerConfig struct {
	Addr string // as http.Server has it

	// HeaderTimeout is how long a client may take to send its request.
	// Defaults to 5 seconds.
	HeaderTimeout time.Duration

	// IdleTimeout is how long a connection is kept between requests. Defaults
	// to 60 seconds.
	IdleTimeout time.Duration

	// HeaderBytes bounds the header of a request. Defaults to 32 KiB.
	HeaderBytes int

	// Streams bounds the streams on one HTTP/2 connection. Defaults to 100.
	Streams int

	// Log hears what net/http has to say. Defaults to silence.
	Log *slog.Logger
}

// NewServer returns a server with the limits that keep strangers from holding
// it up. There is no timeout for a whole read or write on purpose: a stream may
// last for days. Reading ends with the header, for no body is read; every write
// has a deadline of its own, which moves with the progress of the client.
func NewServer(cfg ServerConfig, handler http.Handler) *http.Server {
	server := &http.Server{
		Addr:              cfg.Addr,
		Handler:           handler,
		ReadHeaderTimeout: orDefault(cfg.HeaderTimeout, 5*time.Second),
		IdleTimeout:       orDefault(cfg.IdleTimeout, 60*time.Second),
		MaxHeaderBytes:    orDefault(cfg.HeaderBytes, 32<<10),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: orDefault(cfg.Streams, 100)},
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return server
}

func orDefault[T comparable](value, def T) T {
	var zero T
	if value == zero {
		return def
	}
	return value
}
