package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/internal/audit"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/inspector"
	"github.com/tailrace/tailrace/internal/jscredentials"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/view"
)

func runEdge(ctx context.Context, t terminal, args []string) error {
	return runRole(ctx, t, natsauth.Edge, args, func(ctx context.Context, b *app) error {
		server, err := b.newHTTPServer(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.out, "Tailrace edge: %s\n", server.address())
		return b.withStreams(ctx, server.run)
	})
}

// httpServer is the HTTP side of a process. The listener is open from the start, so that a taken port fails immediately and probes get a response.
type httpServer struct {
	b        *app
	edge     *roles.Edge
	server   *http.Server
	listener net.Listener
	ops      *ops
	auth     *authenticators
	audit    *audit.Log // nil if it is off
	accounts accounts

	credentials *jscredentials.Store
}

// newHTTPServer returns the server of an edge.
func (b *app) newHTTPServer(ctx context.Context) (*httpServer, error) {
	authenticators, err := b.cfg.newAuthenticators(b.log)
	if err != nil {
		return nil, err
	}
	f, err := b.newHTTPServerWith(ctx, authenticators)
	if err != nil {
		authenticators.close()
		return nil, err
	}
	f.logStart()
	return f, nil
}

func (b *app) newHTTPServerWith(ctx context.Context, authenticators *authenticators) (*httpServer, error) {
	listener, err := b.listen(ctx)
	if err != nil {
		return nil, err
	}
	ops, err := b.newOps(ctx)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	accounts, err := b.newAccounts()
	if err != nil {
		return nil, errors.Join(err, listener.Close(), ops.close())
	}
	f := &httpServer{b: b, listener: listener, ops: ops, auth: authenticators, accounts: accounts}
	if err := f.build(); err != nil {
		accounts.close()
		return nil, errors.Join(usageError{err}, listener.Close(), ops.close()) // it asks no server
	}
	return f, nil
}

func (f *httpServer) build() error {
	c := f.b.cfg
	views, err := c.views()
	if err != nil {
		return err
	}
	if len(c.ChatAgents) == 0 && c.AgentServer != "" {
		return errors.New("chat-agent is empty, want the agents that agent-server may start")
	}
	if f.audit, err = f.b.newAudit(); err != nil {
		return err
	}
	cfg := roles.EdgeConfig{
		Config: httpedge.Config{
			Authenticator: f.auth, Heartbeat: c.Heartbeat, WriteTimeout: c.WriteTimeout, DrainPeriod: c.Drain, MaxStreamAge: c.MaxStreamAge,
			Limits: c.limits.streams(c), Rates: c.limits.rates(c), HubBytes: f.b.Memory / 4, TrustedProxies: c.TrustedProxies, Origins: c.CORSOrigins,
			Views: views, AISDK: c.aisdkOptions(), Prices: c.limits.Prices, Audit: f.audit, AccessLog: c.AccessLog, Unreachable: f.b.unreachable,
		},
		Interest: c.Feed == feedInterest, ChatAgents: c.ChatAgents, AgentServer: c.AgentServer, Storage: f.b.storage, MaxRuns: c.limits.runs,
		Delete:      c.AllowDelete, // disabled by default on loopback too: a proxy on this machine connects from loopback on behalf of remote clients
		Credentials: f.auth.routes, Ingest: c.Ingest == ingestOn, Producers: c.producerConfig(),
	}
	if f.credentials, err = f.b.credentials(); err != nil {
		return err
	}
	if f.auth.revocations != nil {
		cfg.Revocations, cfg.Revoker = f.auth.revocations, f.credentials
	}
	if f.loopback() {
		cfg.Host = httpkit.LoopbackHost
	}
	if cfg.Tickets, err = f.newTickets(); err != nil {
		return err
	}
	f.accounts.configure(&cfg.Config)
	if f.edge, err = f.b.NewEdge(cfg); err != nil {
		return err
	}
	if err := f.accounts.build(f, cfg); err != nil {
		return err
	}
	f.addHealth()
	f.ops.assemble(f.b)
	if err := f.b.mountInspector(f.edge); err != nil {
		return err
	}
	return f.assembleServer()
}

// newTickets returns the tickets of the edge, nil if requests are not authenticated.
func (f *httpServer) newTickets() (*authn.Tickets, error) {
	if f.auth.routes == nil {
		return nil, nil //nolint:nilnil // no tickets are issued
	}
	return authn.NewTickets(authn.TicketsConfig{Store: f.credentials, Revocations: f.auth.revocations})
}

// mountInspector adds the page of the inspector to an edge.
func (b *app) mountInspector(edge *roles.Edge) error {
	respond := &httpkit.Responder{Log: b.log}
	page, err := edge.Shared().NewSurface(inspector.Routes(b.cfg.pageAgents(), edge.Shared().Views, respond), httpkit.Options{OtherName: "inspector_other", Head: true, Respond: respond})
	if err != nil {
		return err
	}
	edge.Mount(page)
	return nil
}

// pageAgents returns the agents of chats for the page.
func (c config) pageAgents() []inspector.Agent {
	agents := []inspector.Agent{}
	for _, name := range c.ChatAgents {
		agent := inspector.Agent{Type: name, Prompts: []inspector.Prompt{}}
		if name == script.AgentType {
			for _, s := range script.Scenarios() {
				agent.Prompts = append(agent.Prompts, inspector.Prompt{Title: s.Title, Summary: s.Summary, Text: s.Prompt})
			}
		}
		agents = append(agents, agent)
	}
	return agents
}

func (f *httpServer) assembleServer() error {
	cfg := httpkit.ServerConfig{H2C: f.b.cfg.TLSCert == "", HTTP2Timeout: f.b.cfg.WriteTimeout, Log: f.b.log}
	var err error
	if cfg.TLS, err = tlsConfig(f.b.cfg.TLSCert, f.b.cfg.TLSKey, f.b.cfg.TLSClientCA, f.b.log); err != nil {
		return err
	}
	handler, err := httpkit.CORS(f.b.cfg.CORSOrigins, f.edge)
	if err != nil {
		return fmt.Errorf("cors-origins: %w", err)
	}
	f.server = httpkit.NewServer(cfg, handler)
	if limit := connectionLimit(descriptors()); limit > 0 {
		f.listener = httpkit.LimitConnections(f.listener, limit, f.server, f.b.cfg.TrustedProxies)
	}
	return nil
}

// tlsConfig returns the configuration of a listener, nil for one without TLS.
func tlsConfig(cert, key, clientCA string, log *slog.Logger) (*tls.Config, error) {
	if cert == "" {
		return nil, nil //nolint:nilnil // as http.Server has it
	}
	cfg, err := httpkit.ReloadingTLSConfig(cert, key, log)
	if err != nil || clientCA == "" {
		return cfg, err
	}
	return httpkit.VerifyClients(cfg, clientCA, log)
}

// hostAllowed is the rule for listeners on loopback.
func hostAllowed(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return httpkit.LoopbackHost(host)
}

func (b *app) listen(ctx context.Context) (net.Listener, error) {
	host, port, err := net.SplitHostPort(b.cfg.Listen)
	if err != nil {
		return nil, usageError{fmt.Errorf("listen is %q, want host:port", b.cfg.Listen)}
	}
	inContainer := ""
	if b.role == natsauth.Operator {
		inContainer = fmt.Sprintf("; in a container whose port only this machine reaches: docker run --rm -p 127.0.0.1:%[1]s:%[1]s tailrace/tailrace up --listen 0.0.0.0:%[1]s --trust-network", port)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && b.cfg.Auth == "" && !b.cfg.TrustNetwork {
		return nil, usageError{fmt.Errorf("listen is %q, want a loopback address: requests are not authenticated; name authenticators with --auth, or set --trust-network if every client that can reach the edge may have all rights%s", b.cfg.Listen, inContainer)}
	}
	listener, err := httpkit.Listen(ctx, b.cfg.Listen, b.cfg.WriteTimeout)
	if err != nil {
		return nil, b.cfg.inUse(ctx, fmt.Errorf("%w; choose another address with --listen", err), b.role == natsauth.Operator)
	}
	return listener, nil
}

func (f *httpServer) loopback() bool { return onLoopback(f.listener) }

func onLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

func (f *httpServer) url() string {
	return edgeURL(f.server.TLSConfig != nil, f.listener.Addr().String())
}

// address is url with what it depends on: in a container, a port that is published.
func (f *httpServer) address() string {
	if addr, ok := f.listener.Addr().(*net.TCPAddr); ok && addr.IP.IsUnspecified() {
		return f.url() + ", if the port is published"
	}
	return f.url()
}

func serve(server *http.Server, listener net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

// run serves until ctx ends, then drains: it reports not ready, rejects new requests, closes the open streams gradually and completes the requests in flight.
func (f *httpServer) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	edgeCtx, stopEdge := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEdge()
	defer f.auth.close()
	defer f.accounts.close()
	group.Go(func() error {
		f.accounts.run(edgeCtx)
		return nil
	})
	group.Go(func() error {
		f.auth.load(ctx, f.b.log)
		return nil
	})
	group.Go(func() error { return f.edge.Run(edgeCtx) })
	group.Go(func() error { return f.audit.Run(edgeCtx) })
	if f.auth.revocations != nil {
		group.Go(func() error { return ignoreCanceled(edgeCtx, f.credentials.Follow(edgeCtx, f.auth.revocations)) })
	}
	group.Go(func() error {
		if err := serve(f.server, f.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(f.ops.run)
	group.Go(func() error {
		<-ctx.Done()
		// Otherwise HTTP/2 clients would reconnect on their existing connections.
		f.server.SetKeepAlivesEnabled(false)
		defer stopEdge()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(f.b.cfg.Drain, roles.RequestTimeout)+5*time.Second)
		defer cancel()
		// The last requests may have acts, so their events are waited for at the end.
		return errors.Join(f.accounts.drain(ending, f.edge), f.server.Shutdown(ending), f.edge.Close(), f.accounts.closeWriters(), f.audit.Drain(ending), f.ops.close())
	})
	return group.Wait()
}

// views reads the file of views. It returns nil if the setting is empty.
func (c config) views() (*view.Views, error) {
	if c.Views == "" {
		return nil, nil //nolint:nilnil // no views is a nil *view.Views, which works
	}
	text, err := os.ReadFile(c.Views)
	if err != nil {
		return nil, usageError{fmt.Errorf("views: %w", err)}
	}
	views, err := view.Read(bytes.NewReader(text))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", c.Views, err)}
	}
	return views, nil
}
