// Package streamtest starts NATS servers that have the streams of Tailrace, and encodes the messages of records. It is for the tests of packages that
// testkit/stack imports; other tests use stack.
package streamtest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// Start starts a server that ends with the test, and creates the streams with their defaults.
func Start(tb testing.TB, opts ...natstest.Option) *natstest.Server {
	tb.Helper()
	srv := natstest.Start(tb, opts...)
	Ensure(tb, srv.JetStream(tb), topology.Config{})
	return srv
}

// StartCluster starts three servers that end with the test, and creates the streams with three replicas. The replicas may not be current yet.
func StartCluster(tb testing.TB) *natstest.Cluster {
	tb.Helper()
	cluster := natstest.StartCluster(tb, 3)
	Ensure(tb, cluster.JetStream(tb), topology.Config{Replicas: 3})
	return cluster
}

// Ensure creates the streams. It repeats a failed attempt for a minute, because a cluster may be electing a leader. An attempt may take longer than
// the context of natstest.Eventually, since it creates one stream after the other.
func Ensure(tb testing.TB, js jetstream.JetStream, cfg topology.Config) {
	tb.Helper()
	natstest.Eventually(tb, "the streams", func(context.Context) error {
		ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
		defer cancel()
		return topology.Ensure(ctx, js, cfg)
	})
}

// Message returns the message that a writer publishes for a record.
func Message(tb testing.TB, layout subjects.Layout, of codec.Envelope, body chunk.Body) *nats.Msg {
	tb.Helper()
	subject, err := layout.Subject(of.Session)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := codec.Encode(of, chunk.Chunk{AgentID: of.Session.ID, AgentType: "tester", Timestamp: 1_700_000_000_000, Body: body})
	if err != nil {
		tb.Fatal(err)
	}
	return &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}
}
