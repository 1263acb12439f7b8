//go:build e2e

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/e2e/pods"
)

var podsSpeed = flag.Int("pods-speed", 10, "divisor of the delays of the manifests in TestPods; 1 also updates each role alone")

// The overlay production runs on three NATS servers: three pods of each role. While 50 sessions are written and 500 clients follow them (200 with shorter delays),
// and users chat with an agent, all roles are updated, a node is drained, and the edges are scaled to two, six and two. No client loses, duplicates or reorders an event or has a silence of
// three seconds, every answer is complete, no step of an agent is repeated, and no container is restarted.
func TestPods(t *testing.T) {
	opts := podsOptions{speed: *podsSpeed}
	if opts.speed > 1 {
		opts.readers = 200 // restarts are closer to each other, and other work may have a part of the processors
	}
	e := newPodsEnv(t, opts)
	step := func(name string, of ...*pods.Deployment) {
		t.Helper()
		began := time.Now()
		for _, d := range of {
			d.AwaitAvailable(t)
		}
		e.readers.awaitAll(t)
		t.Logf("%s: %s", name, time.Since(began).Round(100*time.Millisecond))
	}
	if *podsSpeed == 1 {
		for i, name := range []string{"edges", "projectors", "workers"} {
			e.roles()[i].Rollout()
			step("update of the "+name, e.roles()[i])
		}
	}
	for _, d := range e.roles() {
		d.Rollout()
	}
	step("update of all roles", e.roles()...)
	for _, d := range e.roles() {
		if err := d.Evict(); err != nil {
			t.Error(err)
		}
	}
	if err := e.edge.Evict(); !errors.Is(err, pods.ErrBudget) {
		t.Errorf("second eviction of an edge: %v, want ErrBudget", err)
	}
	step("drain of a node", e.roles()...)
	for _, n := range []int{2, 6, 2} {
		e.edge.Scale(n)
		step(fmt.Sprintf("scale to %d edges", n), e.edge)
		e.balancer.cut() // half of the clients connect again, so that added edges have some
		e.readers.awaitAll(t)
	}
	e.check(t)
	e.readers.checkSilence(t, 3*time.Second, anyFollower)
	if answers, requests := e.chats.answers(), len(e.model.Requests()); requests != answers {
		t.Errorf("the model got %d requests for %d answers: steps were repeated", requests, answers)
	}
}
