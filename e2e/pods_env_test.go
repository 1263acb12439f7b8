//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/e2e/pods"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

const (
	podsReaders = 500
	podsWriters = 50
	podsPace    = 250 * time.Millisecond // of each session
)

// podsEnv is the overlay production on three NATS servers, with sessions that are written, clients that follow them and users that chat.
type podsEnv struct {
	nats     *natstest.Cluster
	cluster  *pods.Cluster
	balancer *balancer
	model    *openaitest.Endpoint
	streams  topology.Config
	token    string

	recorders *recorders
	readers   *readers
	chats     *podChats

	edge, projector, worker *pods.Deployment
	restarts                int // of containers, until the streams existed
}

// podsOptions are what a test changes of the overlay.
type podsOptions struct {
	speed     int               // divisor of the delays of the manifests
	variables map[string]string // of all roles
	edges     int               // 0 is the number in the manifest
	readers   int               // 0 is podsReaders
	flat      bool              // the sessions have no sub-agents
}

func newPodsEnv(t *testing.T, opts podsOptions) *podsEnv {
	t.Helper()
	e := &podsEnv{
		nats: natstest.StartCluster(t, 3), model: openaitest.Start(t, answerSlowly), streams: topology.Config{Layout: subjects.Layout{Partitions: 8}, Replicas: 3},
	}
	issuer := authtest.NewIssuer(t)
	e.token = issuer.Token(auth.Grant{Tenant: "default", Subject: "user", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}, time.Hour, nil)
	e.cluster = pods.Start(t, e.config(t, issuer, opts))
	e.edge, e.projector, e.worker = e.cluster.Deployment(t, "tailrace-edge"), e.cluster.Deployment(t, "tailrace-projector"), e.cluster.Deployment(t, "tailrace-worker")
	if opts.edges != 0 {
		e.edge.Scale(opts.edges)
	}
	e.cluster.AwaitJobs(t)
	e.cluster.AwaitAvailable(t)
	e.restarts = e.cluster.Restarts()
	t.Logf("%d restarts of containers until the job had created the streams", e.restarts)

	e.balancer = startService(t, e.cluster.Service(t, "tailrace-edge").Dial)
	e.recorders, e.readers = e.startFollowed(t, writerConfig{prefix: "s", sessions: podsWriters, flat: opts.flat}, cmp.Or(opts.readers, podsReaders))
	e.readers.awaitAll(t)
	e.chats = startPodChats(t, e.balancer.addr, e.token)
	return e
}

// startService starts a balancer whose backends dial connects to.
func startService(t *testing.T, dial func(context.Context) (net.Conn, error)) *balancer {
	t.Helper()
	b := listenBalancer(t)
	b.connect = func() (net.Conn, *backend) {
		conn, err := dial(b.ctx)
		if err != nil {
			return nil, nil
		}
		return conn, &backend{}
	}
	b.work.Go(b.accept)
	return b
}

// natsService returns the address of a service with the NATS servers: a connection is to one that accepts it. As in Kubernetes, roles know no other address.
func (e *podsEnv) natsService(t *testing.T) string {
	t.Helper()
	var turn atomic.Uint32
	return startService(t, func(ctx context.Context) (conn net.Conn, err error) {
		for range e.nats.URLs() {
			url := e.nats.URLs()[int(turn.Add(1))%len(e.nats.URLs())]
			if conn, err = new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "nats://")); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}).addr
}

// startFollowed starts sessions and clients that follow them.
func (e *podsEnv) startFollowed(t *testing.T, cfg writerConfig, clients int) (*recorders, *readers) {
	t.Helper()
	cfg.streams, cfg.pace = e.streams, podsPace
	rec := startWritersOn(t, e.nats.URL(), cfg)
	readers := rec.startReaders(t, e.balancer.addr, clients, func(_ int, f *follower) {
		f.token = func(context.Context) (string, error) { return e.token, nil }
	})
	return rec, readers
}

// roles returns the deployments.
func (e *podsEnv) roles() []*pods.Deployment {
	return []*pods.Deployment{e.edge, e.projector, e.worker}
}

// check ends the load. It checks that each client has the log of its session, each user its answers, and each snapshot what the fold of its log has.
func (e *podsEnv) check(t *testing.T) {
	t.Helper()
	e.chats.stop(t)
	e.readers.checkAll(t)
	e.chats.check(t, e.recorders.reader)
	store, err := jssnapshots.New(e.recorders.js, jssnapshots.Config{Layout: e.streams.Layout})
	if err != nil {
		t.Fatal(err)
	}
	var sessions []chunk.Session
	for _, w := range e.recorders.writers {
		sessions = append(sessions, w.root)
	}
	for i := range podsChats {
		sessions = append(sessions, podChat(i))
	}
	for _, s := range sessions {
		checkSnapshot(t, store, e.recorders.reader, s)
	}
	if n := e.cluster.Restarts() - e.restarts; n != 0 {
		t.Errorf("%d containers have exited or failed their probes", n)
	}
}

// config renders the overlay production, and has what docs/guides/deploy.md lets operators create.
func (e *podsEnv) config(t *testing.T, issuer *authtest.Issuer, opts podsOptions) pods.Config {
	t.Helper()
	render := exec.CommandContext(t.Context(), "go", "run", "./manifests", "-json", "k8s/overlays/production")
	render.Dir, render.Stderr = "../deploy", os.Stderr
	manifests, err := render.Output()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := issuer.Minter(nil).PublicKeys()
	if err != nil {
		t.Fatal(err)
	}
	cfg := pods.Config{
		Manifests: manifests,
		Program:   binary(t),
		Hosts:     map[string]string{"nats:4222": e.natsService(t)},
		Secrets: map[string]map[string]string{
			"tailrace-auth": {
				"keys.json": string(keys),
				"auth.json": fmt.Sprintf(`{"sessionTokens":[{"issuer":%q,"audience":%q,"keysFile":"/etc/tailrace/auth/keys.json"}]}`, authtest.Name, authtest.Audience),
			},
			"tailrace-agents": {"TAILRACE_MODEL_URL": e.model.URL, "TAILRACE_MODEL_KEY": openaitest.Key},
		},
		ConfigMaps: map[string]map[string]string{"tailrace-agents": {"agents.json": `{"agents":{"assistant":{"model":"m"}}}`}},
		Speed:      opts.speed,
		Delays:     []string{"TAILRACE_DRAIN"},
		Variables:  opts.variables,
	}
	for _, role := range []natsauth.Role{natsauth.Setup, natsauth.Edge, natsauth.Projector, natsauth.Worker} {
		seed, err := os.ReadFile(roletest.Shared().Seed(role))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Secrets["tailrace-nats-"+string(role)] = map[string]string{"nkey": string(seed)}
	}
	return cfg
}
