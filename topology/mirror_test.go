package topology_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/topology"
)

// Mirrors are created once, and again on request or if their stream has another epoch. They have the limits and the epoch of their stream. Other streams stay.
func TestEnsureMirrors(t *testing.T) {
	leaf := natstest.StartLeaf(t, natstest.LeafConfig{})
	layout := subjects.Layout{Partitions: 2}
	home, local := leaf.Home.JetStream(t), leaf.Leaf.JetStream(t)
	streamtest.Ensure(t, home, topology.Config{Layout: layout})
	far, err := jetstream.NewWithDomain(local.Conn(), natstest.HomeDomain)
	if err != nil {
		t.Fatal(err)
	}
	cfg := topology.MirrorConfig{Layout: layout, HomeDomain: natstest.HomeDomain}
	ensure := func() (results string, err error) {
		var words []string
		err = topology.EnsureMirrors(t.Context(), far, local, cfg, func(m topology.Mirror) { words = append(words, string(m.Result)) })
		return strings.Join(slices.Compact(words), " "), err
	}
	for _, want := range []string{"created", "exists"} {
		if got, err := ensure(); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	for _, name := range topology.Mirrored(layout) {
		natstest.Eventually(t, "mirror "+name, func(ctx context.Context) error { return isCopy(ctx, home, local, name) })
	}
	cfg.Recreate = true
	if got, err := ensure(); err != nil || got != "recreated" {
		t.Errorf("%s, %v, want recreated", got, err)
	}
	cfg.Recreate = false
	if err := home.DeleteStream(t.Context(), "TR_CHUNKS_1"); err != nil {
		t.Fatal(err)
	}
	if _, err := ensure(); err == nil || !strings.Contains(err.Error(), "TR_CHUNKS_1") {
		t.Errorf("without a stream at home: %v", err)
	}
	streamtest.Ensure(t, home, topology.Config{Layout: layout})
	if got, err := ensure(); err != nil || got != "exists recreated exists" {
		t.Errorf("%s, %v, want one mirror recreated", got, err)
	}
	if err := local.DeleteStream(t.Context(), "TR_CHUNKS_0"); err != nil {
		t.Fatal(err)
	}
	if _, err := local.CreateStream(t.Context(), jetstream.StreamConfig{Name: "TR_CHUNKS_0", Subjects: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	cfg.Recreate = true
	if _, err := ensure(); err == nil || !strings.Contains(err.Error(), "not a mirror") {
		t.Errorf("another stream with the name of a mirror: %v", err)
	}
	if _, err := local.Stream(t.Context(), "TR_CHUNKS_0"); err != nil {
		t.Errorf("the other stream: %v", err)
	}
}

// isCopy returns nil if a mirror has the metadata and the limits of its stream, and nothing by which messages expire that it has to keep.
func isCopy(ctx context.Context, home, local jetstream.JetStream, name string) error {
	origin, err := home.Stream(ctx, name)
	if err != nil {
		return err
	}
	mirror, err := local.Stream(ctx, name)
	if err != nil {
		return err
	}
	want, got := origin.CachedInfo().Config, mirror.CachedInfo().Config
	for key, value := range want.Metadata {
		if strings.HasPrefix(key, "tailrace.") && got.Metadata[key] != value {
			return fmt.Errorf("%s is %q, want %q", key, got.Metadata[key], value)
		}
	}
	if got.AllowMsgTTL || got.MaxAge != want.MaxAge || got.MaxMsgsPerSubject != want.MaxMsgsPerSubject || got.MaxMsgSize != want.MaxMsgSize {
		return fmt.Errorf("configuration %+v", got)
	}
	return nil
}
