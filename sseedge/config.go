package sseedge

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/sseedge/view"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes an Edge. The zero Config is ready for production behind a proxy
// that knows its own name.
type Config struct {
	// Tenant is whose sessions are served. Defaults to "default".
	Tenant string

	// Heartbeat is the longest silence on a stream; then a comment is sent.
	// Defaults to 15 seconds.
	Heartbeat time.Duration

	// Patience is how long a client may take nothing before it is cut.
	// Defaults to 10 seconds.
	Patience time.Duration

	// Attach is how long a request waits for the log before it is told to come
	// back later. Defaults to 5 seconds.
	Attach time.Duration

	// Rewind is how long a request may work on what goes through all of a session:
	// an earlier state of it, for which the log is read from its beginning, or its
	// deletion. Defaults to 10 seconds.
	Rewind time.Duration

	// Retry is when a client that is cut, or refused for now, shall come back; a
	// random part of up to half of it is added, so that they do not come together.
	// Every stream begins with it. Whoever is cut or refused because the edge
	// drains is told a quarter of it. Defaults to 1 second.
	Retry time.Duration

	// Spread is the time over which Drain cuts the open streams. Defaults to 10
	// seconds.
	Spread time.Duration

	// Limits bound the streams that are open at once.
	Limits Limits

	// Views are what audiences are shown, on streams and pages alike; the hub needs
	// an encoding for each, see view.Encodings. Defaults to none: everybody is
	// shown everything.
	Views *view.Views

	// Directory lists sessions. Defaults to none: nobody is told which there are.
	Directory Directory

	// Eraser deletes sessions. Defaults to none: nothing can be deleted here.
	// Whoever can reach the edge can then delete what he can name, so somebody must
	// have asked who he is.
	Eraser Eraser

	// TrustedProxies are the addresses of proxies whose X-Forwarded-For is
	// believed. Defaults to none: the peer of a connection is the client.
	TrustedProxies []netip.Prefix

	// Host tells whether a request for this host, without its port, is for us.
	// Defaults to every host; LoopbackHost is the rule for an edge that trusts
	// whoever can reach it.
	Host func(host string) bool

	// Checks are asked by /readyz, one after the other, with 800 milliseconds
	// for all of them.
	Checks []Check

	// Metrics is where the edge and its hub register theirs, all tailrace_*.
	// Defaults to nil: nothing is registered.
	Metrics prometheus.Registerer

	// Log hears of what went wrong on our side. Never of tokens, queries or
	// anything that a client sent. Defaults to silence.
	Log *slog.Logger
}

// Check is one thing that must work for the edge to be of use.
type Check struct {
	Name string // a word for the answer of /readyz, e.g. "nats"
	Ask  func(ctx context.Context) error
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Heartbeat, 15 * time.Second},
		{&c.Patience, 10 * time.Second},
		{&c.Attach, 5 * time.Second},
		{&c.Rewind, 10 * time.Second},
		{&c.Retry, time.Second},
		{&c.Spread, 10 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Tenant == "" {
		c.Tenant = "default"
	}
	if c.Host == nil {
		c.Host = func(string) bool { return true }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.Tenant != "" {
		if err := subjects.CheckToken("Tenant", c.Tenant); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Heartbeat", c.Heartbeat},
		{"Patience", c.Patience},
		{"Attach", c.Attach},
		{"Rewind", c.Rewind},
		{"Retry", c.Retry},
		{"Spread", c.Spread},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s is %s, want more than 0", d.name, d.value)
		}
	}
	if err := checkProxies(c.TrustedProxies); err != nil {
		return err
	}
	for _, check := range c.Checks {
		if check.Name == "" || check.Ask == nil {
			return fmt.Errorf("check %q: want a name and a question", check.Name)
		}
	}
	return nil
}
