package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/wait"
)

// reconnectBackoff shapes the delays between attempts to connect again, which never end. The longest one is short, because
// readers wait for it, and long enough for a server that refuses the credentials of many processes.
var reconnectBackoff = wait.Backoff{First: 100 * time.Millisecond, Max: time.Second, Jitter: true}

// natsConn is the connection of a process.
type natsConn struct {
	nc     *nats.Conn
	domain string          // of JetStream; if empty, that of the server
	closed <-chan struct{} // closed if the client library gives nc up anyway, and when the process closes it
}

// dialNATS opens the connection of a process, and does not wait for the server. The connection is never given up.
func dialNATS(role natsauth.Role, cfg config, log *slog.Logger, errs natsErrors, extra ...nats.Option) (conn natsConn, err error) {
	end := make(chan struct{})
	conn.closed = end
	opts := append(natsOptions(role, cfg, log, errs), nats.ClosedHandler(func(*nats.Conn) { close(end) }))
	if cfg.NATSNkey != "" {
		key, err := nats.NkeyOptionFromSeed(cfg.NATSNkey)
		if err != nil {
			return conn, usageError{fmt.Errorf("nats-nkey %s: %w", cfg.NATSNkey, err)}
		}
		opts = append(opts, key)
	}
	opts = append(opts, extra...)
	at := "nats-url " + cfg.natsURL().String()
	if cfg.NATSContext == "" {
		conn.nc, err = nats.Connect(string(cfg.natsURL()), opts...)
	} else {
		at = "nats-context " + cfg.NATSContext
		var settings natscontext.Settings
		conn.nc, settings, err = natscontext.Connect(natsContextName(cfg.NATSContext), append([]nats.Option{cfg.overContext}, opts...)...)
		conn.domain = settings.JSDomain
	}
	if err != nil {
		if _, ok := errors.AsType[*url.Error](err); ok { // contains the password, or a part of it
			err = errors.New("invalid URL")
		}
		if cfg.NATSCreds != "" && errors.Is(err, fs.ErrNotExist) {
			at = "nats-creds"
		}
		return conn, usageError{fmt.Errorf("%s: %w", at, err)} // of the settings: the server is not waited for
	}
	return conn, nil
}

// natsContextName returns a name of a context unchanged, and the path of a file as natscontext wants it: absolute.
func natsContextName(name string) string {
	if path, err := filepath.Abs(name); err == nil && name != filepath.Base(name) {
		return path
	}
	return name
}

// overContext replaces the server and the user of a context by those of the settings.
func (c config) overContext(o *nats.Options) error {
	if c.NATSCreds != "" || c.NATSNkey != "" {
		o.User, o.Password, o.Token, o.Nkey, o.UserJWT, o.SignatureCB = "", "", "", "", nil, nil
		for i, server := range o.Servers {
			if at, err := url.Parse(server); err == nil && at.User != nil {
				at.User = nil
				o.Servers[i] = at.String()
			}
		}
	}
	if c.NATSURL != "" {
		o.Servers = strings.FieldsFunc(string(c.NATSURL), func(r rune) bool { return r == ',' || r == ' ' })
	}
	return nil
}

// natsServer returns the servers to which a connection was opened.
func natsServer(nc *nats.Conn) redactedURL {
	return cmp.Or(redactedURL(strings.Join(nc.Opts.Servers, ",")), nats.DefaultURL)
}

// natsAuth describes the deployment for the permissions of its roles.
func (c config) natsAuth() natsauth.Config {
	return natsauth.Config{Layout: c.layout(), AllowDelete: c.AllowDelete, AllowIngest: c.Ingest == ingestOn}
}

// checkServers returns an error for URLs that no server can have: the client would retry them indefinitely. It does not have the value, which may contain a password.
func (c config) checkServers() error {
	for _, server := range strings.FieldsFunc(string(c.NATSURL), func(r rune) bool { return r == ',' || r == ' ' }) {
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		at, err := url.Parse(server)
		if err != nil || at.Hostname() == "" || strings.Contains(at.Hostname(), ":") && at.Host[0] != '[' || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, at.Scheme) {
			return errors.New("nats-url: want nats://, tls://, ws:// or wss://, a host and perhaps a port; several are separated by commas")
		}
	}
	return nil
}

// hasServer reports whether the settings name a server.
func (c config) hasServer() bool { return c.NATSURL != "" || c.NATSContext != "" }

// natsURL returns the URL of a server without a context.
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
		nats.Name("tailrace-" + string(role) + "-" + roles.Instance()),
		func(o *nats.Options) error { // that of a context is before it
			o.InboxPrefix = cmp.Or(o.InboxPrefix, natsauth.InboxPrefix(role))
			return nil
		},
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
			log.Log(context.Background(), level, "nats error", "error", cmp.Or(cfg.denied(role, nc, err), err))
			if lostInbox(err, nc.Opts.InboxPrefix) && resubscribing.CompareAndSwap(false, true) {
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
	return opts
}

// deniedError is the error of a command whose user lacks a permission.
type deniedError struct{ error }

// denied returns the error of natsauth.Denied for a connection of a role.
func (c config) denied(role natsauth.Role, nc *nats.Conn, err error) error {
	auth := c.natsAuth()
	auth.InboxPrefix = nc.Opts.InboxPrefix
	return natsauth.Denied(role, auth, err)
}

// endIfDenied ends a command at the first request that its role may make and its user may not: the server sends no response, and the request would be repeated. A role of a deployment continues,
// because an operator may add the permission.
func (t terminal) endIfDenied(role natsauth.Role, cfg config) nats.Option {
	return func(o *nats.Options) error {
		report := o.AsyncErrorCB
		o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) {
			if denied := cfg.denied(role, nc, err); denied != nil {
				t.fail(deniedError{denied})
				return
			}
			report(nc, sub, err)
		}
		return nil
	}
}

// lostInbox reports whether err means that the server has removed a subscription to an inbox, because the user lost the permission. The client does not subscribe again when the permission is
// back, and no request gets a response, until it reconnects.
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
