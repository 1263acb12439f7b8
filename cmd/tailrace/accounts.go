package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/subjects"
)

// accountEntry is a tenant in the file of accounts. Missing members are those of the settings, except the credentials, the inboxes and the snapshot bucket: these are of one account.
type accountEntry struct {
	Creds          string      `json:"creds"` // file; or Nkey
	Nkey           string      `json:"nkey"`  // file
	URL            redactedURL `json:"url"`
	Context        string      `json:"context"`
	Prefix         string      `json:"prefix"`
	Partitions     int         `json:"partitions"`
	SnapshotBucket string      `json:"snapshotBucket"`
}

// settings returns the settings of an edge in the account.
func (e accountEntry) settings(c config, tenant string) (config, error) {
	if err := subjects.CheckToken("tenant", tenant); err != nil {
		return c, err
	}
	switch {
	case (e.Creds == "") == (e.Nkey == ""):
		return c, errors.New("want creds or nkey")
	case e.URL == "" && strings.Contains(string(c.NATSURL), "@"):
		return c, errors.New("want a url: the one of the settings has credentials")
	}
	c.NATSCreds, c.NATSNkey = e.Creds, e.Nkey
	c.NATSURL, c.NATSContext = cmp.Or(e.URL, c.NATSURL), cmp.Or(e.Context, c.NATSContext)
	c.Prefix, c.streams.Snapshots.Bucket = cmp.Or(e.Prefix, c.Prefix), e.SnapshotBucket
	c.Partitions = cmp.Or(e.Partitions, c.Partitions)
	return c, c.validate()
}

// readAccounts returns the settings of each tenant with an account of its own.
func (c config) readAccounts() (map[string]config, error) {
	var entries map[string]accountEntry
	err := readSettings(c.Accounts, &entries)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Accounts, err)
	}
	of := make(map[string]config, len(entries))
	for tenant, entry := range entries {
		if of[tenant], err = entry.settings(c, tenant); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.Accounts, tenant, err)
		}
	}
	return of, nil
}

// accounts are the accounts of tenants that have one of their own. Each has a connection, and an edge with its surfaces behind the authenticator of the edge of the settings.
type accounts []*account

// account is the account of one tenant.
type account struct {
	tenant  string
	app     *app
	edge    *roles.Edge
	checked atomic.Bool // its streams are as required
}

// newAccounts opens the connections, and does not wait for the servers. The metrics of an account have its tenant as label.
func (b *app) newAccounts() (accounts, error) {
	if b.cfg.Accounts == "" {
		return nil, nil
	}
	settings, err := b.cfg.readAccounts()
	if err != nil {
		return nil, usageError{fmt.Errorf("accounts: %w", err)}
	}
	var list accounts
	for _, tenant := range slices.Sorted(maps.Keys(settings)) {
		metrics := prometheus.NewRegistry()
		labeled := struct {
			prometheus.Registerer
			prometheus.Gatherer
		}{prometheus.WrapRegistererWith(prometheus.Labels{"account": tenant}, metrics), metrics}
		a, err := connectWith(labeled, natsauth.Edge, settings[tenant], b.log.With("account", tenant))
		if err != nil {
			list.close()
			return nil, fmt.Errorf("account of %s: %w", tenant, err)
		}
		list, b.more = append(list, &account{tenant: tenant, app: a}), append(b.more, metrics)
	}
	return list, nil
}

func (list accounts) close() {
	for _, a := range list {
		a.app.close()
	}
}

// configure makes the edge of the settings serve the tenants through their accounts. Each edge gets an equal part of the memory for live records, which is the only one that edges cannot share.
func (list accounts) configure(cfg *httpedge.Config) {
	if len(list) == 0 {
		return
	}
	of := make(map[string]http.Handler, len(list))
	cfg.Tenants = func(tenant string) http.Handler { return of[tenant] }
	for _, a := range list {
		of[a.tenant] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.edge.ServeHTTP(w, r) })
	}
	cfg.HubBytes = max(1, cfg.HubBytes/int64(len(list)+1))
}

// build makes the edges. cfg is that of the edge of the settings: they have its authenticator and what belongs to it, its policies and its limits.
func (list accounts) build(of *httpServer, cfg roles.EdgeConfig) error {
	for _, a := range list {
		if err := a.build(of, cfg); err != nil {
			return fmt.Errorf("account of %s: %w", a.tenant, err)
		}
	}
	return nil
}

func (a *account) build(of *httpServer, cfg roles.EdgeConfig) (err error) {
	cfg.Tenants, cfg.LimitsOf, cfg.Storage = nil, of.edge.Edge, a.app.storage
	cfg.Unreachable = func() bool { return !a.checked.Load() || a.app.unreachable() }
	if a.edge, err = a.app.NewEdge(cfg); err != nil { // a ticket is for a session of the account
		return err
	}
	a.app.watchFeeds(a.edge)
	return cmp.Or(a.app.watchDependencies(), a.app.mountInspector(a.edge))
}

// closeWriters closes what the ingest of the accounts writes with, after the last request.
func (list accounts) closeWriters() (err error) {
	for _, a := range list {
		err = errors.Join(err, a.edge.Close())
	}
	return err
}

// run serves the accounts until ctx ends: whatever fails in an account, the other tenants are served, and the process stays ready.
func (list accounts) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, a := range list {
		all.Go(func() { a.run(ctx) })
	}
	all.Wait()
}

func (a *account) run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { a.app.wakeMonitor(ctx) })
	for _, service := range []func(context.Context) error{
		func(ctx context.Context) error { return a.edge.Run(ctx) },
		a.app.monitor.Run,
		func(ctx context.Context) error {
			if err := a.check(ctx); err != nil {
				return err
			}
			return a.app.canary.Run(ctx)
		},
	} {
		all.Go(func() {
			if err := service(ctx); ctx.Err() == nil {
				a.app.log.Error("account not served completely until the next start", "error", err)
			}
		})
	}
	all.Wait()
}

// checkInterval is the time between two checks of the streams of an account that is not served yet.
const checkInterval = 5 * time.Second

// check waits until the streams of the account are as required; until then its requests are refused. The edge of the settings ends the process instead, but one
// account must not do that to the tenants of the others. The error is that of ctx.
func (a *account) check(ctx context.Context) error {
	for last := ""; ; {
		attempt, cancel := context.WithTimeout(ctx, checkInterval)
		err := a.app.ensureTopologyOnce(attempt)
		cancel()
		if err == nil {
			a.checked.Store(true)
			return nil
		}
		if ctx.Err() == nil && err.Error() != last {
			last = err.Error()
			a.app.log.Warn("account not served: streams not checked", "server", natsServer(a.app.nc), "error", err)
		}
		if err := wait.Sleep(ctx, checkInterval); err != nil {
			return err
		}
	}
}

// drain drains all edges at the same time.
func (list accounts) drain(ctx context.Context, edge *roles.Edge) error {
	var group errgroup.Group
	group.Go(func() error { return edge.Drain(ctx) })
	for _, a := range list {
		group.Go(func() error { return a.edge.Drain(ctx) })
	}
	return group.Wait()
}
