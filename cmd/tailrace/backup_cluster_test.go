package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

// A backup of one server is restored on a cluster with three replicas, and a backup of that on the cluster again. The epochs are kept until they are renewed,
// clients continue with the ids of restored records, and the projector saves what is written afterwards.
func TestBackupRestoredOnCluster(t *testing.T) {
	cluster := natstest.StartCluster(t, 3)
	replicated := topology.Config{Replicas: 3}
	js := cluster.JetStream(t)
	var backup []natstest.Backup
	var id string // of a record
	var epochs map[string]string

	t.Run("from one server", func(t *testing.T) {
		server := natstest.Start(t)
		h := newSite(t, server, topology.Config{}, server.URL)
		h.saved("s1", h.emit(h.start("s1", "?"), text("written on one server.")))
		_, _, first := h.ask("GET", "/v1/sessions/s1/events", nil)
		id, epochs = firstID(first), h.epochs()
		backup = backUpAll(t, h.JS)
	})
	restore := func(name string) {
		t.Run(name, func(t *testing.T) {
			for _, b := range backup {
				b.WithReplicas(t, 3).Restore(t, js)
				natstest.Eventually(t, "three replicas of "+b.Name, func(ctx context.Context) error { return hasReplicas(ctx, js, b.Name, 3) })
			}
			if restored := epochsOf(t, cluster.URL(), "--replicas", "3"); fmt.Sprint(restored) != fmt.Sprint(epochs) {
				t.Errorf("epochs after the restore: %v, want %v", restored, epochs)
			}
			epochs = epochsOf(t, cluster.URL(), "--replicas", "3", "--new", "all")
			h := newSite(t, cluster, replicated, cluster.URL())
			h.get("/v1/sessions/s1/events?after="+id, "written on one server.")
			run, err := h.producer.Start(t.Context(), chunk.RootSession("default", "s1"), chunk.RunStarted{Mode: "execute"}, producers.AgentType("writer"), producers.TakeOver())
			if err != nil {
				t.Fatal(err)
			}
			h.saved("s1", h.emit(run, text("written "+name+".")))
			h.get("/v1/sessions/s1/snapshot?partial=1", "written "+name+".")
			backup = backUpAll(t, js)
		})
	}
	restore("on the cluster")
	for _, b := range backup {
		if err := js.DeleteStream(t.Context(), b.Name); err != nil {
			t.Fatal(err)
		}
	}
	restore("on the cluster again")
}

// backUpAll backs up the streams of docs/guides/backup.md.
func backUpAll(t *testing.T, js jetstream.JetStream) (backup []natstest.Backup) {
	t.Helper()
	for _, stream := range documentedStreams(t) {
		backup = append(backup, natstest.BackUp(t, js, stream))
	}
	return backup
}

// hasReplicas returns nil if a stream has a number of replicas that are all current.
func hasReplicas(ctx context.Context, js jetstream.JetStream, name string, n int) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	cluster := stream.CachedInfo().Cluster
	if cluster == nil || len(cluster.Replicas)+1 != n {
		return fmt.Errorf("cluster is %+v", cluster)
	}
	for _, r := range cluster.Replicas {
		if !r.Current {
			return errors.New(r.Name + " lags")
		}
	}
	return nil
}
