package sseedge

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/view"
)

// ServerConfig configures the http.Server of an edge. The zero ServerConfig is ready for production except for Addr.
type ServerConfig = httpkit.ServerConfig

// NewServer returns a server with limits against slow clients: for headers, bodies, idle connections, and HTTP/2 connections that accept no data. It has no
// timeout for a whole read or write, because a stream may last for days.
func NewServer(cfg ServerConfig, handler http.Handler) *http.Server {
	return httpkit.NewServer(cfg, handler)
}

// Listen opens a TCP listener whose connections detect within 30 seconds that the other host has disappeared. writeTimeout is the time for which a client may
// accept no data, 0 is the default, 10 seconds.
func Listen(ctx context.Context, addr string, writeTimeout time.Duration) (net.Listener, error) {
	return httpkit.Listen(ctx, addr, writeTimeout)
}

// Off as a field of Limits is unlimited.
const Off = httpkit.Off

// Limits bound the event streams that are open at the same time on one edge.
type Limits = httpkit.Limits

// Views are audience views, checked and ready for use, from ReadViews. The nil *Views has no view.
type Views = view.Views

// ReadViews reads audience views and the default one from JSON, see docs/guides/views.md.
func ReadViews(r io.Reader) (*Views, error) { return view.Read(r) }
