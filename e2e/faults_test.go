//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/names"
)

var (
	faultsFeeds = flag.String("faults-feeds", "interest", "feeds of the edges that TestFaults runs with: partition, interest, or both with a comma")
	faultsFor   = flag.Duration("faults-for", 0, "how long TestFaults kills leaders")
	faultsEvery = flag.Duration("faults-every", 10*time.Second, "from one kill to the next in TestFaults")
	faultsZone  = flag.Duration("faults-zone", 3*time.Second, "how long the zone is down in TestFaults")
)

const (
	faultsEdges   = 4
	faultsTrees   = 5  // sessions with sub-agents, with an interest feed
	faultsClients = 20 // of them
)

// The overlay production runs with four edges, three projectors and three workers on three NATS servers. While 50 sessions are written and 500 clients follow them,
// and users chat with an agent, the leader of one stream after another is killed with SIGKILL and restarted. Then a whole zone is down: a server, an edge, a projector
// and a worker. Each client has the log of its session, each answer is complete, and each snapshot is the fold of its log.
//
// With an interest feed, the clients of a tree in which sub-agents write may get a truncated event, so these trees have other followers, which check that nothing is
// missing without one.
func TestFaults(t *testing.T) {
	for feed := range strings.SplitSeq(*faultsFeeds, ",") {
		t.Run(feed, func(t *testing.T) { runFaults(t, feed) })
	}
}

func runFaults(t *testing.T, feed string) {
	t.Helper()
	interest := feed == "interest"
	e := newPodsEnv(t, podsOptions{speed: *podsSpeed, variables: map[string]string{"TAILRACE_FEED": feed}, edges: faultsEdges, flat: interest})
	e.chats.unavailable.Store(true)
	var trees *readers
	if interest {
		_, trees = e.startFollowed(t, writerConfig{prefix: "tree", sessions: faultsTrees}, faultsClients)
		trees.awaitAll(t)
	}
	streams := e.replicatedStreams(t)
	e.killLeaders(t, streams)

	zone := e.nats.Leader(t, streams[0])
	down := time.Now()
	e.nats.Kill(t, zone)
	var restore []func()
	for _, role := range e.roles() {
		restore = append(restore, role.Outage())
	}
	e.awaitProgress(t)
	t.Logf("a zone is down; each client has another record after %s", time.Since(down).Round(time.Millisecond))
	<-time.After(time.Until(down.Add(*faultsZone)))
	e.nats.Restart(t, zone)
	for _, f := range restore {
		f()
	}
	for _, role := range e.roles() {
		role.AwaitAvailable(t)
	}
	e.awaitCurrent(t, streams)
	e.awaitProgress(t)

	e.check(t)
	e.readers.longestSilence(t, anyFollower)
	if interest {
		trees.checkSegments(t)
	}
}

// killLeaders kills the leader of one stream after another for faultsFor, and restarts it when the stream has another one. It does not wait until clients have
// got a record meanwhile.
func (e *podsEnv) killLeaders(t *testing.T, streams []string) {
	t.Helper()
	var elections []time.Duration
	stored := e.recorders.acked()
	began := time.Now()
	for n := 0; time.Since(began) < *faultsFor; n++ {
		next := time.After(*faultsEvery)
		stream := streams[n%len(streams)]
		leader := e.nats.Leader(t, stream)
		killed, before := time.Now(), e.recorders.acked()
		e.nats.Kill(t, leader)
		e.nats.Leader(t, stream)
		elections = append(elections, time.Since(killed))
		e.nats.Restart(t, leader)
		<-next
		t.Logf("%5s  leader of %s killed: another one after %s; %d records stored in %s", time.Since(began).Round(time.Second), stream,
			elections[n].Round(100*time.Millisecond), e.recorders.acked()-before, time.Since(killed).Round(100*time.Millisecond))
	}
	if len(elections) == 0 {
		return
	}
	slices.Sort(elections)
	stored = e.recorders.acked() - stored
	share := float64(stored) / (float64(len(e.recorders.writers)) * time.Since(began).Seconds() / podsPace.Seconds())
	e.awaitCurrent(t, streams)
	e.awaitProgress(t)
	t.Logf("%d leaders killed in %s: elections took %s (median), at most %s; %d records stored, %.0f %% of those without a fault", len(elections),
		time.Since(began).Round(time.Second), elections[len(elections)/2].Round(100*time.Millisecond), elections[len(elections)-1].Round(100*time.Millisecond), stored, 100*share)
}

// replicatedStreams returns the streams of the log, of the commands and of the first snapshots.
func (e *podsEnv) replicatedStreams(t *testing.T) (streams []string) {
	t.Helper()
	for i := range e.streams.Layout.Partitions {
		streams = append(streams, e.streams.Layout.Stream(i))
	}
	return append(streams, names.Layout(e.streams.Layout).CommandStream(), "KV_"+names.Layout(e.streams.Layout).Snapshots())
}

// awaitProgress waits until another record is stored in each session and each client has it.
func (e *podsEnv) awaitProgress(t *testing.T) {
	t.Helper()
	e.recorders.awaitMore(t)
	e.readers.awaitAll(t)
}

// awaitCurrent waits until one server may be killed without the loss of a quorum.
func (e *podsEnv) awaitCurrent(t *testing.T, streams []string) {
	t.Helper()
	for _, name := range streams {
		e.nats.AwaitCurrent(t, name)
	}
}

// checkSegments is checkAll for clients that may get truncated events: what a client received between two of them is a part of the log without a gap, and the parts
// are in order.
func (c *readers) checkSegments(t *testing.T) {
	t.Helper()
	c.awaitEnd(t)
	truncated := 0
	for i, f := range c.followers {
		log := c.recorders.log(t, f.root)
		segments, err := compareSegments(f.got, log)
		if err != nil {
			t.Errorf("follower %d of %s: %v", i, f.root.ID, err)
		}
		truncated += segments - 1
	}
	t.Logf("%d truncated events at %d clients of trees", truncated, len(c.followers))
}

// compareSegments compares what a client received between truncated events with the log, and returns the number of segments.
func compareSegments(got, log []sseEvent) (segments int, err error) {
	at := 0 // in the log
	segments = 1
	expectNext := true // no truncated event precedes
	for i, event := range got {
		if isTruncated(event.data) {
			segments++
			expectNext = false
			continue
		}
		found := slices.Index(log[at:], event)
		if found < 0 || found > 0 && expectNext {
			return segments, fmt.Errorf("event %d, %d %.120s, is not the next one at %d of the log", i, event.seq, event.data, at)
		}
		at += found + 1
		expectNext = true
	}
	if at < len(log) {
		return segments, fmt.Errorf("the last %d events are missing", len(log)-at)
	}
	return segments, nil
}

// compareSegments finds every difference that no truncated event explains; otherwise TestFaults could not fail.
func TestCompareSegments(t *testing.T) {
	truncated := sseEvent{3, `{"type":"truncated","reason":"gap"}`}
	log := []sseEvent{{1, "1"}, {3, "2"}, {7, "3"}, {8, "4"}}
	for name, tc := range map[string]struct {
		got      []sseEvent
		segments int // 0 is an error
	}{
		"the log":                  {log, 1},
		"a gap after truncated":    {[]sseEvent{log[0], truncated, log[2], log[3]}, 2},
		"no gap after truncated":   {[]sseEvent{log[0], truncated, log[1], log[2], log[3]}, 2},
		"a gap":                    {[]sseEvent{log[0], log[2], log[3]}, 0},
		"a gap before truncated":   {[]sseEvent{log[1], truncated, log[2], log[3]}, 0},
		"a second gap":             {[]sseEvent{truncated, log[1], log[3]}, 0},
		"a repeat after truncated": {[]sseEvent{log[0], truncated, log[0], log[1], log[2], log[3]}, 0},
		"another text":             {[]sseEvent{log[0], {3, "9"}, log[2], log[3]}, 0},
		"no end":                   {[]sseEvent{log[0], log[1], truncated}, 0},
		"nothing":                  {nil, 0},
	} {
		segments, err := compareSegments(tc.got, log)
		if (err != nil) != (tc.segments == 0) || err == nil && segments != tc.segments {
			t.Errorf("%s: %d segments, %v", name, segments, err)
		}
	}
}

func isTruncated(data string) bool {
	var event struct {
		Type string `json:"type"`
	}
	return json.Unmarshal([]byte(data), &event) == nil && event.Type == "truncated"
}
