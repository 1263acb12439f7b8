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
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge/hub"
)

// The server sends messages to the edge that do not arrive, arrive twice or in
// the wrong order, on the feed and in reads of history, while trees of sessions
// are written. Every client holds the log in the end: the numbers of the
// consumer tell, and the tape goes back to what it has.
func TestDroppedLiveMessages(t *testing.T) {
	dice := seeded(t)
	for _, tt := range []struct {
		name string
		rule func(natstest.Delivery) natstest.Fate
	}{
		{"one in a hundred lost", sometimes(dice, 0.01, natstest.Lose)},
		{"one in ten lost", sometimes(dice, 0.1, natstest.Lose)},
		{"bursts lost", inBursts(dice)},
		{"doubled", sometimes(dice, 0.05, natstest.Double)},
		{"swapped", sometimes(dice, 0.05, natstest.Swap)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, mangler := newMangledWorld(t, natstest.Start(t, natstest.Listen()), worldConfig{heartbeat: 200 * time.Millisecond})
			mangler.Mangle(tt.rule)
			w.tellAll(t, dice, 6)
			w.checkFound(t, mangler)
		})
	}
}

// The server leaves messages out of the feed, not of reads of history, and the numbers of its consumer do
// not tell. The next message of the stream, whoever's it is, tells: between the
// two the stream has one more. So the ends of sessions are let through here, for
// behind the last of them comes nothing.
func TestFeedThatLies(t *testing.T) {
	dice := seeded(t)
	server := natstest.Start(t, natstest.Listen())
	w, mangler := newMangledWorld(t, server, worldConfig{history: server.Conn(t)})
	rule := sometimes(dice, 0.05, natstest.Hide)
	mangler.Mangle(func(d natstest.Delivery) natstest.Fate {
		if strings.Contains(d.Head, "ce-type: "+string(chunk.TypeStreamEnd)+"\r\n") {
			return natstest.Deliver
		}
		return rule(d)
	})
	w.tellAll(t, dice, 10)
	w.checkFound(t, mangler)
}

// The last message before a silence is lost, so that no later one tells of it.
// The heartbeat of the feed does: it counts what was sent. It comes after two
// seconds of silence, and what it told of follows at once.
func TestLastMessageBeforeASilence(t *testing.T) {
	w, mangler := newMangledWorld(t, natstest.Start(t, natstest.Listen()), worldConfig{})
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

	const bound = 3 * time.Second // the silence before a heartbeat, and a second to read again
	for n := range 2 {
		lost := n + 1 // in vain as well, so often, what is sent when the tape reads again
		mangler.Mangle(func(natstest.Delivery) natstest.Fate {
			if lost > 0 {
				lost--
				return natstest.Lose
			}
			return natstest.Deliver
		})
		name := fmt.Sprintf("last-%d", n)
		began := time.Now()
		if err := run.Say(t.Context(), chunk.Custom{EventName: name}); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, lines, name, time.Duration(n+1)*bound)
		t.Logf("lost %d times, there after %s", n+1, time.Since(began).Round(time.Millisecond))
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mangler.Count(natstest.Lose); got != 3 {
		t.Errorf("%d deliveries lost, want 3", got)
	}
}

// checkFound makes sure that there was something to find, and that the feed found
// it: the hub, which sees the ordinals of watched sessions, had nothing to do.
func (w *edgeWorld) checkFound(t *testing.T, m *natstest.Mangler) {
	t.Helper()
	mangled := m.Count(natstest.Lose) + m.Count(natstest.Double) + m.Count(natstest.Swap) + m.Count(natstest.Hide)
	resets := w.feed.Stats().Resets
	t.Logf("%d deliveries as they should be, %d not; %d resets", m.Count(natstest.Deliver), mangled, resets)
	if mangled == 0 || resets == 0 {
		t.Error("nothing was put to the test")
	}
	if n := w.hub.Stats().Holes; n != 0 {
		t.Errorf("%d holes came as far as the hub", n)
	}
}

// newMangledWorld has a Mangler between the server and the edge.
func newMangledWorld(t *testing.T, server *natstest.Server, cfg worldConfig) (*edgeWorld, *natstest.Mangler) {
	t.Helper()
	mangler := natstest.StartMangler(t, server.URL)
	cfg.write, cfg.feed = server.Conn(t), natstest.Connect(t, mangler.URL)
	cfg.hub = hub.Config{Memory: 256 << 10, Page: 32 << 10}
	return newEdgeWorld(t, cfg), mangler
}

// tellAll writes n trees at once, each before four clients, and checks them.
func (w *edgeWorld) tellAll(t *testing.T, dice *rand.Rand, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stories := make([]told, n)
	var all errgroup.Group
	for i := range stories {
		random := rand.New(rand.NewPCG(dice.Uint64(), uint64(i)))
		all.Go(func() (err error) {
			stories[i], err = w.tell(ctx, chunk.RootSession("default", fmt.Sprintf("s%d", i)), plot{clients: 4}, random)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, story := range stories {
		w.check(t, story)
	}
}

// sometimes throws dice of its own: the rule is asked by another goroutine.
func sometimes(seed *rand.Rand, share float64, fate natstest.Fate) func(natstest.Delivery) natstest.Fate {
	dice := rand.New(rand.NewPCG(seed.Uint64(), 3))
	return func(natstest.Delivery) natstest.Fate {
		if dice.Float64() < share {
			return fate
		}
		return natstest.Deliver
	}
}

// inBursts loses up to fifty deliveries in a row, now and then.
func inBursts(seed *rand.Rand) func(natstest.Delivery) natstest.Fate {
	dice, left := rand.New(rand.NewPCG(seed.Uint64(), 3)), 0
	return func(natstest.Delivery) natstest.Fate {
		if left == 0 && dice.IntN(200) == 0 {
			left = 1 + dice.IntN(50)
		}
		if left > 0 {
			left--
			return natstest.Lose
		}
		return natstest.Deliver
	}
}

// watchLines opens a stream and hands over its lines until the test ends.
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

// awaitLine reads on to a line with the words.
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
