//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/topology"
)

// The partitions of a running system grow from one to four, by the steps of docs/scaling.md, while sessions are written and followed: the streams are created, all
// processes restart with the list, and the old partition is closed. No client loses, duplicates or reorders an event or has a silence of three seconds. Sessions
// that have begun continue in the old partition, later ones begin in the new ones, and a writer with the old layout is refused.
func TestPartitionsGrow(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	const pace = 250 * time.Millisecond
	before := startWritersOn(t, server.URL, writerConfig{prefix: "before", sessions: 5, pace: pace})
	edges := []*edgeProcess{startEdge(t, server.URL, "--drain", "1s"), startEdge(t, server.URL, "--drain", "1s")}
	projector := newEdge(t, server.URL)
	projector.args = []string{"projector"}
	projector.start(t)
	lb := startBalancer(t, edges...)
	ofBefore := before.startReaders(t, lb.addr, 40, nil)
	ofBefore.awaitAll(t)

	const list = "1,4"
	runCommand(t, server.URL, natsauth.Setup, "setup", "--partitions", list)
	grown := topology.Config{Layout: subjects.Layout{Earlier: []int{1}, Partitions: 4}}
	during := startWritersOn(t, server.URL, writerConfig{streams: grown, prefix: "during", sessions: 5, pace: pace})
	for _, e := range edges {
		e.terminate(t)
		lb.awaitReady(t, e.addr, false)
		e.args = append(e.args, "--partitions", list)
		e.start(t)
		lb.awaitReady(t, e.addr, true)
	}
	projector.terminate(t)
	projector.args = append(projector.args, "--partitions", list)
	projector.start(t)
	ofDuring := during.startReaders(t, lb.addr, 40, nil)
	ofDuring.awaitAll(t)
	ofBefore.awaitAll(t)
	ofBefore.checkAll(t)

	if out := runCommand(t, server.URL, natsauth.Operator, "grow", "--partitions", list); !strings.Contains(out, "TR_CHUNKS_0 is closed") {
		t.Errorf("grow: %s", out)
	}
	after := startWritersOn(t, server.URL, writerConfig{streams: grown, prefix: "after", sessions: 8, pace: pace})
	ofAfter := after.startReaders(t, lb.addr, 40, nil)
	for range 3 {
		during.awaitMore(t)
		after.awaitMore(t)
	}
	old, err := producers.New(before.js, producers.Config{RetryTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Start(t.Context(), chunk.RootSession("default", "refused"), chunk.RunStarted{Mode: "execute"}); !errors.Is(err, producers.ErrOldLayout) {
		t.Errorf("a writer with the old layout: %v, want ErrOldLayout", err)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	for _, all := range []*readers{ofDuring, ofAfter} {
		all.awaitAll(t)
		all.checkAll(t)
	}
	for _, all := range []*readers{ofBefore, ofDuring, ofAfter} {
		all.checkSilence(t, 3*time.Second, anyFollower)
	}
	for _, of := range []struct {
		recorders *recorders
		closed    bool
	}{{during, true}, {after, false}} {
		for _, w := range of.recorders.writers {
			if p, final, err := of.recorders.reader.Partition(t.Context(), w.root); err != nil || !final || (p == 0) != of.closed {
				t.Errorf("%s is in partition %d, %t, %v", w.root, p, final, err)
			}
		}
	}
	t.Logf("verify: %s", runCommand(t, server.URL, natsauth.Operator, "verify", "--all", "--partitions", list))
}

// runCommand runs the program in a role until it ends, and returns its output.
func runCommand(t *testing.T, natsURL string, role natsauth.Role, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), args...)
	cmd.Env = slices.Concat(os.Environ(), roletest.Shared().Env(role), []string{"TAILRACE_NATS_URL=" + natsURL})
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}
