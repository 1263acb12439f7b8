package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
)

// A command is delivered with all members, and removed when it is acknowledged.
func TestCommandIsDeliveredAndRemoved(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	want := full()
	got := make(chan control.Command, 1)
	w := serve(t, q, func(_ context.Context, c control.Command) error { got <- c; return nil })
	publish(t, q, want)
	if c := natstest.Receive(t, "the command", got); !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	w.stop(t)
	if n := left(t, js); n != 0 {
		t.Errorf("%d commands left on the queue", n)
	}
}

// Publishing a command twice stores it once, even after the first was acknowledged.
func TestPublishIsIdempotent(t *testing.T) {
	srv := streamtest.Start(t)
	q := newQueue(t, srv.JetStream(t), QueueConfig{})
	got := make(chan string, 10)
	serve(t, q, func(_ context.Context, c control.Command) error { got <- c.RunID; return nil })
	publish(t, q, execute("s1", "r1"))
	publish(t, q, execute("s1", "r1"))
	natstest.Receive(t, "the command", got)
	publish(t, q, execute("s1", "r1"))
	publish(t, q, execute("s1", "r2"))
	if run := natstest.Receive(t, "the next command", got); run != "r2" {
		t.Errorf("run %s was handled again", run)
	}
}

// kill -9: the connection is lost without an acknowledgement. Another worker gets the command within AckWait.
func TestCommandOfAKilledWorkerIsRedelivered(t *testing.T) {
	srv := streamtest.Start(t)
	cfg := QueueConfig{AckWait: 500 * time.Millisecond}
	first, second := make(chan struct{}), make(chan struct{})
	firstJS := srv.JetStream(t)
	w := serve(t, newQueue(t, firstJS, cfg), func(ctx context.Context, _ control.Command) error {
		close(first)
		<-ctx.Done()
		return ctx.Err()
	})
	q := newQueue(t, srv.JetStream(t), cfg)
	publish(t, q, execute("s1", "r1"))
	natstest.Receive(t, "the first worker", first)
	firstJS.Conn().Close()
	if err := natstest.Receive(t, "the first worker to notice", w.done); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("Serve on a closed connection: %v", err)
	}
	serve(t, q, func(context.Context, control.Command) error { close(second); return nil })
	natstest.Receive(t, "the second worker", second)
}

// A worker that is stopped returns its command at once: the next one does not wait for AckWait, which is a minute here.
func TestStoppedWorkerReturnsItsCommand(t *testing.T) {
	srv := streamtest.Start(t)
	cfg := QueueConfig{AckWait: 2 * limit}
	first, second := make(chan struct{}), make(chan struct{})
	q := newQueue(t, srv.JetStream(t), cfg)
	w := serve(t, q, func(ctx context.Context, _ control.Command) error {
		close(first)
		<-ctx.Done()
		return ctx.Err()
	})
	publish(t, q, execute("s1", "r1"))
	natstest.Receive(t, "the first worker", first)
	w.stop(t)
	serve(t, newQueue(t, srv.JetStream(t), cfg), func(context.Context, control.Command) error { close(second); return nil })
	natstest.Receive(t, "the second worker", second)
}

// A busy worker keeps its command for longer than AckWait.
func TestHeartbeatKeepsCommand(t *testing.T) {
	srv := streamtest.Start(t)
	cfg := QueueConfig{AckWait: 2 * time.Second}
	seen := watchSigns(t, srv.Conn(t))
	q := newQueue(t, srv.JetStream(t), cfg)
	finish, started := make(chan struct{}), make(chan struct{}, 10)
	slow := func(context.Context, control.Command) error {
		started <- struct{}{}
		<-finish
		return nil
	}
	serve(t, q, slow)
	serve(t, newQueue(t, srv.JetStream(t), cfg), slow)
	publish(t, q, execute("s1", "r1"))
	seen.await(t, "heartbeats", func(all []sign) bool { return count(all, "+WPI") >= 4 })
	close(finish)
	seen.await(t, "the ack", func(all []sign) bool { return count(all, "+ACK") > 0 })
	if len(started) != 1 {
		t.Errorf("handled %d times", len(started))
	}
}

// A failed command is redelivered, with increasing delays or with the delay of the handler, and is removed when it succeeds.
func TestFailedCommandIsRedelivered(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	seen := watchSigns(t, srv.Conn(t))
	q := newQueue(t, js, QueueConfig{RetryDelay: 10 * time.Millisecond})
	var tries atomic.Int32
	done := make(chan struct{})
	w := serve(t, q, func(context.Context, control.Command) error {
		switch tries.Add(1) {
		case 1, 2:
			return errors.New("not yet")
		case 3:
			return fmt.Errorf("soon: %w", control.RetryAfter(5*time.Millisecond, errors.New("busy")))
		}
		close(done)
		return nil
	})
	publish(t, q, execute("s1", "r1"))
	natstest.Receive(t, "the fourth try", done)
	w.stop(t)
	naks := []string{}
	for _, s := range seen.all() {
		if strings.HasPrefix(s.what, "-NAK") {
			naks = append(naks, s.what)
		}
	}
	want := []string{`-NAK {"delay": 10000000}`, `-NAK {"delay": 20000000}`, `-NAK {"delay": 5000000}`}
	if !reflect.DeepEqual(naks, want) {
		t.Errorf("naks %q, want %q", naks, want)
	}
	if n := left(t, js); n != 0 {
		t.Errorf("%d commands left", n)
	}
}

// A fenced worker sends no ack and no nak: the worker that fenced it has the command.
func TestFencedWorkerIsSilent(t *testing.T) {
	srv := streamtest.Start(t)
	seen := watchSigns(t, srv.Conn(t))
	q := newQueue(t, srv.JetStream(t), QueueConfig{AckWait: 300 * time.Millisecond})
	var tries atomic.Int32
	done := make(chan struct{})
	serve(t, q, func(context.Context, control.Command) error {
		if tries.Add(1) == 1 {
			return fmt.Errorf("write: %w", chunk.ErrFenced)
		}
		close(done) // after AckWait another worker assumes that this one has crashed
		return nil
	})
	publish(t, q, execute("s1", "r1"))
	natstest.Receive(t, "the command to be redelivered", done)
	all := seen.await(t, "the ack", func(all []sign) bool { return count(all, "+ACK") > 0 })
	if count(all, "-NAK") != 0 {
		t.Errorf("signs %v", all)
	}
}

// A malformed command is removed from the queue, with the reason in the log, and does not block the others.
func TestMalformedIsRefused(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	lines := make(logLines, 100)
	q := newQueue(t, js, QueueConfig{Log: slog.New(lines)})
	if _, err := js.Publish(t.Context(), "tr.commands.acme.support.s1", []byte(`{"version":1,"kind":"execute","tenant":"other"}`)); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	w := serve(t, q, func(_ context.Context, c control.Command) error { got <- c.RunID; return nil })
	publish(t, q, execute("s1", "r1"))
	natstest.Receive(t, "the good one", got)
	if line := natstest.Receive(t, "the reason", lines); !strings.Contains(line, "malformed command removed") || !strings.Contains(line, "malformed: body is for") {
		t.Errorf("log: %s", line)
	}
	w.stop(t)
	if n := left(t, js); n != 0 {
		t.Errorf("%d commands left", n)
	}
}

// A command that a client has stored elsewhere in the account, and copied into the queue by the reply subject of a direct get, is not run.
func TestCopiedCommandIsRefused(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	lines := make(logLines, 100)
	q := newQueue(t, js, QueueConfig{Log: slog.New(lines)})
	forged := `{"version":1,"kind":"execute","tenant":"acme","root":"s1","session":"s1","agentType":"support","runId":"forged","input":[{"content":"hi"}]}`
	if _, err := js.Publish(t.Context(), "tr.chunks.0.umbrella.m.m", []byte(forged)); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().PublishRequest("$JS.API.DIRECT.GET.TR_CHUNKS_0", "tr.commands.acme.support.s1", []byte(`{"seq":1}`)); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the copy in the queue", func(context.Context) error {
		if n := left(t, js); n != 1 {
			return fmt.Errorf("%d commands", n)
		}
		return nil
	})
	got := make(chan string, 2)
	w := serve(t, q, func(_ context.Context, c control.Command) error { got <- c.RunID; return nil })
	publish(t, q, execute("s2", "r1"))
	if run := natstest.Receive(t, "a run", got); run != "r1" {
		t.Errorf("run %q", run)
	}
	if line := natstest.Receive(t, "the reason", lines); !strings.Contains(line, "malformed command removed") || !strings.Contains(line, "copy") {
		t.Errorf("log: %s", line)
	}
	w.stop(t)
}

// A command of a newer build stays on the queue.
func TestNewerCommandStaysQueued(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	seen := watchSigns(t, srv.Conn(t))
	q := newQueue(t, js, QueueConfig{})
	if _, err := js.Publish(t.Context(), "tr.commands.acme.support.s1", []byte(`{"version":3,"tenant":"acme"}`)); err != nil {
		t.Fatal(err)
	}
	serve(t, q, func(context.Context, control.Command) error { return nil })
	seen.await(t, "the nak", func(all []sign) bool { return count(all, "-NAK") == 1 })
	if n := left(t, js); n != 1 {
		t.Errorf("%d commands left, want the newer one", n)
	}
}

// At most Concurrency commands run at a time; the others stay on the queue, where another worker gets them.
func TestConcurrencyIsBounded(t *testing.T) {
	srv := streamtest.Start(t)
	cfg := QueueConfig{Concurrency: 3, AckWait: 2 * limit}
	q := newQueue(t, srv.JetStream(t), cfg)
	var now, peak atomic.Int32
	started, finish := make(chan string, 20), make(chan struct{})
	busy := func(_ context.Context, c control.Command) error {
		for n, most := now.Add(1), peak.Load(); n > most && !peak.CompareAndSwap(most, n); most = peak.Load() {
		}
		defer now.Add(-1)
		started <- c.RunID
		<-finish
		return nil
	}
	serve(t, q, busy)
	for i := range 8 {
		publish(t, q, execute("s1", fmt.Sprint("r", i)))
	}
	for range 3 {
		natstest.Receive(t, "a command", started)
	}
	others := make(chan string, 20)
	serve(t, newQueue(t, srv.JetStream(t), cfg), func(_ context.Context, c control.Command) error { others <- c.RunID; return nil })
	for range 5 {
		natstest.Receive(t, "the other worker", others)
	}
	close(finish)
	if peak.Load() != 3 {
		t.Errorf("%d at a time", peak.Load())
	}
}

// The server redelivers the command that this worker is running: the handler does not start a second time, and the newest delivery is acknowledged.
func TestOwnCommandIsRedelivered(t *testing.T) {
	srv := streamtest.Start(t)
	nc := srv.Conn(t)
	seen := watchSigns(t, nc)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{AckWait: 600 * time.Millisecond})
	started, finish := make(chan struct{}, 10), make(chan struct{})
	w := serve(t, q, func(context.Context, control.Command) error {
		started <- struct{}{}
		<-finish
		return nil
	})
	publish(t, q, execute("s1", "r1"))
	first := seen.await(t, "a sign of life", func(all []sign) bool { return count(all, "+WPI") > 0 })[0]
	if err := nc.Publish(first.reply, []byte("-NAK")); err != nil { // as if AckWait had passed
		t.Fatal(err)
	}
	seen.await(t, "a sign of life for the second delivery", func(all []sign) bool {
		for _, s := range all {
			if s.what == "+WPI" && s.reply != first.reply {
				return true
			}
		}
		return false
	})
	close(finish)
	w.stop(t)
	if len(started) != 1 {
		t.Errorf("handled %d times", len(started))
	}
	if n := left(t, js); n != 0 {
		t.Errorf("%d commands left", n)
	}
}

// A worker that starts before the server and before the stream gets commands when both exist, and again after a restart of the server.
func TestServeOutlivesTheServer(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	srv.Shutdown()
	lines := make(logLines, 100)
	q := newQueue(t, js, QueueConfig{Log: slog.New(lines)})
	got := make(chan string, 10)
	w := serve(t, q, func(_ context.Context, c control.Command) error { got <- c.RunID; return nil })
	if line := natstest.Receive(t, "a word about it", lines); !strings.Contains(line, "command fetch failed") {
		t.Errorf("log: %s", line)
	}
	srv.Restart(t)
	streamtest.Ensure(t, js, topology.Config{})
	for _, run := range []string{"r1", "r2"} {
		natstest.Eventually(t, "publish", func(ctx context.Context) error { return q.Publish(ctx, execute("s1", run)) })
		if r := natstest.Receive(t, "the command", got); r != run {
			t.Errorf("got %s, want %s", r, run)
		}
		srv.Restart(t)
	}
	w.stop(t)
}

// The error of Publish has the reason why a command was not stored.
func TestPublishErrors(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{RetryTimeout: 300 * time.Millisecond})
	c := execute("s1", "r1")
	c.AgentType = "sup.port"
	if err := q.Publish(t.Context(), c); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("an agent type with a dot: %v", err)
	}
	c = execute("s1", "r1")
	c.Params = chunk.Value(`{`)
	if err := q.Publish(t.Context(), c); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("params that are not JSON: %v", err)
	}
	c.Params = chunk.Value(`"` + strings.Repeat("x", 2<<20) + `"`)
	if err := q.Publish(t.Context(), c); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("too large for the server: %v", err)
	}
	c.Params = chunk.Value(`"` + strings.Repeat("x", 700<<10) + `"`)
	if err := q.Publish(t.Context(), c); !errors.Is(err, chunk.ErrTooLarge) {
		t.Errorf("too large for the stream: %v", err)
	}
	srv.Shutdown()
	if err := q.Publish(t.Context(), execute("s1", "r1")); !errors.Is(err, chunk.ErrUnknownOutcome) {
		t.Errorf("no server: %v", err)
	}
	js.Conn().Close()
	if err := q.Publish(t.Context(), execute("s1", "r1")); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("a closed connection: %v", err)
	}
}

func TestServeRefusesBadAgentType(t *testing.T) {
	q := newQueue(t, streamtest.Start(t).JetStream(t), QueueConfig{})
	if err := q.Serve(t.Context(), []string{"support", "*"}, nil); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("err = %v", err)
	}
}

func TestConfigNamesTheField(t *testing.T) {
	tests := map[string]QueueConfig{
		"AckWait is 1ms":      {AckWait: time.Millisecond},
		"Concurrency is -1":   {Concurrency: -1},
		"RetryTimeout is -1s": {RetryTimeout: -time.Second},
		"RetryDelay is 1m0s,": {RetryDelay: time.Minute},
	}
	for want, cfg := range tests {
		if _, err := NewQueue(nil, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q in it", err, want)
		}
	}
}

// AfterAck is called after the command is removed: then the session can get its next one.
func TestDone(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	first, next := execute("s1", "r1"), execute("s1", "r2")
	asked := make(chan error, 1)
	w := serve(t, q, func(_ context.Context, c control.Command) error {
		if c.RunID == next.RunID {
			return control.AfterAck{}
		}
		if err := q.Request(t.Context(), next, 0); !errors.Is(err, control.ErrBusy) {
			t.Errorf("with the command still there: %v", err)
		}
		return fmt.Errorf("wrapped: %w", control.AfterAck{Func: func(ctx context.Context) error {
			asked <- q.Request(ctx, next, 0)
			return errors.New("logged, and nothing else")
		}})
	})
	publish(t, q, first)
	if err := natstest.Receive(t, "what was left to do", asked); err != nil {
		t.Error(err)
	}
	natstest.Eventually(t, "an empty queue", func(context.Context) error {
		if n := left(t, js); n != 0 {
			return fmt.Errorf("%d commands", n)
		}
		return nil
	})
	w.stop(t)
}
