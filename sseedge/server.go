package sseedge

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
)

// ServerConfig configures the http.Server of an edge. The zero ServerConfig is ready for production except for Addr.
type ServerConfig = httpkit.ServerConfig

// NewServer returns a server with limits against slow clients: for headers, bodies, idle connections, and HTTP/2 connections that accept no data. It has no
// timeout for a whole read or write, because a stream may last for days.
func NewServer(cfg ServerConfig, handler http.Handler) *http.Server {
	return httpkit.NewServer(cfg, handler)
}

// Listen opens a TCP listener whose connections detect within 30 seconds that the other host has disappeared. writeTimeout is Config.WriteTimeout, 0 its default.
func Listen(ctx context.Context, addr string, writeTimeout time.Duration) (net.Listener, error) {
	return httpkit.Listen(ctx, addr, writeTimeout)
}

// ReloadingTLSConfig returns a TLS configuration, 1.2 or later, with the certificate chain and the key of two PEM files. The files are read now, and again at
// the first handshake after they have changed. An invalid pair is an error now; later it is logged, and the previous pair stays in use.
func ReloadingTLSConfig(certFile, keyFile string, log *slog.Logger) (*tls.Config, error) {
	return httpkit.ReloadingTLSConfig(certFile, keyFile, log)
}

// VerifyClients returns a TLS configuration like cfg that asks clients for a certificate, and verifies it against the authorities in a PEM file. A client without
// a certificate is accepted; the handshake with an invalid one fails. The file is read now, and again at the first handshake after it has changed. An invalid
// file is an error now; later it is logged, and the previous authorities stay in use.
func VerifyClients(cfg *tls.Config, caFile string, log *slog.Logger) (*tls.Config, error) {
	return httpkit.VerifyClients(cfg, caFile, log)
}

// CORS allows pages of these origins, and of no others, to read the responses of next with the credentials of their user. An origin is as browsers send it,
// "https://app.example" or "http://localhost:3000".
func CORS(origins []string, next http.Handler) (http.Handler, error) {
	return httpkit.CORS(origins, next)
}

// LoopbackHost is a Config.Host that accepts only the names of this machine. An edge without authentication needs it: any site can otherwise resolve its own
// name to 127.0.0.1 and read what is served there.
func LoopbackHost(host string) bool { return httpkit.LoopbackHost(host) }

// Off as a field of Limits or as the limit of a BodyLimiter is unlimited.
const Off = -1

// Limits bound the event streams that are open at the same time on one edge.
type Limits = httpkit.Limits

// Rates bound the requests to one edge that open no stream.
type Rates = httpkit.Rates

// Rate is a number of requests per second, and how many may come at once.
type Rate = httpkit.Rate

// Unlimited is a Rate without a limit, also where the default has one.
var Unlimited = httpkit.Unlimited
