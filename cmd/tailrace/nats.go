package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/wait"
)

// reconnectBackoff shapes the delays between attempts to connect again, which never end. The longest one is short, because
// readers wait for it, and long enough for a server that refuses the credentials of many processes.
var reconnectBackoff = wait.Backoff{First: 100 * time.Millisecond, Max: time.Second, Jitter: true}

// dialNATS opens the connection of a process, and does not wait for the server. The connection is never given up: closed is
// closed if the client library does so anyway, and when the process closes it.
func dialNATS(role natsauth.Role, cfg config, log *slog.Logger, errs natsErrors, extra ...nats.Option) (nc *nats.Conn, closed <-chan struct{}, err error) {
	end := make(chan struct{})
	opts := append(natsOptions(role, cfg, log, errs), nats.ClosedHandler(func(*nats.Conn) { close(end) }))
	if cfg.NATSNkey != "" {
		key, err := nats.NkeyOptionFromSeed(cfg.NATSNkey)
		if err != nil {
			return nil, nil, fmt.Errorf("nats-nkey %s: %w", cfg.NATSNkey, err)
		}
		opts = append(opts, key)
	}
	server := cfg.natsURL()
	if nc, err = nats.Connect(string(server), append(opts, extra...)...); err != nil {
		if _, ok := errors.AsType[*url.Error](err); ok { // contains the password, or a part of it
			err = errors.New("invalid URL")
		}
		return nil, nil, fmt.Errorf("nats %s: %w", server, err)
	}
	return nc, end, nil
}

// natsAuth describes the deployment for the permissions of its roles.
func (c config) natsAuth() natsauth.Config {
	return natsauth.Config{Layout: c.layout(), Domain: c.NATSDomain, AllowDelete: c.AllowDelete, AllowIngest: c.Ingest == ingestOn, InboxPrefix: c.NATSInboxPrefix}
}

// inboxPrefix returns the prefix of the inboxes of a role.
func (c config) inboxPrefix(role natsauth.Role) string {
	return cmp.Or(c.NATSInboxPrefix, natsauth.InboxPrefix(role))
}

// instance returns the name of this process among those of its role.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}

func (c config) natsURL() redactedURL {
	if c.NATSURL != "" {
		return c.NATSURL
	}
	return redactedURL(fmt.Sprintf("nats://127.0.0.1:%d", c.NATSPort))
}

// natsOptions detect a dead server within ten seconds, reconnect within a fraction of a second, and retry indefinitely, also
// after authorization errors. The credentials file is read at each attempt.
func natsOptions(role natsauth.Role, cfg config, log *slog.Logger, errs natsErrors) []nats.Option {
	var resubscribing atomic.Bool
	var repeated lastError
	failed := &connectErrors{log: log}
	opts := []nats.Option{
		nats.Name("tailrace-" + string(role) + "-" + instance()),
		nats.CustomInboxPrefix(cfg.inboxPrefix(role)),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // otherwise the second authorization error closes the connection permanently
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			failed.check()
			return reconnectBackoff.Delay(attempts)
		}),
		nats.PingInterval(3 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(nc *nats.Conn) { log.Debug("nats connected", "server", nc.ConnectedUrlRedacted()) }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			repeated.reset()
			failed.last.reset()
			log.Info("nats reconnected", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ReconnectErrHandler(func(nc *nats.Conn, _ error) { failed.conn.Store(nc) }), // of TCP: the server is away
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			failed.conn.Store(nc)
			if err != nil {
				log.Warn("nats disconnected", "error", err)
			}
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			errs.increment(err)
			level := slog.LevelWarn
			if repeated.is(err) {
				level = slog.LevelDebug
			}
			log.Log(context.Background(), level, "nats error", "error", err)
			if lostInbox(err, cfg.inboxPrefix(role)) && resubscribing.CompareAndSwap(false, true) {
				time.AfterFunc(2*time.Second, func() {
					resubscribing.Store(false)
					if err := nc.ForceReconnect(); err != nil {
						log.Debug("nats not reconnected", "error", err)
					}
				})
			}
		}),
	}
	if cfg.NATSCreds != "" {
		opts = append(opts, nats.UserCredentials(cfg.NATSCreds))
	}
	if cfg.NATSCA != "" {
		opts = append(opts, nats.RootCAs(cfg.NATSCA))
	}
	if cfg.NATSCert != "" {
		opts = append(opts, nats.ClientCert(cfg.NATSCert, cfg.NATSKey))
	}
	return opts
}

// lostInbox reports whether err means that the server has removed a subscription to an inbox, because the user lost the
// permission. The client does not subscribe again when the permission is back, and no request gets a response, until it
// reconnects.
func lostInbox(err error, prefix string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `Subscription to "`+prefix+".")
}

// connectErrors logs why the process cannot connect to a server that is there, such as a certificate that the server refuses: requests fail only with the error
// that there is no connection. The client library reports the errors of handshakes to no handler; they are its last error while it waits to try again.
type connectErrors struct {
	log  *slog.Logger
	conn atomic.Pointer[nats.Conn] // nil before the first error
	last lastError
}

func (c *connectErrors) check() {
	nc := c.conn.Load()
	if nc == nil {
		return
	}
	err := nc.LastError()
	if err == nil {
		return
	}
	level := slog.LevelWarn
	if c.last.is(err) {
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "nats connect failed", "error", err)
}

// lastError is the last error since the process connected. Without it each refused attempt to connect would be a log line.
type lastError struct{ text atomic.Pointer[string] }

// is reports whether err is the last error, and remembers it.
func (l *lastError) is(err error) bool {
	text := err.Error()
	last := l.text.Swap(&text)
	return last != nil && *last == text
}

func (l *lastError) reset() { l.text.Store(nil) }
