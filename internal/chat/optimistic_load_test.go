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
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
)

// watched counts the calls of the ports of a Service.
type watched struct {
	conversation.Snapshots
	conversation.Queue

	follow func(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error)

	snapshots, heads, pages, pendings, requests, follows, tails atomic.Int32

	rival func() // called before the first request, if not nil
}

func (c *watched) Snapshot(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	c.snapshots.Add(1)
	return c.Snapshots.Snapshot(ctx, s)
}

func (c *watched) Head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	c.heads.Add(1)
	return c.Snapshots.Head(ctx, s)
}

func (c *watched) MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	c.pages.Add(1)
	return c.Snapshots.MessagePage(ctx, s, q)
}

func (c *watched) Pending(ctx context.Context, s chunk.Session, agentType string) (control.Command, control.Revision, error) {
	c.pendings.Add(1)
	return c.Queue.Pending(ctx, s, agentType)
}

func (c *watched) Request(ctx context.Context, cmd control.Command, after control.Revision) error {
	if c.requests.Add(1) == 1 && c.rival != nil {
		c.rival()
	}
	return c.Queue.Request(ctx, cmd, after)
}

func (c *watched) Follow(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error) {
	c.follows.Add(1)
	tail, err := c.follow(ctx, root, after, through)
	if err != nil {
		return nil, err
	}
	c.tails.Add(1)
	return &watchedTail{tail, c}, nil
}

type watchedTail struct {
	recordStream

	c *watched
}

func (t *watchedTail) Close() {
	t.c.tails.Add(-1)
	t.recordStream.Close()
}

func (c *watched) String() string {
	return fmt.Sprintf("%d snapshots, %d heads, %d pages, %d commands, %d requests, %d follows",
		c.snapshots.Swap(0), c.heads.Swap(0), c.pages.Swap(0), c.pendings.Swap(0), c.requests.Swap(0), c.follows.Swap(0))
}

func (w *env) newWatchedEdge(rival func()) (*edge, *watched) {
	w.t.Helper()
	c := &watched{rival: rival}
	e := w.newEdge(func(cfg *edgeConfig) {
		c.Snapshots, c.Queue = cfg.ports.Snapshots, cfg.ports.Queue
		cfg.ports.Snapshots, cfg.ports.Queue = c, c
	})
	c.follow, e.service.follow = e.service.follow, c.Follow
	return e, c
}

// The cost of a message until its stream starts: one read of the log, one command, one position to follow the log from.
func TestMessageAsksLittle(t *testing.T) {
	w := newEnv(t)
	e, c := w.newWatchedEdge(nil)
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		if err := say(ctx, run, 1, "yes"); err != nil {
			return err
		}
		return run.End(ctx, nil)
	})
	const afterLoad = "0 commands, 1 requests, 1 follows"
	want(t, e.post("", chatBody("", user("u1", "hi"))), "start(msg-1) start-step text-start text-delta(yes) text-end finish-step finish(stop) DONE")
	if got := c.String(); got != "1 snapshots, 0 heads, 0 pages, "+afterLoad {
		t.Errorf("a new chat: %s", got)
	}
	natstest.Eventually(t, "the worker's acknowledgement", func(ctx context.Context) error {
		_, _, err := w.Queue.Pending(ctx, chunk.RootSession("acme", "s1"), agentType)
		if errors.Is(err, control.ErrNoCommand) {
			return nil
		}
		return fmt.Errorf("the command is there: %w", err)
	})
	want(t, e.post("", chatBody("", user("u1", "hi"), assistantMessage("msg-1 step"), user("u2", "really?"))),
		"start(msg-3) start-step text-start text-delta(yes) text-end finish-step finish(stop) DONE")
	if got := c.String(); got != "0 snapshots, 1 heads, 0 pages, "+afterLoad {
		t.Errorf("the next message: %s", got)
	}
	e.Stop()
	if n := c.tails.Load(); n != 0 {
		t.Errorf("%d tails are open", n)
	}
}

// Another message is stored after the optimistic load of this one: this one is refused, and has no effect.
func TestConcurrentPostAfterAnOptimisticLoad(t *testing.T) {
	w := newEnv(t)
	s := chunk.RootSession("acme", "s1")
	input := []chunk.InputMessage{{Content: "I was first"}}
	e, c := w.newWatchedEdge(func() {
		if err := w.Queue.Request(t.Context(), control.Command{Kind: control.Execute, Session: s, AgentType: agentType, RunID: "rival", Input: input}, 0); err != nil {
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

// The run of a message was requested before, with another message in front: the id that the stream announced is not that of the answer, and the stream is
// closed.
func TestRunRequestedWithAnEarlierMessage(t *testing.T) {
	w := newEnv(t)
	e, _ := w.newWatchedEdge(nil)
	first := e.open(http.MethodPost, "", chatBody("", user("u0", "hello"), user("u1", "hi")), nil)
	first.until("start(msg-2)")
	second := e.open(http.MethodPost, "", chatBody("", user("u1", "hi")), nil)
	second.until("start(msg-1)")
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		return run.End(ctx, nil)
	})
	first.until("finish(stop)")
	if err := second.broken(); err == nil {
		t.Error("the stream of another id continues")
	}
	want(t, e.post("", chatBody("", user("u1", "hi"))), "start(msg-2) finish(stop) DONE")
}

// The log cannot be followed while the edge is drained: a message whose run was requested is sent to another edge, which shows the answer.
func TestDrainBehindAStoredMessage(t *testing.T) {
	w := newEnv(t)
	log := stuck{make(chan struct{})}
	e := w.newEdge(func(cfg *edgeConfig) { cfg.follow = log.Follow })
	got := make(chan string)
	go func() { got <- e.post("", chatBody("", user("u1", "hi"))) }()
	<-log.asked
	natstest.Eventually(t, "the command", func(ctx context.Context) error {
		_, _, err := w.Queue.Pending(ctx, chunk.RootSession("acme", "s1"), agentType)
		return err
	})
	if err := e.service.surface.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-got; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, httpkit.CodeDraining) {
		t.Errorf("a message that is stored is %s", got)
	}
	w.work(answer)
	want(t, w.newEdge(nil).post("", chatBody("", user("u1", "hi"))), whole("msg-1"))
	w.handledAre("execute")
}
