package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// defaultServer is the server of `tailrace up`.
const defaultServer = "nats://127.0.0.1:4422"

// withLog calls do with the server and the names of the log. A command that ends by itself does not wait for a server indefinitely, and ends if its user lacks a permission.
func (c config) withLog(ctx context.Context, errs io.Writer, do func(context.Context, jetstream.JetStream, subjects.Layout) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	log := c.logger(errs)
	nc, js, err := c.connect(log, fail)
	if err != nil {
		return usageError{err}
	}
	defer nc.Close()
	if c.noFollow {
		servers := strings.Join(redacted(nc.Opts.Servers), ",")
		err = jsclient.AwaitServer(ctx, nc, servers, jsclient.ReportNoServer, jsclient.GiveUpNoServer, func(why string) { fmt.Fprintln(errs, why) })
	} else if !nc.IsConnected() {
		log.Warn("the NATS server is not reachable, trying again", slog.Any("servers", redacted(nc.Servers())), slog.Any("error", nc.LastError()))
	}
	var layout subjects.Layout
	if err == nil {
		layout, err = c.layout(ctx, js, log)
	}
	if err == nil {
		err = do(ctx, js, layout)
	}
	if denied := context.Cause(ctx); errors.Is(denied, nats.ErrPermissionViolation) {
		return denied
	}
	return err
}

// connect opens the connection, which is never given up, and does not wait for the server. A missing permission ends a command that ends by itself with fail.
func (c config) connect(log *slog.Logger, fail context.CancelCauseFunc) (*nats.Conn, jetstream.JetStream, error) {
	backoff := wait.Backoff{First: 100 * time.Millisecond, Max: time.Second, Jitter: true}
	host, _ := os.Hostname()
	opts := []nats.Option{
		nats.Name("tailrace-sink-" + host + "-" + strconv.Itoa(os.Getpid())),
		func(o *nats.Options) error {
			o.InboxPrefix = cmp.Or(o.InboxPrefix, natsauth.InboxPrefix(natsauth.Analytics))
			return nil
		},
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(backoff.Delay), nats.PingInterval(3 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats disconnected", slog.Any("error", err))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("nats reconnected", slog.String("server", nc.ConnectedUrlRedacted())) }),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			denied := natsauth.Denied(natsauth.Analytics, natsauth.Config{Layout: subjects.Layout{Prefix: c.Prefix, Partitions: maxPartitions}, InboxPrefix: nc.Opts.InboxPrefix}, err)
			if denied != nil && c.noFollow {
				fail(denied)
				return
			}
			log.Warn("nats error", slog.Any("error", cmp.Or(denied, err)))
		}),
	}
	if c.NATSCreds != "" {
		opts = append(opts, nats.UserCredentials(c.NATSCreds))
	}
	if c.NATSNkey != "" {
		key, err := nats.NkeyOptionFromSeed(c.NATSNkey)
		if err != nil {
			return nil, nil, fmt.Errorf("nats-nkey %s: %w", c.NATSNkey, err)
		}
		opts = append(opts, key)
	}
	nc, domain, err := c.dial(opts)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.NewWithDomain(nc, domain, jetstream.WithDefaultTimeout(5*time.Second))
	if domain == "" {
		js, err = jetstream.New(nc, jetstream.WithDefaultTimeout(5*time.Second))
	}
	if err != nil {
		nc.Close()
	}
	return nc, js, err
}

func (c config) dial(opts []nats.Option) (nc *nats.Conn, domain string, err error) {
	if c.NATSContext == "" {
		nc, err = nats.Connect(cmp.Or(string(c.NATSURL), defaultServer), opts...)
		return nc, "", withoutURL("nats-url", err)
	}
	name := c.NATSContext
	if path, err := filepath.Abs(name); err == nil && name != filepath.Base(name) {
		name = path
	}
	nc, settings, err := natscontext.Connect(name, opts...)
	return nc, settings.JSDomain, withoutURL("nats-context "+c.NATSContext, err)
}

// withoutURL returns an error without the URL, which may have a password.
func withoutURL(at string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		err = errors.New("invalid URL")
	}
	return fmt.Errorf("%s: %w", at, err)
}

// withoutPassword returns a URL without its password and its query, which may have keys.
func withoutPassword(text string) string {
	at, err := url.Parse(text)
	if err != nil {
		return "invalid URL"
	}
	at.RawQuery = ""
	return at.Redacted()
}

func redacted(urls []string) (out []string) {
	for _, u := range urls {
		out = append(out, withoutPassword(u))
	}
	return out
}

// layout returns the names of the log, whose partitions it counts on the server. It waits until the streams are there.
func (c config) layout(ctx context.Context, js jetstream.JetStream, log *slog.Logger) (subjects.Layout, error) {
	for logged := false; ; {
		layout, err := c.countPartitions(ctx, js)
		if err == nil || ctx.Err() != nil || c.noFollow && errors.Is(err, jetstream.ErrStreamNotFound) {
			return layout, err
		}
		if !logged {
			log.Warn("the streams of the log are not available, waiting", slog.Any("error", err))
			logged = true
		}
		if err := wait.Sleep(ctx, time.Second); err != nil {
			return layout, err
		}
	}
}

// maxPartitions is that of subjects.Layout.
const maxPartitions = 64

func (c config) countPartitions(ctx context.Context, js jetstream.JetStream) (subjects.Layout, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	layout := subjects.Layout{Prefix: c.Prefix, Partitions: maxPartitions}
	if err := layout.Validate(); err != nil {
		return layout, err
	}
	n := 0
	for ; n < maxPartitions; n++ {
		_, err := js.Stream(ctx, layout.Stream(n))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			break
		}
		if err != nil {
			return layout, fmt.Errorf("stream %s: %w", layout.Stream(n), err)
		}
	}
	if n == 0 {
		return layout, fmt.Errorf("stream %s: %w", layout.Stream(0), jetstream.ErrStreamNotFound)
	}
	layout.Partitions = n
	return layout, nil
}
