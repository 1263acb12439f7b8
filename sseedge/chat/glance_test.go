package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// watched counts what is asked of the things below a Service.
type watched struct {
	Snapshots
	Commands
	Live

	snapshots, pendings, requests, follows, tails atomic.Int32

	rival func() // comes before the first request, if not nil
}

func (c *watched) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	c.snapshots.Add(1)
	return c.Snapshots.Snapshot(ctx, s)
}

func (c *watched) Pending(ctx context.Context, s chunk.Session, agentType string) (commands.Command, commands.Revision, error) {
	c.pendings.Add(1)
	return c.Commands.Pending(ctx, s, agentType)
}

func (c *watched) Request(ctx context.Context, cmd commands.Command, after commands.Revision) error {
	if c.requests.Add(1) == 1 && c.rival != nil {
		c.rival()
	}
	return c.Commands.Request(ctx, cmd, after)
}

func (c *watched) Follow(ctx context.Context, root chunk.Session, after chunk.Position) (Tail, error) {
	c.follows.Add(1)
	tail, err := c.Live.Follow(ctx, root, after)
	if err != nil {
		return nil, err
	}
	c.tails.Add(1)
	return &watchedTail{tail, c}, nil
}

type watchedTail struct {
	Tail

	c *watched
}

func (t *watchedTail) Close() {
	t.c.tails.Add(-1)
	t.Tail.Close()
}

func (c *watched) String() string {
	return fmt.Sprintf("%d snapshots, %d commands, %d requests, %d follows", c.snapshots.Swap(0), c.pendings.Swap(0), c.requests.Swap(0), c.follows.Swap(0))
}

func (w *world) newWatchedEdge(rival func()) (*edge, *watched) {
	w.t.Helper()
	c := &watched{rival: rival}
	e := w.newEdge(func(cfg *Config) {
		c.Snapshots, c.Commands, c.Live = cfg.Snapshots, cfg.Commands, cfg.Live
		cfg.Snapshots, cfg.Commands, cfg.Live = c, c, c
	})
	return e, c
}

// What a message costs until its stream begins: one look at the log, one command,
// one place to follow the log from.
func TestMessageAsksLittle(t *testing.T) {
	w := newWorld(t)
	e, c := w.newWatchedEdge(nil)
	w.work(func(ctx context.Context, _ commands.Command, run *producers.Run, _ *world) error {
		if err := say(ctx, run, 1, "yes"); err != nil {
			return err
		}
		return run.End(ctx, nil)
	})
	const little = "1 snapshots, 0 commands, 1 requests, 1 follows"
	want(t, e.post("", chatBody("", user("u1", "hi"))), "start(msg-1) start-step text-start text-delta(yes) text-end finish-step finish(stop) DONE")
	if got := c.String(); got != little {
		t.Errorf("a new chat: %s", got)
	}
	natstest.Await(t, "the worker's acknowledgement", func(ctx context.Context) error {
		_, _, err := w.queue.Pending(ctx, chunk.RootSession("acme", "s1"), agentType)
		if errors.Is(err, commands.ErrNone) {
			return nil
		}
		return fmt.Errorf("the command is there: %w", err)
	})
	want(t, e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "really?"))),
		"start(msg-3) start-step text-start text-delta(yes) text-end finish-step finish(stop) DONE")
	if got := c.String(); got != little {
		t.Errorf("the next message: %s", got)
	}
	e.stop()
	if n := c.tails.Load(); n != 0 {
		t.Errorf("%d tails are open", n)
	}
}

// Somebody is faster than a message that was decided at a glance: it is refused, and
// leaves nothing behind.
func TestRivalBehindAGlance(t *testing.T) {
	w := newWorld(t)
	s := chunk.RootSession("acme", "s1")
	input := []chunk.InputMessage{{Content: "I was first"}}
	e, c := w.newWatchedEdge(func() {
		if err := w.queue.Request(t.Context(), commands.Command{Kind: commands.Execute, Session: s, AgentType: agentType, RunID: "rival", Input: input}, 0); err != nil {
			t.Error(err)
		}
	})
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, "409 ") {
		t.Errorf("got %s, want a refusal", got)
	}
	if n := c.tails.Load(); n != 0 {
		t.Errorf("%d tails are open", n)
	}
}

// The run that a message asks for was asked for before, with another message in
// front: the id that the stream announced is not that of the answer, and it is cut.
func TestAskedForWithMore(t *testing.T) {
	w := newWorld(t)
	e, _ := w.newWatchedEdge(nil)
	first := e.open(http.MethodPost, "", chatBody("", user("u0", "hello"), user("u1", "hi")), nil)
	first.until("start(msg-2)")
	second := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	second.until("start(msg-1)")
	w.work(func(ctx context.Context, _ commands.Command, run *producers.Run, _ *world) error {
		return run.End(ctx, nil)
	})
	first.until("finish(stop)")
	if err := second.broken(); err == nil {
		t.Error("the stream of another id goes on")
	}
	want(t, e.post("", chatBody("", user("u1", "hi"))), "start(msg-2) finish(stop) DONE")
}

// The log cannot be followed while the edge is drained: a message whose run was asked
// for is sent to another edge, which shows the answer.
func TestDrainBehindAStoredMessage(t *testing.T) {
	w := newWorld(t)
	log := stuck{make(chan struct{})}
	e := w.newEdge(func(cfg *Config) { cfg.Live = log })
	got := make(chan string)
	go func() { got <- e.post("", chatBody("", user("u1", "hi"))) }()
	<-log.asked
	natstest.Await(t, "the command", func(ctx context.Context) error {
		_, _, err := w.queue.Pending(ctx, chunk.RootSession("acme", "s1"), agentType)
		return err
	})
	if err := e.service.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-got; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, codeDraining) {
		t.Errorf("a message that is stored is %s", got)
	}
	w.work(answer)
	want(t, w.newEdge(nil).post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
	w.handledAre("execute")
}
