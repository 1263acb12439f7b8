package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/health"
	"github.com/tailrace/tailrace/internal/roles"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

// readiness returns the dependencies that a process reports on its ops listener. The process must be ready.
func readiness(t *testing.T, ops string) map[string]health.State {
	t.Helper()
	var body struct {
		Dependencies map[string]health.State `json:"dependencies"`
	}
	status, text := get(t, ops+"/readyz", "")
	if err := json.Unmarshal([]byte(text), &body); err != nil || status != http.StatusOK {
		t.Fatalf("readyz: %d %s, %v", status, text, err)
	}
	return body.Dependencies
}

// awaitProbe waits until a probe succeeds for the first time.
func awaitProbe(t *testing.T, url string) {
	t.Helper()
	natstest.Eventually(t, url, func(context.Context) error {
		if status, body := get(t, url, ""); status != http.StatusOK {
			return errors.New(body)
		}
		return nil
	})
}

// awaitReady waits until the process is ready.
func awaitReady(t *testing.T, ops string) {
	t.Helper()
	awaitProbe(t, ops+"/readyz")
}

// awaitStart waits until the process has started completely.
func awaitStart(t *testing.T, ops string) {
	t.Helper()
	awaitProbe(t, ops+"/startupz")
}

// awaitDependencies waits until the process reports these dependencies as failed and all others as working.
func awaitDependencies(t *testing.T, ops string, failed ...string) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%q failed, others ok", failed), func(context.Context) error {
		states := readiness(t, ops)
		for _, name := range failed {
			if states[name] != health.Failed {
				return fmt.Errorf("%s is %s", name, states[name])
			}
			delete(states, name)
		}
		for name, state := range states {
			if state != health.OK {
				return fmt.Errorf("%s is %s", name, state)
			}
		}
		return nil
	})
}

// TestReadyWithoutDependencies stays ready while an operator edits a stream and while the server is gone, and shows both. The start is complete only once the
// streams were checked, and stays so. A thousand probes send no request to the server.
func TestReadyWithoutDependencies(t *testing.T) {
	t.Parallel()
	server := streamtest.Start(t)
	p := startEdge(t, "--nats-url", server.URL)
	ops := p.ops
	awaitStart(t, ops)
	awaitDependencies(t, ops)

	js := server.JetStream(t)
	requests := func() uint64 {
		t.Helper()
		info, err := js.AccountInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.API.Total
	}
	before := requests()
	for range 1000 {
		readiness(t, ops)
	}
	if n := requests() - before; n > 100 { // those of a few background checks and of this test
		t.Errorf("%d requests to JetStream during 1000 probes, want at most 100", n)
	}

	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	edited := stream.CachedInfo().Config
	edited.AllowDirect = false
	update := func(c jetstream.StreamConfig) {
		t.Helper()
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	update(edited)
	awaitDependencies(t, ops, "TR_CHUNKS_0")
	p.await(t, `(level=WARN msg="dependency failed" dependency=TR_CHUNKS_0 error="TR_CHUNKS_0: direct get is off, want on)`)
	update(stream.CachedInfo().Config)

	server.Shutdown()
	natstest.Eventually(t, "the loss of the connection", func(context.Context) error {
		if states := readiness(t, ops); states["nats"] != health.Failed || states["TR_CHUNKS_0"] != health.Unknown {
			return fmt.Errorf("%v", states)
		}
		return nil
	})
	if status, body := get(t, ops+"/startupz", ""); status != http.StatusOK {
		t.Errorf("startupz without NATS: %d %s", status, body)
	}
	server.Restart(t)
	awaitDependencies(t, ops) // soon, because the process has reconnected
	p.await(t, `(level=INFO msg="dependency restored" dependency=TR_CHUNKS_0)`)
}

// TestStartWithoutAStream starts an edge while the only replica of one stream is offline: the edge waits for it, and is ready for the other partition.
func TestStartWithoutAStream(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	cfg := topology.Config{Layout: subjects.Layout{Partitions: 2}}
	streams, err := topology.Streams(cfg)
	if err != nil {
		t.Fatal(err)
	}
	js := cluster.Node(0).JetStream(t)
	for _, stream := range streams {
		stream.Placement = &jetstream.Placement{Tags: []string{"!n2"}}
		if stream.Name == "TR_CHUNKS_1" {
			stream.Placement.Tags = []string{"n2"}
		}
		natstest.Eventually(t, "the stream "+stream.Name, func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, stream)
			return err
		})
	}
	cluster.Node(2).Shutdown(t)
	natstest.Eventually(t, "an offline stream", func(ctx context.Context) error {
		_, err := js.Stream(ctx, "TR_CHUNKS_1")
		if _, ok := errors.AsType[*jetstream.APIError](err); !ok || !roles.IsUnavailable(err) {
			return fmt.Errorf("response: %w", err)
		}
		return nil
	})
	ops := startEdge(t, "--nats-url", cluster.URL(), "--partitions", "2").ops
	awaitReady(t, ops)
	natstest.Eventually(t, "the report of the stream", func(context.Context) error {
		if states := readiness(t, ops); states["TR_CHUNKS_1"] != health.Failed || states["TR_CHUNKS_0"] != health.OK {
			return fmt.Errorf("%v", states)
		}
		return nil
	})
	if status, body := get(t, ops+"/startupz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("startupz: %d %s", status, body)
	}
	cluster.Node(2).Restart(t)
	awaitDependencies(t, ops)
	if status, body := get(t, ops+"/startupz", ""); status != http.StatusOK {
		t.Errorf("startupz with the stream: %d %s", status, body)
	}
}
