package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

var session1 = chunk.RootSession("acme", "s1")

func request(tb testing.TB, q *Queue, c control.Command, after control.Revision) {
	tb.Helper()
	if err := q.Request(tb.Context(), c, after); err != nil {
		tb.Fatal(err)
	}
}

// wantBusy checks that the request was rejected because of run.
func wantBusy(t *testing.T, err error, run string) control.Revision {
	t.Helper()
	busy, ok := errors.AsType[*control.BusyError](err)
	if !ok || !errors.Is(err, control.ErrBusy) || busy.Command.RunID != run {
		t.Fatalf("err = %v, want ErrBusy with run %s", err, run)
	}
	return busy.Revision
}

// wantPending checks that the newest command of session s1 is that of run, "" for none.
func wantPending(t *testing.T, q *Queue, run string) control.Revision {
	t.Helper()
	c, revision, err := q.Pending(t.Context(), session1, "support")
	if run == "" {
		if !errors.Is(err, control.ErrNoCommand) || revision != 0 {
			t.Fatalf("pending %v at %d, %v, want none", c, revision, err)
		}
		return 0
	}
	if err != nil || c.RunID != run || revision == 0 {
		t.Fatalf("pending %+v at %d, %v, want run %s", c, revision, err, run)
	}
	return revision
}

// A session has one command, from its acceptance until its worker has acknowledged it.
func TestOneCommandAtATime(t *testing.T) {
	srv := streamtest.Start(t)
	q := newQueue(t, srv.JetStream(t), QueueConfig{})
	wantPending(t, q, "")
	want := full()
	want.Session = session1
	request(t, q, want, 0)
	first := wantPending(t, q, "run-1")
	if c, _, _ := q.Pending(t.Context(), session1, "support"); !reflect.DeepEqual(c, want) {
		t.Errorf("pending %+v\nwant    %+v", c, want)
	}
	if r := wantBusy(t, q.Request(t.Context(), execute("s1", "r2"), 0), "run-1"); r != first {
		t.Errorf("busy at %d, pending at %d", r, first)
	}
	request(t, q, want, 0) // repeated: it is on the queue
	request(t, q, execute("s2", "r2"), 0)

	// The other commands of a session have the same subject.
	wantBusy(t, q.Request(t.Context(), resume("r3", "r2"), 0), "run-1")
	wantBusy(t, q.Request(t.Context(), control.Command{Kind: control.Abort, Session: session1, AgentType: "support", RunID: "r2"}, 0), "run-1")

	started, finish := make(chan string, 10), make(chan struct{})
	w := serve(t, q, func(_ context.Context, c control.Command) error {
		if c.Session == session1 {
			started <- c.RunID
			<-finish
		}
		return nil
	})
	natstest.Receive(t, "the worker", started)
	wantBusy(t, q.Request(t.Context(), execute("s1", "r3"), 0), "run-1") // it is running
	close(finish)
	natstest.Eventually(t, "the session to be free", func(ctx context.Context) error { return q.Request(ctx, execute("s1", "r3"), 0) })
	if run := natstest.Receive(t, "the next", started); run != "r3" {
		t.Errorf("run %s", run)
	}
	w.stop(t)
	wantPending(t, q, "")
}

func resume(run, resumed string) control.Command {
	return control.Command{Kind: control.Resume, Session: session1, AgentType: "support", RunID: run, Resumes: resumed, Mode: "continue"}
}

// The worker has ended the run in the log and crashed before the acknowledgement: a client that knows that from the log replaces the command. Of several
// requests exactly one is accepted.
func TestRequestBehindAFinishedCommand(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	request(t, q, execute("s1", "r1"), 0)
	old := wantPending(t, q, "r1")
	accepted := make(chan string, 20)
	var asking sync.WaitGroup
	for i := range 20 {
		asking.Go(func() {
			c := execute("s1", fmt.Sprint("n", i))
			switch err := q.Request(t.Context(), c, old); {
			case err == nil:
				accepted <- c.RunID
			case !errors.Is(err, control.ErrBusy):
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if len(accepted) != 1 {
		t.Fatalf("%d accepted", len(accepted))
	}
	winner := <-accepted
	if r := wantPending(t, q, winner); r <= old {
		t.Errorf("at %d, the old one at %d", r, old)
	}
	wantBusy(t, q.Request(t.Context(), execute("s1", "late"), old), winner)
	got := make(chan string, 10)
	w := serve(t, q, func(_ context.Context, c control.Command) error { got <- c.RunID; return nil })
	if a, b := natstest.Receive(t, "both", got), natstest.Receive(t, "both", got); a != "r1" && b != "r1" {
		t.Errorf("handled %s and %s", a, b)
	}
	w.stop(t)

	// The command that the request replaces is no longer on the queue: the request is accepted.
	request(t, q, execute("s1", "r9"), old)
	wantPending(t, q, "r9")
}

// The newest command is acknowledged before an older one: the pending command is the older one until it is acknowledged.
func TestPendingAfterAcksOutOfOrder(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	request(t, q, execute("s1", "r1"), 0)
	request(t, q, execute("s1", "r2"), wantPending(t, q, "r1"))
	stream, err := js.Stream(t.Context(), "TR_COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), uint64(wantPending(t, q, "r2"))); err != nil { // the effect of an ack
		t.Fatal(err)
	}
	wantPending(t, q, "r1")
	wantBusy(t, q.Request(t.Context(), execute("s1", "r3"), 0), "r1")
	if err := stream.DeleteMsg(t.Context(), uint64(wantPending(t, q, "r1"))); err != nil {
		t.Fatal(err)
	}
	wantPending(t, q, "")
	request(t, q, execute("s1", "r3"), 0)
}

// A repeated request returns the command that is on the queue; after its acknowledgement, it is published again. The deduplication of the server must not
// prevent that: 1. a Resume comes too early, finds no answers, and is acknowledged, 2. the last answer is stored, and the Resume is requested again.
func TestRepeatedRequest(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	stream, err := js.Stream(t.Context(), "TR_COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		request(t, q, execute("s1", "r1"), 0)
		request(t, q, execute("s1", "r1"), 0)
		if n := left(t, js); n != 1 {
			t.Errorf("%d commands, want one", n)
		}
		if err := stream.DeleteMsg(t.Context(), uint64(wantPending(t, q, "r1"))); err != nil {
			t.Fatal(err)
		}
		wantPending(t, q, "")
	}
}

// A hundred times fifty concurrent requests: one is accepted, and the errors of all others name it.
func TestRequestsAtOnce(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	for round := range 100 {
		s := fmt.Sprint("s", round)
		var winner atomic.Value
		losers := make(chan string, 50)
		var asking sync.WaitGroup
		for i := range 50 {
			asking.Go(func() {
				c := execute(s, fmt.Sprint("r", i))
				err := q.Request(t.Context(), c, 0)
				if err == nil {
					if before := winner.Swap(c.RunID); before != nil {
						t.Errorf("%s: %v and %s", s, before, c.RunID)
					}
					return
				}
				if busy, ok := errors.AsType[*control.BusyError](err); ok {
					losers <- busy.Command.RunID
				} else {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		close(losers)
		if len(losers) != 49 {
			t.Errorf("%s: %d refused", s, len(losers))
		}
		for run := range losers {
			if run != winner.Load() {
				t.Errorf("%s: busy with %s, accepted %v", s, run, winner.Load())
			}
		}
	}
}

// The acknowledgement of a request is lost with the connection. It is stored once, and its client does not get a BusyError that names its own command, also
// when the server has forgotten its id meanwhile.
func TestRequestWithLostAcknowledgement(t *testing.T) {
	t.Parallel()
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	near := newQueue(t, js, QueueConfig{})
	proxy := natstest.StartProxy(t, srv.URL)
	farJS := natstest.JetStream(t, proxy.URL)
	far := newQueue(t, farJS, QueueConfig{})
	for _, run := range []string{"r1", "r2"} {
		proxy.DropReplies()
		done := make(chan error, 1)
		_, before, _ := near.Pending(t.Context(), session1, "support")
		go func() { done <- far.Request(t.Context(), execute("s1", run), before) }()
		natstest.Eventually(t, "the request to arrive", func(ctx context.Context) error {
			if c, _, err := near.Pending(ctx, session1, "support"); c.RunID != run {
				return fmt.Errorf("%s is there, %w", c.RunID, err)
			}
			return nil
		})
		if run == "r2" {
			shortenWindow(t, js, "TR_COMMANDS")
		}
		proxy.Restore()
		if err := natstest.Receive(t, "the request", done); err != nil {
			t.Errorf("%s: %v", run, err)
		}
	}
	if n := left(t, js); n != 2 {
		t.Errorf("%d commands", n)
	}
}

// The server does not respond within RetryTimeout: the outcome is unknown, which is not a rejection.
func TestRequestWithUnknownOutcome(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{RetryTimeout: 300 * time.Millisecond})
	srv.Shutdown()
	if err := q.Request(t.Context(), execute("s1", "r1"), 0); !errors.Is(err, chunk.ErrUnknownOutcome) || errors.Is(err, control.ErrBusy) {
		t.Errorf("no server: %v", err)
	}
	if _, _, err := q.Pending(t.Context(), session1, "support"); err == nil || errors.Is(err, control.ErrNoCommand) {
		t.Errorf("pending without a server: %v", err)
	}
	js.Conn().Close()
	if err := q.Request(t.Context(), execute("s1", "r1"), 0); !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("a closed connection: %v", err)
	}
}

// shortenWindow makes the server forget the message ids of a stream quickly.
func shortenWindow(t *testing.T, js jetstream.JetStream, name string) {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// The stored command is malformed or only readable by a newer worker: the session is busy, and the error has the reason.
func TestBusyWithAnUnreadableCommand(t *testing.T) {
	tests := map[string]struct {
		data string
		want error
	}{
		"newer":     {`{"version":9}`, control.ErrUnsupported},
		"malformed": {`{"version":`, control.ErrMalformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			js := streamtest.Start(t).JetStream(t)
			q := newQueue(t, js, QueueConfig{})
			if _, err := js.Publish(t.Context(), "tr.commands.acme.support.s1", []byte(test.data)); err != nil {
				t.Fatal(err)
			}
			wantReason := func(err error) control.Revision {
				t.Helper()
				busy, ok := errors.AsType[*control.BusyError](err)
				if !ok || !errors.Is(busy.Unreadable, test.want) || busy.Command.Session.ID != "s1" || busy.Command.AgentType != "support" {
					t.Fatalf("err = %v, want ErrBusy because of %v", err, test.want)
				}
				return busy.Revision
			}
			r := wantReason(q.Request(t.Context(), execute("s1", "r1"), 0))
			_, same, err := q.Pending(t.Context(), session1, "support")
			if wantReason(err) != r || same != r {
				t.Errorf("at %d and %d", r, same)
			}
		})
	}
}

// An Expire does not count as the session's command, and an invalid name is rejected without a request.
func TestRefusedRequests(t *testing.T) {
	q := newQueue(t, streamtest.Start(t).JetStream(t), QueueConfig{})
	expire := control.Command{Kind: control.Expire, Session: session1, AgentType: "support", RunID: "r1", Deadline: time.Now()}
	if err := q.Request(t.Context(), expire, 0); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("an expire: %v", err)
	}
	if err := q.Request(t.Context(), resume("r1", "r1"), 0); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("a run that resumes itself: %v", err)
	}
	if _, _, err := q.Pending(t.Context(), chunk.RootSession("*", ">"), "support"); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("pending: %v", err)
	}
}

// Run ids are tokens, and functions of the values that they are built from.
func TestRunIDs(t *testing.T) {
	a, b := chunk.RootSession("acme", "s1"), chunk.RootSession("acme", "s2")
	ids := map[string]string{
		"execute":         control.ExecuteRunID(a, "m1"),
		"another message": control.ExecuteRunID(a, "m2"),
		"another session": control.ExecuteRunID(b, "m1"),
		"regenerate":      control.RegenerateRunID(a, "m1", "r1"),
		"regenerate r2":   control.RegenerateRunID(a, "m1", "r2"),
		"shifted":         control.RegenerateRunID(a, "m", "1r1"),
		"resume":          control.ResumeRunID("m1"),
		"resume again":    control.ResumeRunID(control.ResumeRunID("m1")),
		"odd":             control.ExecuteRunID(a, "\x00\xff 💥"),
	}
	seen := map[string]string{}
	for name, id := range ids {
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s are %s", name, other, id)
		}
		seen[id] = name
		if c := execute("s1", id); c.Validate() != nil {
			t.Errorf("%s: %v", name, c.Validate())
		}
	}
	if got, want := control.ExecuteRunID(a, "m1"), ids["execute"]; got != want {
		t.Errorf("%s, then %s", want, got)
	}
}
