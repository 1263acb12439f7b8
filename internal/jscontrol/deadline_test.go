package jscontrol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/subjects"
)

func expire(run string) control.Command {
	return control.Command{Kind: control.Expire, Session: session1, AgentType: "support", RunID: run, Params: chunk.Value(`{"n":1}`)}
}

func publishAt(t *testing.T, q *Queue, run string, at time.Time) {
	t.Helper()
	if err := q.PublishAt(t.Context(), expire(run), at); err != nil {
		t.Fatal(err)
	}
}

// arrival is an Expire and the time of its delivery.
type arrival struct {
	control.Command

	at time.Time
}

func serveArrivals(t *testing.T, q *Queue) (*worker, chan arrival) {
	t.Helper()
	got := make(chan arrival, 100)
	return serve(t, q, func(_ context.Context, c control.Command) error { got <- arrival{c, time.Now()}; return nil }), got
}

// wantDue checks that it was delivered at its time and not before.
func wantDue(t *testing.T, a arrival, run string, deadline time.Time) {
	t.Helper()
	if a.Kind != control.Expire || a.RunID != run || a.Deadline.Sub(deadline) < 0 || a.Deadline.Sub(deadline) > time.Millisecond {
		t.Errorf("got %s of run %s with deadline %s, want run %s with %s", a.Kind, a.RunID, a.Deadline, run, deadline)
	}
	if a.at.Before(deadline) {
		t.Errorf("run %s: came %s too early", run, deadline.Sub(a.at))
	}
}

func wantNoDeadlines(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	natstest.Eventually(t, "no deadline to be left", func(ctx context.Context) error { return empty(ctx, js, "TR_DEADLINES") })
}

// A deadline is delivered at its time, in addition to the session's command, and leaves no message.
func TestDeadlineIsDeliveredAtItsTime(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	q := newQueue(t, js, QueueConfig{})
	request(t, q, execute("s1", "r0"), 0)
	soon := time.Now().Add(1200 * time.Millisecond)
	publishAt(t, q, "r1", soon)
	publishAt(t, q, "r1", soon) // a repetition has no effect
	publishAt(t, q, "r1", soon.Add(time.Second))
	publishAt(t, q, "past", time.Now().Add(-time.Hour))
	wantPending(t, q, "r0")
	w, got := serveArrivals(t, q)
	var all []arrival
	for range 4 {
		all = append(all, natstest.Receive(t, "a command", got))
	}
	w.stop(t)
	byID := map[string]arrival{}
	for _, a := range all {
		byID[fmt.Sprint(a.RunID, a.Deadline.After(soon.Add(500*time.Millisecond)))] = a
	}
	wantDue(t, byID["r1false"], "r1", soon)
	wantDue(t, byID["r1true"], "r1", soon.Add(time.Second))
	if string(byID["r1false"].Params) != `{"n":1}` || byID["r1false"].Session != session1 || byID["r1false"].AgentType != "support" {
		t.Errorf("got %+v", byID["r1false"].Command)
	}
	if late := byID["r1false"].at.Sub(soon); late > 10*time.Second {
		t.Errorf("came %s late", late)
	}
	if byID["pastfalse"].Kind != control.Expire || byID["r0false"].Kind != control.Execute {
		t.Errorf("got %+v", byID)
	}
	wantNoDeadlines(t, js)
	if len(got) != 0 {
		t.Errorf("another one: %+v", <-got)
	}
}

// The server is shut down, or killed, while deadlines are pending. One of them is due meanwhile.
func TestDeadlinesOutliveTheServer(t *testing.T) {
	t.Parallel()
	t.Run("restart", func(t *testing.T) {
		t.Parallel()
		srv := streamtest.Start(t)
		outlive(t, srv.JetStream(t), func() { srv.Restart(t) })
	})
	t.Run("kill -9", func(t *testing.T) {
		t.Parallel()
		srv := natstest.StartProcess(t)
		js := srv.JetStream(t)
		streamtest.Ensure(t, js, topology.Config{})
		outlive(t, js, func() { srv.Kill(t); srv.Restart(t) })
	})
}

func outlive(t *testing.T, js jetstream.JetStream, restart func()) {
	t.Helper()
	q := newQueue(t, js, QueueConfig{})
	first, second := time.Now().Add(100*time.Millisecond), time.Now().Add(4*time.Second)
	publishAt(t, q, "r1", first)
	publishAt(t, q, "r2", second)
	restart()
	restart()
	w, got := serveArrivals(t, q)
	wantDue(t, natstest.Receive(t, "the first", got), "r1", first)
	wantDue(t, natstest.Receive(t, "the second", got), "r2", second)
	w.stop(t)
	wantNoDeadlines(t, js)
	if len(got) != 0 {
		t.Errorf("another one: %+v", <-got)
	}
}

// A deadline that is due and not acknowledged, because the worker crashed, is redelivered.
func TestDueDeadlineIsRedelivered(t *testing.T) {
	srv := streamtest.Start(t)
	q := newQueue(t, srv.JetStream(t), QueueConfig{AckWait: 500 * time.Millisecond})
	publishAt(t, q, "r1", time.Now())
	firstJS := srv.JetStream(t)
	taken := make(chan struct{})
	w := serve(t, newQueue(t, firstJS, QueueConfig{AckWait: 500 * time.Millisecond}), func(ctx context.Context, _ control.Command) error {
		close(taken)
		<-ctx.Done()
		return ctx.Err()
	})
	natstest.Receive(t, "the first worker", taken)
	firstJS.Conn().Close()
	if err := natstest.Receive(t, "it to notice", w.done); err == nil {
		t.Error("Serve on a closed connection: no error")
	}
	_, got := serveArrivals(t, q)
	if a := natstest.Receive(t, "the second worker", got); a.RunID != "r1" {
		t.Errorf("got %+v", a)
	}
}

// Three servers. The deadlines of many runs pass while the leader is killed and others step down: each is delivered, none before its time, and no message
// remains.
func TestDeadlinesOnACluster(t *testing.T) {
	t.Parallel()
	const runs = 120
	cluster := streamtest.StartCluster(t)
	js := cluster.JetStream(t)
	q := newQueue(t, js, clusterConfig)
	from := time.Now()
	deadlines := map[string]time.Time{}
	for i := range runs {
		run := fmt.Sprint("r", i)
		deadlines[run] = from.Add(time.Duration(i) * 100 * time.Millisecond)
		publishAt(t, q, run, deadlines[run])
	}
	w, got := serveArrivals(t, q)
	seen := map[string]int{}
	disturbed := 0
	for len(seen) < runs {
		a := natstest.Receive(t, "a deadline", got)
		wantDue(t, a, a.RunID, deadlines[a.RunID])
		seen[a.RunID]++
		switch len(seen) / (runs / 5) {
		case disturbed:
		case 2:
			leader := cluster.Leader(t, "TR_DEADLINES")
			cluster.Kill(t, leader)
			cluster.Restart(t, leader)
			disturbed = 2
		default:
			disturbed = len(seen) / (runs / 5)
			cluster.StepDown(t, "TR_DEADLINES")
		}
	}
	wantNoDeadlines(t, js)
	w.stop(t)
	again := 0
	for _, n := range seen {
		again += n - 1
	}
	t.Logf("%d came again", again+len(got))
}

// The limits of a deadline.
func TestRefusedDeadlines(t *testing.T) {
	q := newQueue(t, streamtest.Start(t).JetStream(t), QueueConfig{})
	if err := q.PublishAt(t.Context(), execute("s1", "r1"), time.Now()); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("another kind: %v", err)
	}
	if err := q.PublishAt(t.Context(), expire("r1"), time.Now().Add(MaxDelay+time.Minute)); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("too far away: %v", err)
	}
	if err := q.PublishAt(t.Context(), expire("r1"), time.Time{}); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("no time: %v", err)
	}
	if err := q.PublishAt(t.Context(), expire("r.1"), time.Now()); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

// A due message is checked like a command: its body must match its subject.
func TestRefusedDueMessages(t *testing.T) {
	c := expire("r1")
	c.Issued, c.Deadline = time.UnixMilli(1), time.UnixMilli(1700000000123)
	msg, err := encodeTo("", c)
	if err != nil {
		t.Fatal(err)
	}
	const due = "tr.deadlines.due.acme.support.s1.r1.1700000000123"
	layout := subjects.Layout{}
	if got, err := control.DecodeDeadline(layout, due, msg.Data); err != nil || !reflect.DeepEqual(got, c) {
		t.Fatalf("%+v, %v, want %+v", got, err, c)
	}
	for _, subject := range []string{
		"tr.deadlines.due.acme.support.s1.r1.1700000000124", "tr.deadlines.due.acme.support.s1.r2.1700000000123",
		"tr.deadlines.due.evil.support.s1.r1.1700000000123", "tr.deadlines.set.acme.support.s1.r1.1700000000123",
		"tr.deadlines.due.acme.support.s1.r1.01700000000123", "tr.deadlines.due.acme.support.s1.r1",
	} {
		if c, err := control.DecodeDeadline(layout, subject, msg.Data); !errors.Is(err, control.ErrMalformed) {
			t.Errorf("%s: %+v, %v", subject, c, err)
		}
	}
	if c, err := control.DecodeCommand(layout, "tr.commands.acme.support.s1", msg.Data); !errors.Is(err, control.ErrMalformed) {
		t.Errorf("as a command: %+v, %v", c, err)
	}
	other := execute("s1", "r1")
	other.Issued = c.Issued
	plain, err := encodeTo("", other)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := control.DecodeDeadline(layout, due, plain.Data); !errors.Is(err, control.ErrMalformed) {
		t.Errorf("another kind: %+v, %v", c, err)
	}
}
