package httpedge

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures an Edge. Only Authenticator is required.
type Config struct {
	// Layout is the Layout of the log; the Edge uses its partitions.
	Layout subjects.Layout

	// Authenticator finds out who makes a request, and what it may do: its Grant has the tenant, the rights and the sessions. It is asked for every request of
	// the Edge and its surfaces, except /healthz. Required; that of auth.NewNone is for a listener on loopback.
	Authenticator auth.Authenticator

	// Revocations are those that Authenticator consults. Run closes the streams whose credentials are revoked. Defaults to none.
	Revocations *authn.Revocations

	// Revoker revokes credentials, for clients with auth.ScopeAdmin. Defaults to none: nothing can be revoked over HTTP.
	Revoker Revoker

	// Tickets are accepted in the query of GET /v1/sessions/{id}/events. Defaults to none.
	Tickets *authn.Tickets

	// Tenants returns the Edge, with its surfaces, that serves the requests of a tenant instead of this one: its sessions are in another NATS account. It returns
	// nil for the other tenants. This Edge finds out who makes a request; requests without a credential and public paths are its own. Defaults to none.
	Tenants func(tenant string) http.Handler

	// LimitsOf is an Edge of the same process whose limits of streams and whose memory for bodies and pages are also those of this one. Limits, BodyBytes,
	// ReadBytes and Rates are not used then. It also closes the streams of revoked credentials of both. It must not serve yet. Defaults to none.
	LimitsOf *Edge

	// Heartbeat is the time without an event after which a stream sends a comment. Defaults to 15 seconds.
	Heartbeat time.Duration

	// WriteTimeout closes a stream when the client accepts no data for this long. Defaults to 10 seconds.
	WriteTimeout time.Duration

	// AttachTimeout is how long a request waits for the log before it is rejected with a retry time. Defaults to 5 seconds.
	AttachTimeout time.Duration

	// HistoryTimeout bounds requests that read a whole session: a historical snapshot, for which the log is read from its beginning, or a deletion. Defaults to 10
	// seconds.
	HistoryTimeout time.Duration

	// Unreachable reports whether the log has been unreachable for so long that a request that needs it is rejected at once, with a retry time. Event streams wait
	// for it in any case. It is called for each request. Defaults to none: each request is rejected after its timeout.
	Unreachable func() bool

	// RetryDelay is the time after which a client reconnects whose stream was closed or rejected; a random part of up to half of it is added, so that clients do
	// not reconnect at the same time. Every stream begins with it. While the edge drains it is a quarter. Defaults to 1 second.
	RetryDelay time.Duration

	// DrainPeriod is the time over which Drain closes the open streams. Defaults to 10 seconds.
	DrainPeriod time.Duration

	// MaxStreamAge is the largest age of a stream. It ends as if the credential of its client expired, at a random time in the last eighth, so that the clients
	// spread over all edges that there are by then. Defaults to unlimited.
	MaxStreamAge time.Duration

	// Limits bound the streams that are open at once.
	Limits httpkit.Limits

	// Rates bound the requests that open no stream.
	Rates httpkit.Rates

	// HubBytes bounds the memory for live and recent records, which all streams share. Defaults to 256 MiB.
	HubBytes int64

	// Feed, if not nil, delivers the live records of the log. By default the edge follows the partitions in which it has streams.
	Feed hub.Feed

	// BodyBytes bounds the memory of all request bodies that are being read. Defaults to 256 MiB; a negative number is unlimited.
	BodyBytes int64

	// ReadBytes bounds the memory of the pages that are being read and written: snapshots, messages, trees, lists of sessions. Defaults to 256 MiB; a negative
	// number is unlimited. One conversation whose text is larger is read nevertheless.
	ReadBytes int64

	// Views are the audience views, for streams and pages alike. Defaults to none: every client gets everything.
	Views *view.Views

	// AISDK selects the form of events in the dialect of the AI SDK. Its ClientTool is for all dialects in which a response ends at the call of such a tool.
	AISDK aisdk.Options

	// Sessions lists sessions. Defaults to none: they are not listed.
	Sessions projector.Lister

	// Prices are those of the costs in the list of sessions. Defaults to none: only costs that records have are listed.
	Prices Prices

	// Eraser deletes sessions, for clients with auth.ScopeDelete. Defaults to none: nothing can be deleted.
	Eraser Eraser

	// TrustedProxies are the addresses of proxies whose X-Forwarded-For header is used. Defaults to none: the peer of a connection is the client.
	TrustedProxies []netip.Prefix

	// Origins are the origins whose pages may post to the mounted surfaces, in the form of CORS. Defaults to none: only pages of the edge's own origin may.
	Origins []string

	// Host reports whether a host, without its port, is served here. Defaults to every host; httpkit.LoopbackHost is the rule for an edge without an authenticating
	// proxy.
	Host func(host string) bool

	// Audit, if not nil, is the audit log of the edge of this module: it gets deletions and refused accesses. Its owner runs and drains it.
	Audit *audit.Log

	// AccessLog writes a line to Log, of the level info, when a response or a stream has ended.
	AccessLog bool

	// TracerProvider gets spans of the requests with other methods than GET, HEAD and OPTIONS, as parts of the traces of their clients, and of the records of
	// traced runs that clients receive, linked to the runs. Defaults to nil: nothing is traced. If the Edge is behind a handler that makes spans of requests,
	// it makes none of its own.
	TracerProvider trace.TracerProvider

	// Metrics is the registry of the metrics of the Edge and its surfaces, all tailrace_*. Defaults to nil: no metrics are registered.
	Metrics prometheus.Registerer

	// Log receives errors of dependencies, never tokens, queries or other text of clients. Defaults to none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Heartbeat, 15 * time.Second},
		{&c.WriteTimeout, 10 * time.Second},
		{&c.AttachTimeout, 5 * time.Second},
		{&c.HistoryTimeout, 10 * time.Second},
		{&c.RetryDelay, time.Second},
		{&c.DrainPeriod, 10 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.Host == nil {
		c.Host = func(string) bool { return true }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Origins = slices.Clone(c.Origins)
	return c
}

// hub returns the configuration of the hub. A page of history is a small part of the memory, so that a few readers of old records do not evict all others.
func (c Config) hub() hub.Config {
	cfg := hub.Config{
		Encode: helix.Encode, Encodings: c.encodings(),
		Partitions: c.Layout.PartitionCount(), MaxMemory: c.HubBytes, Log: c.Log,
		TracerProvider: c.TracerProvider,
	}
	if c.HubBytes != 0 {
		cfg.PageBytes = int(min(1<<20, max(1, c.HubBytes/16)))
	}
	return cfg
}

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	if c.HubBytes < 0 {
		return fmt.Errorf("HubBytes is %d, want more than 0", c.HubBytes)
	}
	if c.Authenticator == nil {
		return errors.New("Authenticator is nil")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Heartbeat", c.Heartbeat},
		{"WriteTimeout", c.WriteTimeout},
		{"AttachTimeout", c.AttachTimeout},
		{"HistoryTimeout", c.HistoryTimeout},
		{"RetryDelay", c.RetryDelay},
		{"DrainPeriod", c.DrainPeriod},
		{"MaxStreamAge", c.MaxStreamAge},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s is %s, want more than 0", d.name, d.value)
		}
	}
	if err := c.Prices.Validate(); err != nil {
		return err
	}
	return httpkit.CheckProxies(c.TrustedProxies)
}
