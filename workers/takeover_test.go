package workers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/projector/fold"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// talker says n steps of words and tools, all of it a function of the step, and
// asks everybody in the middle. It keeps nothing: what it does next it reads from
// the turn.
func talker(steps int, effects *effects) map[string]Agent {
	answer := AgentFunc(func(ctx context.Context, t *Turn) error {
		for n := t.Steps() + 1; n <= steps; n++ {
			err := t.Step(ctx, func(ctx context.Context, s *Step) error { return talk(ctx, s, n, steps, effects) })
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

func talk(ctx context.Context, s *Step, n, steps int, effects *effects) error {
	for _, call := range s.Granted() {
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
	s.Usage(chunk.Usage{InputTokens: "1", OutputTokens: "1"})
	switch {
	case n == steps:
		s.Final()
	case n%3 == 2:
		return errors.Join(
			s.Tool("where", "location").AskClient(ctx, map[string]any{"n": n}, time.Time{}),
			s.Tool("may", "permission").AskApproval(ctx, map[string]any{"n": n}, time.Time{}),
			s.Tool("help", SubagentTool("helper")).Delegate(ctx, map[string]any{"message": fmt.Sprint("about ", n)}),
		)
	}
	return nil
}

// effects counts what happened outside of the log, by idempotency key.
type effects struct {
	mu   sync.Mutex
	keys map[string]int
}

func (e *effects) happen(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keys == nil {
		e.keys = map[string]int{}
	}
	e.keys[key]++
}

// person answers whatever a session asks, until it has ended or ctx ends.
func (w *world) person(ctx context.Context, s chunk.Session, agent string) {
	for ctx.Err() == nil {
		for rec, err := range w.log.Follow(ctx, s, chunk.Position{}, consumers.KeepOpen()) {
			if err != nil {
				break // not begun, or a clean-up under the reader
			}
			if rec.Type.Terminal() {
				return
			}
			if rec.Type != chunk.TypeStreamPaused {
				continue
			}
			if err := w.answerAll(ctx, s, agent); err != nil && ctx.Err() == nil {
				w.t.Errorf("a person: %v", err)
			}
		}
	}
}

func (w *world) answerAll(ctx context.Context, s chunk.Session, agent string) error {
	snap, err := w.reader.Snapshot(ctx, s)
	if err != nil || snap.Run.Status != fold.RunSuspended {
		return err
	}
	for _, p := range snap.Pending {
		a := inbox.Answer{Session: s, RunID: p.RunID, CallID: p.CallID, Kind: inbox.ClientResult, Result: chunk.Value(`"yes"`)}
		if p.Kind == fold.PendingApproval {
			a = inbox.Answer{Session: s, RunID: p.RunID, CallID: p.CallID, Kind: inbox.Approval, ApprovalID: p.ApprovalID, Approved: true}
		}
		if err := w.inbox.Answer(ctx, a); err != nil && !errors.Is(err, inbox.ErrAnswered) {
			return err
		}
	}
	answers, err := w.inbox.Answers(ctx, s, snap.Run.ID)
	if err != nil || len(answers) < len(waiting(snap, snap.Run.ID)) {
		return err // the sub-agent's worker will ask for the rest
	}
	c := commands.Command{Kind: commands.Resume, Session: s, AgentType: agent, RunID: commands.ResumeRunID(snap.Run.ID), Resumes: snap.Run.ID}
	err = w.queue.Request(ctx, c, 0)
	if busy, ok := errors.AsType[*commands.BusyError](err); ok && busy.Command.RunID == snap.Run.ID {
		err = w.queue.Request(ctx, c, busy.Revision)
	}
	if errors.Is(err, commands.ErrBusy) {
		return nil // somebody has asked
	}
	return err
}

var checkpointIDs = regexp.MustCompile(`cpv1-[A-Za-z0-9_-]+-s(\d+)-t\d+-[0-9a-f]{6}`)

// story is what a snapshot tells that must not depend on who died when.
func story(snap fold.Snapshot) string {
	f := snap.Frontend(true, 0)
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

// Workers are killed again and again, each after a random number of messages:
// within a text, between a checkpoint and its commit, between a commit and the
// pause, between the pause and the sub-agents, among the answers, in a clean-up.
// The conversation that comes out is the one of an undisturbed run.
func TestKilledAnywhere(t *testing.T) {
	random := seeded(t)
	const steps = 6
	w := newWorld(t)
	w.maxDelta = 1
	calm, calmEffects := execute("calm", "talker", "Talk!"), &effects{}
	w.play(calm, talker(steps, calmEffects), nil)
	want := story(w.snapshot(calm.Session))
	if !strings.Contains(want, "6.5") || len(calmEffects.keys) != 8 {
		t.Fatalf("the undisturbed run says\n%s\n%v", want, calmEffects.keys)
	}
	kills := 0
	for round := range 4 {
		s, did := fmt.Sprint("s", round), &effects{}
		c := execute(s, "talker", "Talk!")
		kills += w.play(c, talker(steps, did), random)
		got := strings.ReplaceAll(story(w.snapshot(c.Session)), s, "calm")
		got, want := childNames.ReplaceAllString(got, "sub-"), childNames.ReplaceAllString(want, "sub-")
		if got != want {
			t.Fatalf("round %d: got\n%s\nwant\n%s", round, got, want)
		}
		if len(did.keys) != len(calmEffects.keys) {
			t.Errorf("round %d: %d effects by their keys, want %d", round, len(did.keys), len(calmEffects.keys))
		}
		for i, b := range w.bodies(c.Session) {
			if _, ok := b.(chunk.StreamFailed); ok {
				t.Errorf("record %d: a failure", i)
			}
		}
	}
	t.Logf("%d kills", kills)
	if kills < 4 {
		t.Errorf("only %d kills: nothing is proven", kills)
	}
}

var childNames = regexp.MustCompile(`sub-[0-9a-f]{32}`)

// play has workers do a command to the end of its session, with people who
// answer. With a random source it kills one worker after the other.
func (w *world) play(c commands.Command, agents map[string]Agent, random *rand.Rand) (kills int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.request(c)
	var people sync.WaitGroup
	people.Go(func() { w.person(ctx, c.Session, c.AgentType) })
	for random != nil && kills < 6 {
		p := w.serve(w.worker(agents))
		dead := w.killAfter(p, 1+random.IntN(40))
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = w.awaitOver(ctx, c.Session)
		}()
		select {
		case <-dead:
			kills++
		case <-over:
		}
		p.stop()
		if w.isOver(c.Session) {
			break
		}
	}
	last := w.serve(w.worker(agents))
	if err := w.awaitOver(ctx, c.Session); err != nil {
		w.t.Fatalf("the last worker: %v\n%s", err, told(w.snapshot(c.Session)))
	}
	people.Wait()
	last.end()
	return kills
}

func (w *world) isOver(s chunk.Session) bool {
	snap, err := w.reader.Snapshot(w.t.Context(), s)
	return err == nil && snap.Status == fold.Ended
}

// awaitOver follows a session to its end, over clean-ups.
func (w *world) awaitOver(ctx context.Context, s chunk.Session) error {
	for {
		for rec, err := range w.log.Follow(ctx, s, chunk.Position{}) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				break // a clean-up under the reader: it begins again
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
