package httpkit

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// accessEntry is the line of one request in the access log.
type accessEntry struct {
	statusWriter

	bytes  int
	stream []slog.Attr // of a stream that has ended
}

type accessKey struct{}

// IsLogged reports whether a request has a line in the access log already: another Edge hands it on.
func IsLogged(r *http.Request) bool { return r.Context().Value(accessKey{}) != nil }

// LogAccess serves a request and writes one line when its response, or its stream, has ended. route is its name in metrics: the path has ids and may have a ticket.
func LogAccess(log *slog.Logger, proxies []netip.Prefix, route string, w http.ResponseWriter, r *http.Request, next http.Handler) {
	entry, began, address := &accessEntry{statusWriter: statusWriter{ResponseWriter: w}}, time.Now(), clientAddress(r, proxies)
	ctx := context.WithValue(r.Context(), accessKey{}, entry)
	defer func() { // also of a handler that panics to end its connection
		attrs := append([]slog.Attr{
			slog.String("method", r.Method), slog.String("route", route), slog.Int("status", entry.status), slog.Duration("duration", time.Since(began)),
			slog.Int("bytes", entry.bytes), slog.String("address", address.String()),
		}, entry.stream...)
		log.LogAttrs(ctx, slog.LevelInfo, "request ended", attrs...)
	}()
	next.ServeHTTP(entry, r.WithContext(ctx))
}

// LogStreamEnd adds how a stream has ended to the line of its request. ctx is the context of the request or below it.
func LogStreamEnd(ctx context.Context, s chunk.Session, reason string, more ...slog.Attr) {
	if entry, ok := ctx.Value(accessKey{}).(*accessEntry); ok {
		entry.stream = append([]slog.Attr{slog.String("session", s.String()), slog.String("reason", reason)}, more...)
	}
}

func (e *accessEntry) Write(b []byte) (int, error) {
	n, err := e.statusWriter.Write(b)
	e.bytes += n
	return n, err
}
