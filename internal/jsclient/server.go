package jsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The times of a command without a server, for AwaitServer: after the first one it prints a line, after the second one it ends.
const (
	ReportNoServer = 2 * time.Second
	GiveUpNoServer = 30 * time.Second
)

// ErrNoServer reports that there was no connection to a server for as long as a command waits.
var ErrNoServer = errors.New("no connection")

// AwaitServer waits until nc is connected. It calls say with the reason if that takes longer than report, and returns an ErrNoServer after giveUp. servers are the URLs of nc, without passwords.
func AwaitServer(ctx context.Context, nc *nats.Conn, servers string, report, giveUp time.Duration, say func(why string)) error {
	reach := func(within time.Duration) error {
		_, err := Retry(ctx, Policy{For: within, Conn: nc}, func(ctx context.Context) (struct{}, error) { return struct{}{}, nc.FlushWithContext(ctx) })
		return err
	}
	if reach(report) == nil {
		return nil
	}
	if ctx.Err() == nil {
		say(noServer(ctx, nc, servers))
	}
	switch err := reach(giveUp - report); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w to %s for %s", ErrNoServer, servers, giveUp)
}

// noServer says why there is no connection.
func noServer(ctx context.Context, nc *nats.Conn, servers string) string {
	first, _, _ := strings.Cut(servers, ",")
	if at, err := url.Parse(first); err == nil && at.Scheme == "nats" && isHTTP(ctx, at.Host) {
		return at.Host + ` is an HTTP server, as an edge is, and no NATS server: set TAILRACE_NATS_URL to the one of "tailrace up", by default nats://127.0.0.1:4422`
	}
	if err := nc.LastError(); err != nil && !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) {
		if _, ok := errors.AsType[net.Error](err); !ok {
			return fmt.Sprintf("the NATS server at %s refuses the connection: %v", servers, err)
		}
	}
	return fmt.Sprintf("no NATS server at %s: start \"tailrace up\" or set TAILRACE_NATS_URL", servers)
}

// isHTTP reports whether a server responds to HTTP. A NATS server begins with its own first line.
func isHTTP(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing is written after the request
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return false
	}
	answer := make([]byte, len("HTTP/"))
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", host); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == "HTTP/"
}
