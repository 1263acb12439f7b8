package chat

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/hub"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
)

// lateFeed is a log whose feed waits until it is released.
type lateFeed struct {
	httpedge.Log

	held     atomic.Bool
	released chan struct{}
	through  atomic.Uint64 // when the hub has handled this sequence, caughtUp is closed; 0 for none
	caughtUp chan struct{}
}

func (l *lateFeed) Feed(ctx context.Context, partition int, after chunk.Seq) iter.Seq2[codec.Stored, error] {
	return func(yield func(codec.Stored, error) bool) {
		for m, err := range l.Log.Feed(ctx, partition, after) {
			if l.held.Load() {
				select {
				case <-l.released:
				case <-ctx.Done():
				}
			}
			if !yield(m, err) {
				return
			}
			if l.through.CompareAndSwap(uint64(m.Seq), 0) {
				close(l.caughtUp)
			}
		}
	}
}

// catchUp releases the feed and waits until the hub has handled the record.
func (l *lateFeed) catchUp(ctx context.Context, through chunk.Seq) error {
	l.through.Store(uint64(through))
	close(l.released)
	select {
	case <-l.caughtUp:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// behindFeed reads a chat. When it has read the text that a cleanup has removed, it waits until the feed has caught up.
type behindFeed struct {
	recordStream

	feed    *lateFeed
	through chunk.Seq
}

func (r *behindFeed) Poll(ctx context.Context) (hub.Batch, <-chan struct{}, error) {
	batch, wait, err := r.recordStream.Poll(ctx)
	if strings.Contains(string(batch.Frames), "Wrong") {
		return batch, wait, r.feed.catchUp(ctx, r.through)
	}
	return batch, wait, err
}

// A worker takes a run over and removes the step of its predecessor while the feed of an edge is late, as after the outage of a server. A page reconnects:
//  1. the state of the session, which is that of the log, has a run in progress,
//  2. the edge gives the reader of the answer the removed records, which it still has in memory,
//  3. the feed catches up with the cleanup, and the log has no record at the position of the reader.
//
// The reader continues, and the page gets the answer as the log has it now.
func TestReconnectDuringACleanup(t *testing.T) {
	w := newEnv(t)
	half, lost, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
	second := w.NewWriter(producers.Config{})
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, _ *env) error {
		if err := sayHalf(ctx, run); err != nil {
			return err
		}
		close(half)
		<-lost
		run, err := second.Start(ctx, c.Session, chunk.RunStarted{RunID: c.RunID, Mode: "takeover"}, producers.AgentType(c.AgentType))
		if err != nil {
			return err
		}
		defer run.Close()
		if _, err := run.CleanupToStep(ctx, 1, 0); err != nil {
			return err
		}
		if err := say(ctx, run, 2, "Right."); err != nil {
			return err
		}
		if _, err := run.Flush(ctx); err != nil {
			return err
		}
		<-end
		return run.End(ctx, nil)
	})
	feed := &lateFeed{released: make(chan struct{}), caughtUp: make(chan struct{})}
	session := chunk.RootSession("acme", "s1")
	var e *edge
	e = w.newEdge(func(c *edgeConfig) {
		c.log = func(log httpedge.Log) httpedge.Log {
			feed.Log = log
			return feed
		}
		c.follow = func(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error) {
			records, err := e.service.followHub(ctx, root, after, through)
			if err != nil || !feed.held.Load() {
				return records, err
			}
			return &behindFeed{recordStream: records, feed: feed, through: through}, nil
		}
	})
	first, err := e.try(http.MethodPost, "", chatBody("", user("m-1", "Well?")), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	natstest.Receive(t, "the first half", half)
	lines := bufio.NewScanner(first.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"delta":"Wrong"`) {
	}
	if lines.Err() != nil || !strings.Contains(lines.Text(), "Wrong") {
		t.Fatalf("the first response has no text that is removed later: %v", lines.Err())
	}
	feed.held.Store(true)
	close(lost)
	natstest.Eventually(t, "the step of the second writer", func(ctx context.Context) error {
		snap, err := w.Reader.Snapshot(ctx, session)
		if err != nil {
			return err
		}
		if list := snap.Messages(0); list[len(list)-1].Text() != "Right." {
			return fmt.Errorf("the last of %d messages is %q", len(list), list[len(list)-1].Text())
		}
		return nil
	})
	resp, err := e.try(http.MethodGet, "/stream", "", nil)
	close(end)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	const whole = "start(msg-1) start-step text-start text-delta(Kept. ) text-end finish-step start-step text-start text-delta(Right.) text-end finish-step finish(stop) DONE"
	if got := brief(t, string(body)); resp.StatusCode != http.StatusOK || got != whole {
		t.Errorf("the page gets %d %s\nwant %s", resp.StatusCode, got, whole)
	}
	select {
	case <-feed.caughtUp:
	default:
		t.Error("the feed has not caught up during the read")
	}
}

// brokenReader fails.
type brokenReader struct{ err error }

func (r brokenReader) Poll(context.Context) (hub.Batch, <-chan struct{}, error) {
	return hub.Batch{}, nil, r.err
}
func (brokenReader) Close() {}

// maxReads is how often the edge reads an answer.
const maxReads = 4

// A read of an answer that is in the log is repeated. A page gets 204 only if the log has lost records of the answer.
func TestReadsAreRepeated(t *testing.T) {
	w := newEnv(t)
	begun, end := make(chan struct{}), make(chan struct{})
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		if err := say(ctx, run, 1, "Hello"); err != nil {
			return err
		}
		if _, err := run.Flush(ctx); err != nil {
			return err
		}
		close(begun)
		<-end
		return run.End(ctx, nil)
	})
	var reason chunk.TruncationReason
	failures, reads := 0, 0
	var e *edge
	e = w.newEdge(func(c *edgeConfig) {
		c.follow = func(ctx context.Context, root chunk.Session, after chunk.Position, through chunk.Seq) (recordStream, error) {
			if reads++; reads <= failures {
				return brokenReader{&chunk.TruncatedError{Session: root, Reason: reason}}, nil
			}
			return e.service.followHub(ctx, root, after, through)
		}
	})
	first, err := e.try(http.MethodPost, "", chatBody("", user("m-1", "Well?")), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	natstest.Receive(t, "the answer", begun)
	for _, row := range []struct {
		reason        chunk.TruncationReason
		failures      int
		status, reads int
	}{
		{chunk.TruncatedGap, 1, http.StatusOK, 2},
		{chunk.TruncatedGap, maxReads - 1, http.StatusOK, maxReads},
		{chunk.TruncatedGap, maxReads, http.StatusNoContent, maxReads},
		{chunk.TruncatedExpired, 1, http.StatusNoContent, 1},
	} {
		reason, failures, reads = row.reason, row.failures, 0
		resp, err := e.try(http.MethodGet, "/stream", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // without the rest of the answer
		if resp.StatusCode != row.status || reads != row.reads {
			t.Errorf("%s, %d times: status %d after %d reads, want %d after %d", row.reason, row.failures, resp.StatusCode, reads, row.status, row.reads)
		}
	}
	close(end)
	if body, err := io.ReadAll(first.Body); err != nil || !strings.Contains(string(body), "[DONE]") { // the run has ended before the test does
		t.Errorf("the first response: %v in %q", err, body)
	}
}
