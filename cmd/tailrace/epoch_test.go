package main

import (
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/topology"
)

// The command prints the epoch of each stream, stores that of streams of an earlier build, and changes only the streams that it is given.
func TestEpochs(t *testing.T) {
	server := natstest.Start(t, natstest.Listen())
	js := server.JetStream(t)
	streams, err := topology.Streams(topology.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range streams { // as an earlier build creates them
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	before := epochsOf(t, server.URL)
	if out := tailrace(t, exitOK, "epoch", "--nats-url", server.URL); strings.Count(out, "creation time") != len(streams) {
		t.Errorf("%s\nwant %d epochs from the creation time", out, len(streams))
	}
	kept := epochsOf(t, server.URL, "--keep")
	for _, cfg := range streams {
		if kept[cfg.Name] != before[cfg.Name] || kept[cfg.Name] == "" {
			t.Errorf("%s has the epoch %q, before %q", cfg.Name, kept[cfg.Name], before[cfg.Name])
		}
	}
	if out := tailrace(t, exitOK, "epoch", "--nats-url", server.URL); strings.Contains(out, "creation time") {
		t.Errorf("%s\nwant no epoch from the creation time", out)
	}
	changed := epochsOf(t, server.URL, "--new", "TR_CHUNKS_0, KV_TR_SNAPSHOTS")
	for _, cfg := range streams {
		if differs := changed[cfg.Name] != kept[cfg.Name]; differs != (cfg.Name == "TR_CHUNKS_0" || cfg.Name == "KV_TR_SNAPSHOTS") {
			t.Errorf("%s has the epoch %q, before %q", cfg.Name, changed[cfg.Name], kept[cfg.Name])
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
