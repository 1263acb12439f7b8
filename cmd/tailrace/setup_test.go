package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// setup creates all streams and may be repeated; with other settings it changes nothing. A role that only checks
// streams needs setup before.
func TestSetup(t *testing.T) {
	server := natstest.Start(t)
	tailrace := func(want int, args ...string) string {
		t.Helper()
		return tailrace(t, want, append(args, "--nats-url", server.URL, "--partitions", "2")...)
	}
	if got := tailrace(exitError, "projector", "--ops-listen", ""); !strings.Contains(got, "TR_CHUNKS_0: is missing") || !strings.Contains(got, "`tailrace setup`") {
		t.Errorf("without streams: %s", got)
	}
	names := server.JetStream(t).StreamNames(t.Context())
	for name := range names.Name() {
		t.Errorf("projector created %s", name)
	}
	for _, want := range []string{"created 12 streams\n", "checked 12 streams\n"} {
		if got := tailrace(exitOK, "setup"); got != want {
			t.Errorf("setup: %s", got)
		}
	}
	if err := server.JetStream(t).DeleteStream(t.Context(), "TR_AUDIT"); err != nil {
		t.Fatal(err)
	}
	if got := tailrace(exitOK, "setup"); got != "created 1 streams, checked 11 streams\n" {
		t.Errorf("setup: %s", got)
	}
	if err := topology.Check(t.Context(), server.JetStream(t), config{Partitions: 2}.topology()); err != nil {
		t.Error(err)
	}
	if got := tailrace(exitOK, "setup", "--max-age", "1h"); !strings.Contains(got, "accepted  TR_CHUNKS_0: max age is 72h0m0s, want 1h0m0s") {
		t.Errorf("with a shorter age: %s", got)
	}
	if got := tailrace(exitError, "edge", "--feed", "interest", "--listen", "127.0.0.1:0", "--ops-listen", ""); !strings.Contains(got, "TR_CHUNKS_1: republish is none, want tr.chunks.1.> to tr.live.1.>; change it with `nats stream edit") {
		t.Errorf("an edge that needs a log which republishes: %s", got)
	}
	tailrace(exitUsage, "setup", "--feed", "all")
	if got := tailrace(exitError, "publish", "--session", "s1"); !strings.Contains(got, "no run was opened") { // the streams are accepted, and there is no input
		t.Errorf("publish: %s", got)
	}
	tailrace(exitUsage, "setup", "now")
	tailrace(exitUsage, "setup", "--prefix", "a b")
}

// setup for edges that follow sessions creates a log that republishes, which all roles accept.
func TestSetupForInterest(t *testing.T) {
	server := natstest.Start(t)
	if got := tailrace(t, exitOK, "setup", "--feed", "interest", "--nats-url", server.URL); got != "created 10 streams\n" {
		t.Errorf("setup: %s", got)
	}
	if got := tailrace(t, exitOK, "setup", "--nats-url", server.URL); !strings.Contains(got, "accepted  TR_CHUNKS_0: republish is tr.chunks.0.> to tr.live.0.>, want none") {
		t.Errorf("setup without it: %s", got)
	}
}

// setup and the roles refuse another number of partitions than that of the streams.
func TestSetupWithAnotherNumberOfPartitions(t *testing.T) {
	server := natstest.Start(t)
	tailrace(t, exitOK, "setup", "--nats-url", server.URL, "--partitions", "4")
	for _, n := range []string{"8", "2"} {
		for _, args := range [][]string{{"setup"}, {"projector", "--ops-listen", ""}} {
			got := tailrace(t, exitError, append(args, "--nats-url", server.URL, "--partitions", n)...)
			if !strings.Contains(got, "TR_CHUNKS_0: number of partitions is 4, want "+n+"; set Layout.Partitions (TAILRACE_PARTITIONS) to 4: the number is fixed when the streams are created") {
				t.Errorf("%s with %s partitions: %s", args[0], n, got)
			}
		}
	}
}

// setup --print needs no server, and streams that are made of its lines pass the check.
func TestSetupPrint(t *testing.T) {
	out := tailrace(t, exitOK, "setup", "--print", "--nats-url", "nats://127.0.0.1:1", "--partitions", "2", "--max-age", "5h")
	cfg := config{Partitions: 2, MaxAge: 5 * time.Hour}.newStreams()
	want, err := topology.Streams(cfg)
	if err != nil {
		t.Fatal(err)
	}
	js := natstest.Start(t).JetStream(t)
	var got []jetstream.StreamConfig
	for line := range strings.Lines(out) {
		var stream jetstream.StreamConfig
		if err := json.Unmarshal([]byte(line), &stream); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, err := js.CreateStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
		got = append(got, stream)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := topology.Check(t.Context(), js, cfg); err != nil {
		t.Error(err)
	}
}

// An operator bounds a running log: the check of the role passes, a limit is logged once and counted in a metric, unless it is a size or an age.
func TestStricterStream(t *testing.T) {
	server := natstest.Start(t)
	js := server.JetStream(t)
	var logged strings.Builder
	cfg := config{NATSURL: redactedURL(server.URL), Partitions: 1, Replicas: 1, Prefix: "tr"}
	b, err := connect(natsauth.Operator, cfg, cfg.logger(&logged))
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if err := topology.Ensure(t.Context(), js, cfg.topology()); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	edited := stream.CachedInfo().Config
	edited.MaxBytes, edited.MaxConsumers = 1<<30, 500
	if _, err := js.UpdateStream(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.probeStreams(t.Context(), func(stream string, err error) {
			if err != nil {
				t.Errorf("dependency %s failed: %v", stream, err)
			}
		})
		if err := b.ensureTopologyOnce(t.Context()); err != nil {
			t.Errorf("not started: %v", err)
		}
	}
	if n := strings.Count(logged.String(), `msg="stream limit stricter than asked" stream=TR_CHUNKS_0 setting="max consumers" got=500 want=4096`); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, logged.String())
	}
	for class, want := range map[string]float64{"stricter": 1, "breaks": 0} {
		if got := testutil.ToFloat64(b.differences.count.WithLabelValues(class)); got != want {
			t.Errorf("%s: %v, want %v", class, got, want)
		}
	}
}
