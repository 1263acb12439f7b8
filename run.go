package tailrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/sseedge"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// Role is a part of a deployment that a process runs.
type Role string

// The roles. A deployment needs each of them in one process at least.
const (
	RoleEdge      Role = "edge"      // serves the Handler
	RoleProjector Role = "projector" // stores snapshots, and ends runs without a worker
	RoleWorker    Role = "worker"    // runs the agents
)

// Agent adds an agent, which Run serves in the role of a worker. Run returns the error of a wrong or repeated type. Agent must be called before Run, and panics after it.
func (t *Tailrace) Agent(agentType string, a workers.Agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasRun {
		panic("tailrace: Agent was called after Run")
	}
	err := subjects.CheckToken("agent type", agentType)
	if _, ok := t.agents[agentType]; ok {
		err = fmt.Errorf("agent %q was added twice", agentType)
	}
	if err != nil {
		t.agentErr = cmp.Or(t.agentErr, fmt.Errorf("tailrace: %w", err))
		return
	}
	t.agents[agentType] = a
	t.addAgentTypes(agentType)
}

// Options are what a Handler serves, and to whom. The zero Options serve events, snapshots and lists of sessions.
type Options struct {
	ChatAgents     []string       // types of agents that chats may start, in any process; the first one is the default; without one there are no chats
	ClientTools    []string       // names of the tools that browsers run
	Views          *sseedge.Views // audience views; nil: every client gets everything
	Delete         bool           // clients with auth.ScopeDelete may delete sessions; Loopback has all rights
	Origins        []string       // of other sites whose pages may read and post, such as "https://app.example"
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For header is used; nil: the peer of a connection is the client
	Limits         sseedge.Limits // of the streams that are open at once
}

type loopback struct{ auth.Authenticator } // of Loopback, which Handler replaces by one with the tenant

// Loopback returns the Authenticator of a listener on loopback, which the caller guarantees: every client has all rights in the tenant of Config.Tenant. The
// Handler refuses requests to other hosts, so that no site in a browser of this machine is such a client.
func Loopback() auth.Authenticator {
	none, _ := authn.NewNone(defaultTenant) // a valid one
	return loopback{none}
}

// Handler returns the handler of the role of an edge: event streams, snapshots and lists of sessions below /v1, in all dialects, and chats below /api/chat.
// a finds out who makes a request, and what it may do; a Grant whose Check fails is refused with 401. Streams are served while Run runs with RoleEdge; outside of that, requests are rejected with a retry
// time. Handler is called once, before Run. sseedge.NewServer returns a server for it with the time limits that long streams need.
func (t *Tailrace) Handler(a auth.Authenticator, o Options) (http.Handler, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.edge != nil || t.hasRun {
		return nil, errors.New("tailrace: Handler was called twice, or after Run; want one call before Run")
	}
	cfg := roles.EdgeConfig{
		Config: httpedge.Config{
			HubBytes: t.cfg.Memory / 4, Limits: o.Limits, TrustedProxies: o.TrustedProxies, Origins: o.Origins, Views: o.Views,
			AISDK: aisdk.Options{ClientTool: func(name string) bool { return slices.Contains(o.ClientTools, name) }},
		},
		Delete: o.Delete, ChatAgents: o.ChatAgents,
	}
	var err error
	if _, ok := a.(loopback); ok {
		cfg.Host = httpkit.LoopbackHost
		if a, err = authn.NewNone(t.cfg.Tenant); err != nil {
			return nil, err
		}
	}
	if cfg.Authenticator, err = authn.NewChain(authn.ChainConfig{Fallbacks: []auth.Authenticator{a}}); err != nil { // it checks each Grant
		return nil, fmt.Errorf("tailrace: Authenticator: %w", err)
	}
	edge, err := t.process.NewEdge(cfg)
	if err != nil {
		return nil, err
	}
	handler, err := httpkit.CORS(o.Origins, edge)
	if err != nil {
		return nil, fmt.Errorf("tailrace: Origins: %w", err)
	}
	t.edge = edge
	t.addAgentTypes(o.ChatAgents...)
	return handler, nil
}

// Run runs the roles of only until ctx ends, drains them, and returns nil. Without any it runs the projector, the worker if Agent was called, and the edge if Handler was
// called. At the end, event streams end after complete events, which takes up to 10 seconds if there are many; steps may finish within 5 seconds, then other
// workers repeat them. Shut the HTTP server down after Run has returned.
//
// It returns an error if the connection is closed, if a role fails, or if only does not fit the calls of Agent and Handler. It may be called once.
func (t *Tailrace) Run(ctx context.Context, only ...Role) error {
	selected, err := t.begin(only)
	if err != nil {
		return err
	}
	var served *workers.Workers
	if slices.Contains(selected, RoleWorker) {
		if served, err = t.process.NewWorkers(workers.Config{Agents: t.agents}, slices.Sorted(maps.Keys(t.agents))...); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	if served != nil {
		group.Go(func() error { return served.Run(ctx) })
	}
	if slices.Contains(selected, RoleProjector) {
		group.Go(func() error {
			if err := t.process.Project(ctx, func() {}); ctx.Err() == nil || !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	if slices.Contains(selected, RoleEdge) {
		edgeCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		group.Go(func() error { return t.edge.Run(edgeCtx) })
		group.Go(func() error {
			defer stop()
			<-ctx.Done()
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), roles.RequestTimeout+5*time.Second)
			defer cancel()
			return t.edge.Drain(ending)
		})
	}
	group.Go(func() error { // no role survives a closed connection
		nc := t.js.Conn()
		closed := nc.StatusChanged(nats.CLOSED)
		defer nc.RemoveStatusListener(closed)
		for !nc.IsClosed() {
			select {
			case <-ctx.Done():
				return nil
			case <-closed:
			}
		}
		return fmt.Errorf("tailrace: %w", nats.ErrConnectionClosed)
	})
	return group.Wait()
}

// begin returns the roles that Run runs.
func (t *Tailrace) begin(selected []Role) ([]Role, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []Role{RoleEdge, RoleProjector, RoleWorker}
	for _, r := range selected {
		if !slices.Contains(all, r) {
			return nil, fmt.Errorf("tailrace: role %q, want one of %q", r, all)
		}
	}
	if len(selected) == 0 {
		selected = slices.DeleteFunc(all, func(r Role) bool { return r == RoleEdge && t.edge == nil || r == RoleWorker && len(t.agents) == 0 })
	}
	switch hasEdge := slices.Contains(selected, RoleEdge); {
	case t.hasRun:
		return nil, errors.New("tailrace: Run was called twice")
	case t.agentErr != nil:
		return nil, t.agentErr
	case hasEdge && t.edge == nil:
		return nil, errors.New("tailrace: the role edge needs a Handler, want a call of Handler before Run")
	case !hasEdge && t.edge != nil:
		return nil, errors.New("tailrace: Handler was called and needs the role edge, want RoleEdge in Run")
	case slices.Contains(selected, RoleWorker) && len(t.agents) == 0:
		return nil, errors.New("tailrace: the role worker has no agent, want a call of Agent before Run")
	}
	t.hasRun = true
	return selected, nil
}
