package jssnapshots

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/internal/shares"
	"github.com/tailrace/tailrace/subjects"
)

// Replicas implements shares.Members for projectors: the lease of a process is a key in the bucket of snapshots that the server removes when it was not
// renewed for its TTL. So no clock but that of the server counts. While the leases cannot be written, no snapshot can be saved either.
type Replicas struct {
	client *jsclient.Client
	cfg    ReplicasConfig
	name   string
	lease  string // its key
}

var _ shares.Members = (*Replicas)(nil)

// ReplicasConfig shapes Replicas.
type ReplicasConfig struct {
	// Layout names the bucket.
	Layout subjects.Layout

	// Instance describes this process to operators. It is the value of the lease.
	Instance string

	// TTL is how long the lease holds after its last renewal: whole seconds. Defaults to ReplicaTTL.
	TTL time.Duration
}

// ReplicaTTL is the default of ReplicasConfig.TTL. It is longer than the time that a replicated bucket needs for another leader, in most cases, and as long as the
// time after which the server gives a partition to another process.
const ReplicaTTL = 6 * time.Second

// NewReplicas returns the Replicas of this process, with a random name. It does not call the server. The error names the wrong field of cfg.
func NewReplicas(js jetstream.JetStream, cfg ReplicasConfig) (*Replicas, error) {
	if err := cfg.Layout.Validate(); err != nil {
		return nil, fmt.Errorf("Layout: %w", err)
	}
	cfg.TTL = cmp.Or(cfg.TTL, ReplicaTTL)
	if cfg.TTL < time.Second || cfg.TTL%time.Second != 0 {
		return nil, fmt.Errorf("TTL is %s, want whole seconds", cfg.TTL)
	}
	name := replicaLease + rand.Text()
	lease, err := names.LeaseKey(name)
	if err != nil {
		return nil, err
	}
	return &Replicas{client: jsclient.New(js), cfg: cfg, name: name, lease: lease}, nil
}

// replicaLease is the first part of the names of processes, which no name of a task in the same bucket has.
const replicaLease = "projector-"

// Name returns the name of this process.
func (r *Replicas) Name() string { return r.name }

// RenewInterval returns the time between two renewals: the lease outlasts three that fail.
func (r *Replicas) RenewInterval() time.Duration { return r.cfg.TTL / 4 }

// TTL returns how long the lease holds after its last renewal.
func (r *Replicas) TTL() time.Duration { return r.cfg.TTL }

func (r *Replicas) stream() string { return "KV_" + names.Layout(r.cfg.Layout).Snapshots() }
func (r *Replicas) subject(key string) string {
	return "$KV." + names.Layout(r.cfg.Layout).Snapshots() + "." + key
}

// Renew implements shares.Members. It takes at most a second, or the interval between two renewals if that is longer.
func (r *Replicas) Renew(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, max(r.RenewInterval(), time.Second))
	defer cancel()
	var names []string
	err := r.client.Attempt(ctx, func(ctx context.Context) (err error) {
		if err = r.renew(ctx); err == nil {
			names, err = r.list(ctx)
		}
		return err
	})
	return names, err
}

func (r *Replicas) renew(ctx context.Context) error {
	msg := nats.NewMsg(r.client.PublishSubject(r.subject(r.lease)))
	msg.Header.Set(jetstream.MsgTTLHeader, r.cfg.TTL.String())
	msg.Data = []byte(r.cfg.Instance)
	_, err := r.client.JetStream().PublishMsg(ctx, msg, jetstream.WithExpectStream(r.stream()), jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("write %s: %w", r.lease, err)
	}
	return nil
}

// list returns the names in the leases. The leader answers: another replica of the bucket may lack a lease that was just written, and the process that wrote it
// would lose its share for a moment.
func (r *Replicas) list(ctx context.Context) ([]string, error) {
	var held []string
	for offset := 0; ; {
		page, next, err := r.client.Subjects(ctx, r.stream(), r.subject(names.LeaseKeys()), offset)
		if err != nil {
			return nil, fmt.Errorf("list leases of replicas: %w", err)
		}
		for _, subject := range page {
			if name, ok := names.LeaseName(strings.TrimPrefix(subject, r.subject(""))); ok && strings.HasPrefix(name, replicaLease) {
				held = append(held, name)
			}
		}
		if offset = next; offset == 0 {
			return held, nil
		}
	}
}

// Leave implements shares.Members.
func (r *Replicas) Leave(ctx context.Context) error {
	_, err := r.client.Purge(ctx, r.stream(), r.subject(r.lease), 0)
	return err
}
