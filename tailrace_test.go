package tailrace_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// Programs that start at the same time create the streams once.
func TestOpenAtOnce(t *testing.T) {
	e := newEnv(t)
	var all sync.WaitGroup
	for range 4 {
		js := e.JetStream(t)
		all.Go(func() {
			tr, err := tailrace.Open(t.Context(), js, tailrace.Config{Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(tr.Close(), tr.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestOpenErrors(t *testing.T) {
	e := newEnv(t)
	for want, cfg := range map[string]tailrace.Config{
		"Create is not set": {},
		"TR_CHUNKS_0":       {},
		"Memory is -1":      {Memory: -1},
		"Tenant":            {Tenant: "a b"},
		"Replicas is 2":     {Create: true, Replicas: 2},
	} {
		tr, err := tailrace.Open(t.Context(), e.JetStream(t), cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", cfg, err, want)
		}
		if tr != nil {
			t.Errorf("%+v: a Tailrace and an error", cfg)
		}
	}
}

// A run is started once, is read from any position, also after its end, and its snapshot is the fold of its records.
func TestStartAndRead(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	tr.Agent("support", workers.AgentFunc(echo))
	run, err := tr.Start(t.Context(), "s1", "support", "hello")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := tr.Start(t.Context(), "s1", "support", "hello"); err != nil || again != run {
		t.Errorf("repeated: run %q, %v, want %q", again, err, run)
	}
	e.awaitPhase(tr, "s1", tailrace.PhaseRunning) // it is requested, and no worker runs
	reading := make(chan []chunk.Record)
	go func() { reading <- e.follow(tr, "s1", chunk.Position{}) }()
	e.run(tr)
	records := <-reading
	if got := text(t, records); got != "You said: hello" {
		t.Errorf("text %q", got)
	}
	for i, rec := range records {
		if rest := e.follow(tr, "s1", rec.Position()); len(rest) != len(records)-i-1 {
			t.Errorf("after record %d: %d records, want %d", i, len(rest), len(records)-i-1)
		}
	}
	e.awaitPhase(tr, "s1", tailrace.PhaseCompleted)

	f := fold.New(chunk.RootSession("default", "s1"))
	for _, rec := range records {
		if err := f.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tr.Snapshot(t.Context(), "s1")
	if want := f.Snapshot().Content(true); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("snapshot %+v, %v, want %+v", got, err, want)
	}
	if rest := e.follow(tr, "s1", got.Position); len(rest) != 0 {
		t.Errorf("%d records after the snapshot", len(rest))
	}
}

// A reader gets the stored records of a run that this program writes, then each new one.
func TestWriteAndFollowLive(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	run, err := tr.Write(t.Context(), "s1", chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	texts := make(chan string)
	go func() {
		defer close(texts)
		for rec, err := range tr.Follow(t.Context(), "s1", chunk.Position{}) {
			if err != nil {
				t.Error(err)
				return
			}
			if rec.Type == chunk.TypeTextDelta {
				texts <- text(t, []chunk.Record{rec})
			}
		}
	}()
	for _, want := range []string{"one", "two", "three"} {
		if _, err := run.Write(t.Context(), chunk.Chunk{Body: chunk.TextDelta{Delta: want}}); err != nil {
			t.Fatal(err)
		}
		if got := <-texts; got != want {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, ok := <-texts; ok {
		t.Errorf("read %q after the end", got)
	}
}

// A run begins and ends after Follow has found no record, and before it asks whether a run is requested.
func TestFollowOfAFastRun(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	tr.Agent("echo", workers.AgentFunc(echo))
	if _, err := tr.Start(t.Context(), "s1", "echo", "hello"); err != nil {
		t.Fatal(err)
	}
	proxy := natstest.StartHoldProxy(t, e.URL)
	js, err := jetstream.New(natstest.Connect(t, proxy.URL))
	if err != nil {
		t.Fatal(err)
	}
	follower, err := tailrace.Open(t.Context(), js, tailrace.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	hold := proxy.Hold(func(m string) bool { return strings.HasPrefix(m, "PUB $JS.API.STREAM.MSG.GET.TR_COMMANDS ") })
	var records []chunk.Record
	var reading sync.WaitGroup
	reading.Go(func() { records = e.follow(follower, "s1", chunk.Position{}) })
	<-hold.Held
	e.run(tr)
	e.awaitPhase(tr, "s1", tailrace.PhaseCompleted)
	hold.Release()
	reading.Wait()
	if got := text(t, records); got != "You said: hello" {
		t.Errorf("read %q", got)
	}
}

// Tree has the records of sub-agents; Follow has those of the session alone.
func TestTree(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	tr.Agent("searcher", workers.AgentFunc(echo))
	tr.Agent("support", workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if calls := t.Messages()[len(t.Messages())-1].Calls(); len(calls) > 0 {
				s.MarkFinal()
				return s.Text(ctx, "answer")
			}
			return s.Tool("c1", workers.SubagentTool("searcher")).Delegate(ctx, map[string]any{"message": "parcels"})
		})
	}))
	e.run(tr, tailrace.RoleWorker)
	if _, err := tr.Start(t.Context(), "s1", "support", "hello"); err != nil {
		t.Fatal(err)
	}
	var tree []chunk.Record
	sessions := map[string]bool{}
	for rec, err := range tr.Tree(t.Context(), "s1", chunk.Position{}) {
		if err != nil {
			t.Fatal(err)
		}
		tree, sessions[rec.Session.ID] = append(tree, rec), true
	}
	if got := text(t, tree); got != "You said: parcelsanswer" || len(sessions) != 2 {
		t.Errorf("text %q of %d sessions", got, len(sessions))
	}
	middle := len(tree) / 2
	rest := 0
	for _, err := range tr.Tree(t.Context(), "s1", tree[middle].Position()) {
		if err != nil {
			t.Fatal(err)
		}
		rest++
	}
	if rest != len(tree)-middle-1 {
		t.Errorf("%d records after record %d of %d", rest, middle, len(tree))
	}
	if got := text(t, e.follow(tr, "s1", chunk.Position{})); got != "answer" {
		t.Errorf("text of the session %q", got)
	}
}

// The first answer to a call counts, and the others get it.
func TestAnswer(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	tr.Agent("asker", workers.AgentFunc(asker))
	e.run(tr)
	if _, err := tr.Start(t.Context(), "s1", "asker", "hello"); err != nil {
		t.Fatal(err)
	}
	e.awaitPhase(tr, "s1", tailrace.PhaseClient)
	if err := tr.Answer(t.Context(), "s1", tailrace.Answer{CallID: "c9"}); reasonOf(err) != tailrace.ReasonUnknownCall {
		t.Errorf("unknown call: %v", err)
	}
	if err := tr.Answer(t.Context(), "s1", tailrace.Answer{CallID: "c1", ApprovalID: "a", Approved: true}); reasonOf(err) != tailrace.ReasonWrongKind {
		t.Errorf("an approval: %v", err)
	}
	failed := "no browser"
	for _, both := range []tailrace.Answer{
		{CallID: "c1", Result: chunk.Value("1"), Error: &failed},
		{CallID: "c1", Result: chunk.Value("1"), Approved: true},
		{CallID: "c1", ApprovalID: "a", Approved: true, Result: chunk.Value("1")},
		{CallID: "c1", ApprovalID: "a", Error: &failed},
	} {
		err := tr.Answer(t.Context(), "s1", both)
		if refused, ok := errors.AsType[*tailrace.Error](err); !ok || refused.Reason != tailrace.ReasonInvalid || !errors.Is(err, chunk.ErrInvalid) || refused.Text == "" {
			t.Errorf("%+v: %v", both, err)
		} else if want := "session /default/s1/s1: invalid: " + refused.Text; err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for id, first := range map[string]tailrace.Answer{"s1": {CallID: "c1", Result: chunk.Value(`"first"`)}, "s2": {CallID: "c1", Error: &failed}} {
		if _, err := tr.Start(t.Context(), id, "asker", "hello"); err != nil {
			t.Fatal(err)
		}
		e.awaitPhase(tr, id, tailrace.PhaseClient)
		if err := tr.Answer(t.Context(), id, first); err != nil {
			t.Fatal(err)
		}
		err := tr.Answer(t.Context(), id, tailrace.Answer{CallID: "c1", Result: chunk.Value(`"second"`)})
		if refused, ok := errors.AsType[*tailrace.Error](err); !ok || refused.Reason != tailrace.ReasonAnswered || !reflect.DeepEqual(*refused.First, first) {
			t.Errorf("second answer: %v, want %+v", err, first)
		}
		e.awaitPhase(tr, id, tailrace.PhaseCompleted)
	}
}

// A run is interrupted and continues with another message, and one that waits is aborted.
func TestStopAndResume(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	began := make(chan bool, 1)
	tr.Agent("slow", workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		if input := t.Input(); input[len(input)-1].Content == "again" {
			return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				s.MarkFinal()
				return s.Text(ctx, "done")
			})
		}
		return t.Step(ctx, func(ctx context.Context, _ *workers.Step) error {
			began <- true
			<-ctx.Done()
			return ctx.Err()
		})
	}))
	tr.Agent("asker", workers.AgentFunc(asker))
	e.run(tr)
	if _, err := tr.Start(t.Context(), "s1", "slow", "hello"); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := tr.Stop(t.Context(), "s1", tailrace.Interrupt, "a pause"); err != nil {
		t.Fatal(err)
	}
	e.awaitPhase(tr, "s1", tailrace.PhaseInterrupted)
	if _, err := tr.Resume(t.Context(), "s1", chunk.InputMessage{Content: "again"}); err != nil {
		t.Fatal(err)
	}
	e.awaitPhase(tr, "s1", tailrace.PhaseCompleted)

	if _, err := tr.Start(t.Context(), "s2", "asker", "hello"); err != nil {
		t.Fatal(err)
	}
	e.awaitPhase(tr, "s2", tailrace.PhaseClient)
	if err := tr.Stop(t.Context(), "s2", tailrace.Abort, "enough"); err != nil {
		t.Fatal(err)
	}
	e.awaitPhase(tr, "s2", tailrace.PhaseFailed)
}

// The id of a session is one of its tenant.
func TestTenants(t *testing.T) {
	e := newEnv(t)
	acme, other := e.open(tailrace.Config{Tenant: "acme"}), e.open(tailrace.Config{Tenant: "other"})
	run, err := acme.Write(t.Context(), "s1", chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
		t.Fatal(err)
	}
	for _, err := range other.Follow(t.Context(), "s1", chunk.Position{}) {
		if !errors.Is(err, chunk.ErrUnknownSession) {
			t.Errorf("Follow: %v", err)
		}
	}
	if _, err := other.Snapshot(t.Context(), "s1"); !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("Snapshot: %v", err)
	}
	if _, err := other.Status(t.Context(), "s1"); reasonOf(err) != tailrace.ReasonNoSession || !errors.Is(err, chunk.ErrUnknownSession) {
		t.Errorf("Status: %v", err)
	}
	if err := other.Stop(t.Context(), "s1", tailrace.Abort, ""); reasonOf(err) != tailrace.ReasonNoSession {
		t.Errorf("Stop: %v", err)
	}
	if records := e.follow(acme, "s1", chunk.Position{}); len(records) != 2 {
		t.Errorf("%d records", len(records))
	}
}

// The log has the user of As with the run, which is then the owner of the session.
func TestAs(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	ann := tr.As(chunk.Principal{Subject: "ann"})
	tr.Agent("support", workers.AgentFunc(echo))
	e.run(tr)
	if _, err := ann.Start(t.Context(), "started", "support", "hello"); err != nil {
		t.Fatal(err)
	}
	run, err := ann.Write(t.Context(), "written", chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"started", "written"} {
		c, err := e.follow(tr, id, chunk.Position{})[0].Decode()
		if started, ok := chunk.As[chunk.RunStarted](c); !ok || err != nil || started.By == nil || started.By.Subject != "ann" {
			t.Errorf("%s: %+v, %v", id, c.Body, err)
		}
	}
}

// A firehose gets the records of all sessions, and ends with the error of its handler.
func TestFirehose(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	want := 0
	for _, id := range []string{"s1", "s2"} {
		run, err := tr.Write(t.Context(), id, chunk.RunStarted{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(run.EmitBody(t.Context(), chunk.TextDelta{Delta: id}), run.End(t.Context(), nil), run.Close()); err != nil {
			t.Fatal(err)
		}
		want += len(e.follow(tr, id, chunk.Position{}))
	}
	got, done := 0, errors.New("all records")
	err := tr.Firehose(t.Context(), consumers.FirehoseConfig{Name: "sink"}, func(context.Context, chunk.Record) error {
		if got++; got == want {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) || got != want {
		t.Errorf("%d records of %d, %v", got, want, err)
	}
	if err := tr.Firehose(t.Context(), consumers.FirehoseConfig{Name: "a b"}, nil); err == nil {
		t.Error("a wrong name: no error")
	}
}

// Ids that no subject can have are refused before a request.
func TestInvalidIDs(t *testing.T) {
	e := newEnv(t)
	tr := e.open(tailrace.Config{})
	const id = "a b"
	ctx := t.Context()
	_, start := tr.Start(ctx, id, "support", "")
	_, resume := tr.Resume(ctx, id)
	_, status := tr.Status(ctx, id)
	_, write := tr.Write(ctx, id, chunk.RunStarted{})
	_, snapshot := tr.Snapshot(ctx, id)
	_, agent := tr.Start(ctx, "s1", "a b", "")
	errs := map[string]error{
		"Start": start, "Resume": resume, "Status": status, "Write": write, "Snapshot": snapshot, "agent type": agent,
		"Answer": tr.Answer(ctx, id, tailrace.Answer{}), "Stop": tr.Stop(ctx, id, tailrace.Abort, ""),
	}
	for _, err := range tr.Follow(ctx, id, chunk.Position{}) {
		errs["Follow"] = err
	}
	if len(errs) != 9 {
		t.Error("Follow yields no error")
	}
	for name, err := range errs {
		if err == nil || !strings.Contains(err.Error(), `"a b"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := tr.Status(ctx, "s1"); reasonOf(err) != tailrace.ReasonNoSession {
		t.Errorf("after a wrong agent type: %v", err)
	}
}
