//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/helix"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
)

// recorders is a set of sessions that are written continuously until stop.
type recorders struct {
	js       jetstream.JetStream
	reader   *consumers.Reader
	producer *producers.Producer
	writers  []*writer
	pace     atomic.Int64  // duration from the start of one record of a session to that of the next
	stopped  chan struct{} // closed by stop
	stopOnce sync.Once
	writing  errgroup.Group
}

// writer writes one of the sessions.
type writer struct {
	root    chunk.Session
	run     *producers.Run
	padding string        // appended to each text
	flat    bool          // without sub-agents
	aside   int           // see delegates
	at      atomic.Uint64 // sequence of the last stored record
	lines   atomic.Int64  // number of the last acknowledged step of loop
}

// startWriters starts sessions on the server at url and writes to each at every
// pace. All of them exist when it returns.
func startWriters(t *testing.T, url string, sessions int, pace time.Duration) *recorders {
	t.Helper()
	return startPaddedWriters(t, url, sessions, pace, 0)
}

// startPaddedWriters is startWriters with a number of bytes appended to each
// text.
func startPaddedWriters(t *testing.T, url string, sessions int, pace time.Duration, padding int) *recorders {
	t.Helper()
	return startWritersOn(t, url, writerConfig{prefix: "s", sessions: sessions, pace: pace, padding: padding})
}

// writerConfig configures recorders.
type writerConfig struct {
	streams  topology.Config
	prefix   string // of the session ids, a number follows
	sessions int
	pace     time.Duration // interval of the records of each session
	padding  int           // bytes appended to each text
	flat     bool          // without sub-agents
}

// startWritersOn starts sessions on the server at url. All of them exist when it returns.
func startWritersOn(t *testing.T, url string, cfg writerConfig) *recorders {
	t.Helper()
	nc := natstest.Connect(t, url)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	streamtest.Ensure(t, js, cfg.streams)
	c := &recorders{js: js, stopped: make(chan struct{})}
	writing := jetStream(t, natstest.Connect(t, url, asWorker(t)...))
	if c.producer, err = producers.New(writing, producers.Config{Layout: cfg.streams.Layout, Positions: jssnapshots.NewPositions(writing, cfg.streams.Layout), RetryTimeout: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	if c.reader, err = consumers.New(js, consumers.Config{Layout: cfg.streams.Layout}); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.sessions {
		root := chunk.RootSession("default", cfg.prefix+strconv.Itoa(i))
		run, err := c.producer.Start(t.Context(), root, chunk.RunStarted{Mode: "execute"}, producers.AgentType("writer"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.writers = append(c.writers, &writer{root: root, run: run, padding: strings.Repeat(".", cfg.padding), flat: cfg.flat, aside: i % asidePeriod})
	}
	c.pace.Store(int64(cfg.pace))
	ctx := context.WithoutCancel(t.Context()) // stop ends it, at the latest during cleanup
	for i, v := range c.writers {
		c.writing.Go(func() error { return c.loop(ctx, v, cfg.pace*time.Duration(i)/time.Duration(cfg.sessions)) })
	}
	t.Cleanup(func() { c.stop(t) })
	return c
}

// stop ends all sessions and waits until their ends are stored.
func (c *recorders) stop(t *testing.T) {
	t.Helper()
	c.stopOnce.Do(func() {
		close(c.stopped)
		if err := errors.Join(c.writing.Wait(), c.producer.Close()); err != nil {
			t.Error(err)
		}
	})
}

// awaitMore waits until another record is stored in every session.
func (c *recorders) awaitMore(t *testing.T) {
	t.Helper()
	c.awaitMoreOf(t, func(*writer) bool { return true })
}

// awaitMoreOf is awaitMore for the writers selected by of.
func (c *recorders) awaitMoreOf(t *testing.T, of func(*writer) bool) {
	t.Helper()
	before := make(map[*writer]uint64)
	for _, v := range c.writers {
		if of(v) {
			before[v] = v.at.Load()
		}
	}
	natstest.Eventually(t, "more in all sessions", func(context.Context) error {
		for v, was := range before {
			if v.at.Load() == was {
				return fmt.Errorf("no new record in %s", v.root.ID)
			}
		}
		return nil
	})
}

// loop writes text to the session of v at every pace, shifted by phase, and starts a sub-agent in every twentieth step.
func (c *recorders) loop(ctx context.Context, v *writer, phase time.Duration) error {
	tick := time.NewTimer(time.Duration(c.pace.Load()) + phase)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			tick.Reset(time.Duration(c.pace.Load()))
		case <-c.stopped:
			return errors.Join(v.run.End(ctx, chunk.Value(`"done"`)), v.run.Close())
		}
		if err := v.step(ctx, n); err != nil {
			return fmt.Errorf("%s, %d: %w", v.root.ID, n, err)
		}
	}
}

// acked returns the number of acknowledged steps of all sessions.
func (c *recorders) acked() (lines int64) {
	for _, v := range c.writers {
		lines += v.lines.Load()
	}
	return lines
}

// asidePeriod is the number of steps of a session with sub-agents for each sub-agent.
const asidePeriod = 20

// delegates reports whether step n is a sub-agent. The sessions have theirs in different steps, because all at once would occupy the machine for a second.
func (v *writer) delegates(n int) bool { return !v.flat && n%asidePeriod == v.aside }

// step writes text or a sub-agent, and returns when it is stored.
func (v *writer) step(ctx context.Context, n int) error {
	return whenFull(func() error {
		var err error
		if v.delegates(n) {
			err = v.subagent(ctx, n)
		} else {
			err = v.run.EmitBody(ctx, chunk.TextDelta{Delta: fmt.Sprintf("line %d é\n%s", n, v.padding)})
		}
		if err != nil {
			return err
		}
		pos, err := v.run.Flush(ctx)
		if err != nil {
			return err
		}
		v.at.Store(uint64(pos.Seq))
		v.lines.Store(int64(n))
		return nil
	})
}

func (v *writer) subagent(ctx context.Context, n int) error {
	child, err := v.run.Child(ctx, chunk.SubagentStart{SubAgentType: "helper", CallID: fmt.Sprint(n)}, chunk.RunStarted{Mode: "execute"})
	if err != nil {
		return err
	}
	err = child.EmitBody(ctx, chunk.TextDelta{Delta: "aside"})
	return errors.Join(err, whenFull(func() error { return v.run.EndChild(ctx, child, chunk.Value(`1`)) }), child.Close())
}

// whenFull repeats a write that is not stored because the log is full.
func whenFull(write func() error) error {
	for {
		if err := write(); !errors.Is(err, chunk.ErrNotStored) || !errors.Is(err, chunk.ErrNoStorage) {
			return err
		}
	}
}

// log returns the events that a client of a session must receive: the records
// of a replay of the tree, encoded one by one, without those that only move the cursor.
func (c *recorders) log(t *testing.T, root chunk.Session) []sseEvent {
	t.Helper()
	var log []sseEvent
	for rec, err := range c.reader.Replay(t.Context(), chunk.Range{Session: root, Tree: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, data, found := strings.Cut(string(helix.Encode(nil, rec, chunk.ScopeTree)), "data: "); found {
			log = append(log, sseEvent{seq: rec.Seq, data: strings.TrimSpace(data)})
		}
	}
	return log
}

// readers is a set of followers of the sessions of recorders.
type readers struct {
	recorders *recorders
	followers []*follower
	following errgroup.Group
	kept      func(sseEvent) sseEvent // conversion of kept events, nil for none
}

// startReaders starts n followers, evenly distributed over the sessions; shape
// may configure each.
func (c *recorders) startReaders(t *testing.T, addr string, n int, shape func(i int, f *follower)) *readers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	readers := &readers{recorders: c}
	for i := range n {
		f := &follower{addr: addr, root: c.writers[i%len(c.writers)].root}
		if shape != nil {
			shape(i, f)
		}
		readers.followers = append(readers.followers, f)
		readers.following.Go(func() error { return f.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		_ = readers.following.Wait() // checkAll reports the errors
	})
	return readers
}

// awaitAll waits until every follower has received the current end of its
// session.
func (c *readers) awaitAll(t *testing.T) {
	t.Helper()
	c.awaitTips(t, anyFollower)
}

// awaitTips is awaitAll for the followers selected by of.
func (c *readers) awaitTips(t *testing.T, of func(*follower) bool) {
	t.Helper()
	tips := make(map[chunk.Session]uint64)
	for _, v := range c.recorders.writers {
		tips[v.root] = v.at.Load()
	}
	natstest.Eventually(t, "all followers to be at the end of their sessions", func(context.Context) error {
		for i, f := range c.followers {
			if at := f.at.Load(); of(f) && (at == 0 || at < tips[f.root]) {
				return fmt.Errorf("follower %d of %s is at %d, want %d", i, f.root.ID, at, tips[f.root])
			}
		}
		return nil
	})
}

// awaitEnd ends the sessions, and waits until every follower has received the end.
func (c *readers) awaitEnd(t *testing.T) {
	t.Helper()
	c.recorders.stop(t)
	done := make(chan error, 1)
	go func() { done <- c.following.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("timeout: followers have not received the end within a minute")
	}
}

// checkAll ends the sessions, waits until every follower has received the end,
// and compares the events of each with the log.
func (c *readers) checkAll(t *testing.T) {
	t.Helper()
	c.awaitEnd(t)
	logs := make(map[chunk.Session][]sseEvent)
	for _, v := range c.recorders.writers {
		log := c.recorders.log(t, v.root)
		for i := range log {
			if c.kept != nil {
				log[i] = c.kept(log[i])
			}
		}
		logs[v.root] = log
	}
	wrong := 0
	for i, f := range c.followers {
		err := compareEvents(f.got, logs[f.root])
		if statuses := len(f.statuses); err == nil && (statuses != 2 || f.statuses[http.StatusNoContent] != 1) {
			err = fmt.Errorf("statuses %v, want 200 and one 204", f.statuses)
		}
		if err == nil {
			continue
		}
		if wrong++; wrong <= 10 {
			t.Errorf("follower %d of %s, %v: %v", i, f.root.ID, f.statuses, err)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d followers are wrong", wrong, len(c.followers))
	}
}

// checkSilence checks that no follower selected by of waited longer than maxPause in all before the connections that followed its last event, and that it had an event or a heartbeat within
// maxSilence. The pauses are those that edges ask for. The rest of a silence is the time that the processes of a test need for 500 connections at once, which is that of the machine.
func (c *readers) checkSilence(t *testing.T, maxPause time.Duration, of func(*follower) bool) {
	t.Helper()
	const maxSilence = 10 * time.Second // half of an outage
	if worst := c.longestSilence(t, of); worst > maxSilence {
		t.Errorf("a follower received nothing for %s, want at most %s", worst, maxSilence)
	}
	for _, f := range c.followers {
		if of(f) && f.waited > maxPause {
			t.Errorf("%s waited %s in all before it received anything, want at most %s", f.root.ID, f.waited, maxPause)
		}
	}
}

// longestSilence returns the longest silence of the followers selected by of.
func (c *readers) longestSilence(t *testing.T, of func(*follower) bool) time.Duration {
	t.Helper()
	var worst *follower
	for _, f := range c.followers {
		if of(f) && (worst == nil || f.silence > worst.silence) {
			worst = f
		}
	}
	if worst == nil {
		t.Fatal("no follower is selected")
	}
	t.Logf("the longest silence of %d followers was %s (%s)", c.count(of), worst.silence, worst.silenceActivity)
	return worst.silence
}

// count returns the number of followers selected by of.
func (c *readers) count(of func(*follower) bool) int {
	n := 0
	for _, f := range c.followers {
		if of(f) {
			n++
		}
	}
	return n
}
