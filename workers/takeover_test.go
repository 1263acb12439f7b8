package workers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// mixedAgent writes n steps of text and tools as a function of the step, with pending calls of every kind in
// the middle. It keeps no state outside of the turn.
func mixedAgent(steps int, effects *effectCounter) map[string]Agent {
	answer := AgentFunc(func(ctx context.Context, t *Turn) error {
		for n := t.Steps() + 1; n <= steps; n++ {
			err := t.Step(ctx, func(ctx context.Context, s *Step) error { return mixedStep(ctx, s, n, steps, effects) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	helper := oneStep(func(ctx context.Context, t *Turn, s *Step) error {
		for word := range strings.FieldsSeq("the helper says " + t.Input()[0].Content) {
			if err := s.Text(ctx, word+" "); err != nil {
				return err
			}
		}
		return s.Output(ctx, t.Input()[0].Content)
	})
	return map[string]Agent{"talker": answer, "helper": helper}
}

func mixedStep(ctx context.Context, s *Step, n, steps int, effects *effectCounter) error {
	for _, call := range s.ApprovedCalls() {
		effects.happen(call.IdempotencyKey())
		if err := call.End(ctx, "ran"); err != nil {
			return err
		}
	}
	for i := range 6 {
		if err := s.Text(ctx, fmt.Sprintf("%d.%d ", n, i)); err != nil {
			return err
		}
	}
	call := s.Tool("call", "effect")
	if err := errors.Join(call.Args(ctx, `{"n":`), call.Args(ctx, fmt.Sprint(n, "}")), call.Start(ctx, map[string]any{"n": n})); err != nil {
		return err
	}
	effects.happen(call.IdempotencyKey())
	if err := errors.Join(call.End(ctx, n), s.SetState(ctx, map[string]any{"step": n, "all": make([]int, n)})); err != nil {
		return err
	}
	if err := s.Usage(chunk.Usage{InputTokens: "1", OutputTokens: "1"}); err != nil {
		return err
	}
	switch {
	case n == steps:
		s.MarkFinal()
	case n%3 == 2:
		return errors.Join(
			s.Tool("where", "location").AskClient(ctx, map[string]any{"n": n}, time.Time{}),
			s.Tool("may", "permission").AskApproval(ctx, map[string]any{"n": n}, time.Time{}),
			s.Tool("help", SubagentTool("helper")).Delegate(ctx, map[string]any{"message": fmt.Sprint("about ", n)}),
		)
	}
	return nil
}

// effectCounter counts side effects by idempotency key.
type effectCounter struct {
	mu   sync.Mutex
	keys map[string]int
}

func (e *effectCounter) happen(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys = map[string]int{}
	}
	e.keys[key]++
}

// answerRequests answers all pending calls of a session until it has ended or ctx ends.
func (w *env) answerRequests(ctx context.Context, s chunk.Session, agent string) {
	for ctx.Err() == nil {
		for rec, err := range w.Log.Follow(ctx, chunk.Range{Session: s, KeepOpen: true}) {
			if err != nil {
				break // not started, or a clean-up during the read
			}
			if rec.Type.Terminal() {
				return
			}
			if rec.Type != chunk.TypeStreamPaused {
				continue
			}
			if err := w.answerAll(ctx, s, agent); err != nil && ctx.Err() == nil {
				w.t.Errorf("user: %v", err)
			}
		}
	}
}

func (w *env) answerAll(ctx context.Context, s chunk.Session, agent string) error {
	snap, err := w.Reader.Snapshot(ctx, s)
	if err != nil || snap.Run.Status != fold.RunSuspended {
		return err
	}
	for _, p := range snap.Pending {
		a := control.Answer{Session: s, RunID: p.RunID, CallID: p.CallID, Kind: control.ClientResult, Result: chunk.Value(`"yes"`)}
		if p.Kind == fold.PendingApproval {
			a = control.Answer{Session: s, RunID: p.RunID, CallID: p.CallID, Kind: control.Approval, ApprovalID: p.ApprovalID, Approved: true}
		}
		if err := w.Inbox.Answer(ctx, a); err != nil && !errors.Is(err, control.ErrAnswered) {
			return err
		}
	}
	answers, err := w.Inbox.Answers(ctx, s, snap.Run.ID)
	if err != nil || len(answers) < len(conversation.PendingCalls(snap, snap.Run.ID)) {
		return err // the sub-agent's worker requests the Resume
	}
	c := control.Command{Kind: control.Resume, Session: s, AgentType: agent, RunID: control.ResumeRunID(snap.Run.ID), Resumes: snap.Run.ID}
	err = w.Queue.Request(ctx, c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Command.RunID == snap.Run.ID {
		err = w.Queue.Request(ctx, c, busy.Revision)
	}
	if errors.Is(err, control.ErrBusy) {
		return nil // already requested
	}
	return err
}

var checkpointIDs = regexp.MustCompile(`cpv1-[A-Za-z0-9_-]+-s(\d+)-t\d+-[0-9a-f]{6}`)

// historyOf returns the parts of a snapshot that do not depend on crashes.
func historyOf(snap fold.Snapshot) string {
	f := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Partial: true})
	var b strings.Builder
	for _, m := range f.Messages {
		b.Write(m.AppendJSON(nil))
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s %s %s %+v %d\n", f.State, f.Status, f.Run.ID, f.Usage, len(f.PendingCalls))
	for _, c := range f.Children {
		fmt.Fprintf(&b, "%s %s %s %s\n", c.Session, c.CallID, c.Status, c.Result)
	}
	if f.CheckpointID != nil {
		b.WriteString(checkpointIDs.ReplaceAllString(*f.CheckpointID, "step $1"))
	}
	return b.String()
}

// Workers crash repeatedly, each after a random number of messages: within a text, between a checkpoint and
// its commit, between a commit and the pause, between the pause and the sub-agents, among the answers, in a
// clean-up. The conversation equals that of an undisturbed run.
func TestCrashAnywhere(t *testing.T) {
	random := seedtest.Rand(t)
	const steps = 6
	w := newEnv(t)
	w.maxDelta = 1
	undisturbed, calmEffects := execute("undisturbed", "talker", "Talk!"), &effectCounter{}
	w.play(undisturbed, mixedAgent(steps, calmEffects), nil)
	want := historyOf(w.Snapshot(undisturbed.Session))
	if !strings.Contains(want, "6.5") || len(calmEffects.keys) != 8 {
		t.Fatalf("undisturbed run: got\n%s\n%v", want, calmEffects.keys)
	}
	kills := 0
	for round := range 4 {
		s, did := fmt.Sprint("s", round), &effectCounter{}
		c := execute(s, "talker", "Talk!")
		kills += w.play(c, mixedAgent(steps, did), random)
		got := strings.ReplaceAll(historyOf(w.Snapshot(c.Session)), s, "undisturbed")
		got, want := childNames.ReplaceAllString(got, "sub-"), childNames.ReplaceAllString(want, "sub-")
		if got != want {
			t.Fatalf("round %d: got\n%s\nwant\n%s", round, got, want)
		}
		if len(did.keys) != len(calmEffects.keys) {
			t.Errorf("round %d: %d effects, want %d", round, len(did.keys), len(calmEffects.keys))
		}
		for i, b := range w.Bodies(c.Session) {
			if _, ok := b.(chunk.StreamFailed); ok {
				t.Errorf("record %d: failure", i)
			}
		}
	}
	t.Logf("%d kills", kills)
	if kills < 4 {
		t.Errorf("only %d crashes", kills)
	}
}

var childNames = regexp.MustCompile(`sub-[0-9a-f]{32}`)

// play runs a command to the end of its session, with users who answer. With a random source it crashes one
// worker after the other.
func (w *env) play(c control.Command, agents map[string]Agent, random *rand.Rand) (kills int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.Request(c)
	var users sync.WaitGroup
	users.Go(func() { w.answerRequests(ctx, c.Session, c.AgentType) })
	for random != nil && kills < 6 {
		p := w.serve(w.worker(agents))
		killed := w.killAfter(p, 1+random.IntN(40))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = w.awaitOver(ctx, c.Session)
		}()
		select {
		case <-killed:
			kills++
		case <-ended:
		}
		p.Cancel()
		if w.isOver(c.Session) {
			break
		}
	}
	last := w.serve(w.worker(agents))
	if err := w.awaitOver(ctx, c.Session); err != nil {
		w.t.Fatalf("last worker: %v\n%s", err, transcript(w.Snapshot(c.Session)))
	}
	users.Wait()
	last.Stop()
	return kills
}

func (w *env) isOver(s chunk.Session) bool {
	snap, err := w.Reader.Snapshot(w.t.Context(), s)
	return err == nil && snap.Status == fold.Ended
}

// awaitOver follows a session to its end, across clean-ups.
func (w *env) awaitOver(ctx context.Context, s chunk.Session) error {
	for {
		for rec, err := range w.Log.Follow(ctx, chunk.Range{Session: s}) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				break // a clean-up during the read: read again
			}
			if rec.Type.Terminal() {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// twoSteps writes two steps. crash is called in the step of that number, after its text is stored.
func twoSteps(step int, crash func()) map[string]Agent {
	return map[string]Agent{"two": AgentFunc(func(ctx context.Context, t *Turn) error {
		for n := t.Steps() + 1; n <= 2; n++ {
			err := t.Step(ctx, func(ctx context.Context, s *Step) error {
				if err := s.Text(ctx, fmt.Sprintf("Step %d. ", n)); err != nil || n != step {
					return err
				}
				if _, err := t.run.Flush(ctx); err != nil {
					return err
				}
				crash()
				return errors.New("crashed")
			})
			if err != nil {
				return err
			}
		}
		return nil
	})}
}

// crashIn runs a command in a worker that crashes in a step.
func (w *env) crashIn(c control.Command, step int) {
	w.t.Helper()
	var p *process
	p = w.worker(twoSteps(step, func() { p.Kill() }))
	if err := p.do(w.t.Context(), c); err == nil {
		w.t.Fatal("worker completed the run without a connection")
	}
}

// After a takeover readers get the truncation record, and a stream_resync if there is a checkpoint.
func TestResyncAfterTakeover(t *testing.T) {
	w := newEnv(t)
	for step, wantResyncs := range map[int]int{1: 0, 2: 1} {
		c := execute(uniqueName("s"), "two", "Hello?")
		w.crashIn(c, step)
		if err := w.worker(twoSteps(0, nil)).do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got, want := transcript(w.Snapshot(c.Session)), "user: Hello?\nassistant: Step 1. \nassistant: Step 2. "; got != want {
			t.Errorf("crash in step %d: got\n%s\nwant\n%s", step, got, want)
		}
		want := chunk.StreamResync{StepCount: 1, MessageCount: 2, Reason: "crash_recovery"}
		truncations, resyncs := 0, 0
		for _, rec := range w.Records(c.Session) {
			decoded, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			switch b := decoded.Body.(type) {
			case chunk.Truncated:
				truncations++
				want.FromSequence = int64(rec.Seq)
			case chunk.StepCommitted:
				if want.CheckpointID == "" {
					want.CheckpointID = b.CheckpointID
				}
			case chunk.StreamResync:
				resyncs++
				if b != want {
					t.Errorf("resync %+v, want %+v", b, want)
				}
			}
		}
		if truncations != 1 || resyncs != wantResyncs {
			t.Errorf("crash in step %d: %d truncations, %d resyncs, want 1 and %d", step, truncations, resyncs, wantResyncs)
		}
	}
}

// A session runs one command at a time: the next one is retried while a run is active.
func TestBusySession(t *testing.T) {
	w := newEnv(t)
	first := execute(uniqueName("s"), "two", "First.")
	second := execute(first.Session.ID, "two", "Second.")
	second.RunID = "r2"
	w.crashIn(first, 2)
	p := w.worker(twoSteps(0, nil))
	if err := p.handle(t.Context(), second); !errors.Is(err, errBusy) {
		t.Fatalf("err = %v, want errBusy", err)
	}
	for _, c := range []control.Command{first, second} {
		if err := p.do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	const want = "user: First.\nassistant: Step 1. \nassistant: Step 2. \nuser: Second.\nassistant: Step 1. \nassistant: Step 2. "
	if got := transcript(w.Snapshot(first.Session)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
