package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// The command prints the epoch of each stream, and changes only the streams that it is given.
func TestEpochs(t *testing.T) {
	server := natstest.Start(t)
	js := server.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	streams, err := topology.Streams(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := epochsOf(t, server.URL)
	if again := epochsOf(t, server.URL); !maps.Equal(again, before) {
		t.Errorf("epochs %v, before %v", again, before)
	}
	changed := epochsOf(t, server.URL, "--new", "TR_CHUNKS_0, KV_TR_SNAPSHOTS")
	for _, cfg := range streams {
		if differs := changed[cfg.Name] != before[cfg.Name]; differs != (cfg.Name == "TR_CHUNKS_0" || cfg.Name == "KV_TR_SNAPSHOTS") {
			t.Errorf("%s has the epoch %q, before %q", cfg.Name, changed[cfg.Name], before[cfg.Name])
		}
	}
	for _, name := range []string{"TR_CHUNKS_1", "all,x"} {
		if code, _, errs := runCommand(t, "", "epoch", "--new", name, "--nats-url", server.URL); code != exitUsage || !strings.Contains(errs, "want the name of a stream") {
			t.Errorf("--new %q: exit code %d: %s", name, code, errs)
		}
	}
	if err := topology.Check(t.Context(), js, topology.Config{}); err != nil {
		t.Error(err)
	}
}
