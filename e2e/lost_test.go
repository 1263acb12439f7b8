//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/producers"
)

// Messages from the server to the edge are lost, duplicated or reordered, in the feed and in reads of history, while session trees are written. Every client
// has received the log at the end: the consumer sequences reveal the gap, and the ordered reader resumes after the last message.
func TestDroppedLiveMessages(t *testing.T) {
	generator := seedtest.Rand(t)
	for _, tt := range []struct {
		name string
		rule func(natstest.Delivery) natstest.Fault
	}{
		{"one in a hundred lost", oncePer(100, generator, natstest.Drop)},
		{"one in ten lost", oncePer(10, generator, natstest.Drop)},
		{"bursts lost", inBursts(200, 50, generator, natstest.Drop)},
		{"duplicated", oncePer(20, generator, natstest.Duplicate)},
		{"reordered", oncePer(20, generator, natstest.Reorder)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, proxy := newFaultyEnv(t, natstest.Start(t), edgeEnvConfig{heartbeat: 200 * time.Millisecond})
			proxy.SetDeliveryFaults(tt.rule)
			w.writeTrees(t, generator, 6)
			w.checkFound(t, proxy)
		})
	}
}

// The server drops messages from the feed, not from reads of history, without a gap in the consumer
// sequences. The next message of the stream, of any session, reveals the gap in the stream sequences. So
// the ends of sessions are not dropped here, because no message follows the last of them.
func TestFeedWithoutConsumerGap(t *testing.T) {
	generator := seedtest.Rand(t)
	server := natstest.Start(t)
	w, proxy := newFaultyEnv(t, server, edgeEnvConfig{history: server.Conn(t)})
	rule := oncePer(20, generator, natstest.DropSilently)
	proxy.SetDeliveryFaults(func(d natstest.Delivery) natstest.Fault {
		if strings.Contains(d.Header, "ce-type: "+string(chunk.TypeStreamEnd)+"\r\n") {
			return natstest.Deliver
		}
		return rule(d)
	})
	w.writeTrees(t, generator, 10)
	w.checkFound(t, proxy)
}

// The last message before a silence is lost, so that no later message reveals it. The heartbeat of the feed does, because it contains the number of sent
// messages. It arrives after two seconds of silence, and the missing message follows immediately.
func TestLastMessageBeforeASilence(t *testing.T) {
	w, proxy := newFaultyEnv(t, natstest.Start(t), edgeEnvConfig{})
	root := chunk.RootSession("default", "silence")
	run, err := w.producer.Start(t.Context(), root, chunk.RunStarted{Mode: "execute"}, producers.AgentType("quiet"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := watchLines(t, w.url+"/v1/sessions/silence/events")
	awaitLine(t, lines, `"run_started"`, time.Minute)

	const bound = 3 * time.Second // the silence before a heartbeat, and a second for the reset
	for n := range 2 {
		lost := n + 1 // also drops n deliveries after the ordered reader has reset
		proxy.SetDeliveryFaults(func(natstest.Delivery) natstest.Fault {
			if lost > 0 {
				lost--
				return natstest.Drop
			}
			return natstest.Deliver
		})
		name := fmt.Sprintf("last-%d", n)
		began := time.Now()
		if err := run.EmitBody(t.Context(), chunk.Custom{EventName: name}); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, lines, name, time.Duration(n+1)*bound)
		t.Logf("lost %d times, received after %s", n+1, time.Since(began).Round(time.Millisecond))
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if got := proxy.Count(natstest.Drop); got != 3 {
		t.Errorf("%d deliveries lost, want 3", got)
	}
}

// checkFound checks that faults happened and that the feed repaired them: the hub, which checks the ordinals of watched sessions, must find no gap.
func (w *edgeEnv) checkFound(t *testing.T, m *natstest.FaultProxy) {
	t.Helper()
	faults := m.Count(natstest.Drop) + m.Count(natstest.Duplicate) + m.Count(natstest.Reorder) + m.Count(natstest.DropSilently)
	resets := w.feed.Stats().Resets
	t.Logf("%d deliveries without a fault, %d with; %d resets", m.Count(natstest.Deliver), faults, resets)
	if faults == 0 || resets == 0 {
		t.Error("no fault or no reset: nothing was tested")
	}
	if n := w.hub.Stats().Gaps; n != 0 {
		t.Errorf("the hub found %d gaps, want 0", n)
	}
}

// newFaultyEnv has a FaultProxy between the server and the edge.
func newFaultyEnv(t *testing.T, server *natstest.Server, cfg edgeEnvConfig) (*edgeEnv, *natstest.FaultProxy) {
	t.Helper()
	proxy := natstest.StartFaultProxy(t, server.URL)
	cfg.write, cfg.feed = server.Conn(t), natstest.Connect(t, proxy.URL, asEdge(t)...)
	cfg.edge.HubBytes = 256 << 10
	return newEdgeEnv(t, cfg), proxy
}

// writeTrees writes n trees concurrently, each with four clients, and checks the clients.
func (w *edgeEnv) writeTrees(t *testing.T, generator *rand.Rand, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	trees := make([]writtenTree, n)
	var all errgroup.Group
	for i := range trees {
		random := rand.New(rand.NewPCG(generator.Uint64(), uint64(i)))
		all.Go(func() (err error) {
			trees[i], err = w.writeTree(ctx, chunk.RootSession("default", fmt.Sprintf("s%d", i)), treeOptions{clients: 4}, random)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		w.check(t, tree)
	}
}

// oncePer applies a fault to one delivery of every n, at a random position, so that a test with n deliveries has a fault. It uses a
// separate generator, because the rule is called by another goroutine.
func oncePer(n int, seed *rand.Rand, fault natstest.Fault) func(natstest.Delivery) natstest.Fault {
	return inBursts(n, 1, seed, fault)
}

// inBursts applies a fault to up to longest deliveries in a row, once in every n deliveries without one.
func inBursts(n, longest int, seed *rand.Rand, fault natstest.Fault) func(natstest.Delivery) natstest.Fault {
	generator := rand.New(rand.NewPCG(seed.Uint64(), 3))
	position, at, left := 0, generator.IntN(n), 0
	return func(natstest.Delivery) natstest.Fault {
		if left > 0 {
			left--
			return fault
		}
		begins := position == at
		if position++; position == n {
			position, at = 0, generator.IntN(n)
		}
		if begins {
			left = generator.IntN(longest)
			return fault
		}
		return natstest.Deliver
	}
}

// watchLines opens a stream and sends its lines to a channel until the test ends.
func watchLines(t *testing.T, url string) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(lines)
		for text := bufio.NewScanner(resp.Body); text.Scan(); {
			lines <- text.Text()
		}
	})
	t.Cleanup(func() {
		_ = resp.Body.Close()
		reading.Wait()
	})
	return lines
}

// awaitLine reads up to a line that contains words.
func awaitLine(t *testing.T, lines <-chan string, words string, bound time.Duration) {
	t.Helper()
	limit := time.NewTimer(bound)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %s", words)
			}
			if strings.Contains(line, words) {
				return
			}
		case <-limit.C:
			t.Fatalf("no %s within %s", words, bound)
		}
	}
}
