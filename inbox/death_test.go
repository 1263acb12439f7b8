package inbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/seedtest"
)

// errDied is the end of a process in the middle of what it was doing.
var errDied = errors.New("died")

// paused is a run that waits for three calls, and what became of it.
type paused struct {
	session chunk.Session
	run     string

	mu      sync.Mutex // guards everything below
	winners map[string]Answer
	resumed int // handlers of its resume that came to their end
}

var calls = []string{"client", "approval", "child"}

// stage is where many runs wait, many people answer, and everybody may die.
type stage struct {
	*testing.T

	box   *Box
	queue *commands.Queue
	runs  []*paused
	done  chan struct{} // one for each run that was resumed for the first time

	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func (s *stage) rand(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *stage) dies() bool { return s.rand(4) == 0 }

// answer is one process: it stores an answer, looks whether that was the last,
// and asks for the run to be resumed. It may die between any two of these.
func (s *stage) answer(ctx context.Context, p *paused, a Answer) error {
	if s.dies() {
		return errDied
	}
	a.Session, a.RunID = p.session, p.run
	err := s.box.Answer(ctx, a)
	var first *AnsweredError
	switch {
	case err == nil:
		p.accept(s.T, a)
	case errors.As(err, &first):
		p.heard(s.T, first.Answer)
	default:
		return err
	}
	if s.dies() {
		return errDied
	}
	return s.wake(ctx, p)
}

// wake resumes the run if all is answered. Whoever does it again does no harm.
func (s *stage) wake(ctx context.Context, p *paused) error {
	all, err := s.box.Answers(ctx, p.session, p.run)
	if err != nil || len(all) < len(calls) || p.isResumed() {
		return err
	}
	if s.dies() {
		return errDied
	}
	return s.queue.Request(ctx, commands.Command{
		Kind: commands.Resume, Session: p.session, AgentType: "support", RunID: commands.ResumeRunID(p.run), Resumes: p.run, Mode: "continue",
	}, 0)
}

// handle is a worker. It may die as well; then the command comes again.
func (s *stage) handle(ctx context.Context, c commands.Command) error {
	for _, p := range s.runs {
		if p.session != c.Session {
			continue
		}
		if s.dies() {
			return commands.Later(0, errDied)
		}
		if c.Kind == commands.Expire {
			return s.expire(ctx, p)
		}
		return s.resume(ctx, p, c)
	}
	s.Errorf("a command of nobody: %+v", c)
	return nil
}

func (s *stage) expire(ctx context.Context, p *paused) error {
	for _, call := range calls {
		a := given(call, "")
		a.Result, a.Approved, a.Error, a.ErrorCode = nil, false, "too late", "client_tool_deadline_exceeded"
		if err := s.answer(ctx, p, a); err != nil && !errors.Is(err, commands.ErrBusy) {
			return commands.Later(0, err)
		}
	}
	if err := s.wake(ctx, p); err != nil {
		return commands.Later(0, err)
	}
	return nil
}

func (s *stage) resume(ctx context.Context, p *paused, c commands.Command) error {
	all, err := s.box.Answers(ctx, p.session, p.run)
	if err != nil {
		return err
	}
	if len(all) != len(calls) || c.Resumes != p.run {
		s.Errorf("run %s is resumed by %+v with %d answers", p.run, c, len(all))
	}
	if s.dies() {
		return commands.Later(0, errDied)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed++; p.resumed == 1 {
		s.done <- struct{}{}
	}
	return nil
}

func (p *paused) isResumed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed > 0
}

func (p *paused) accept(t *testing.T, a Answer) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.winners[a.CallID]; ok {
		t.Errorf("run %s: %+v and %+v were accepted", p.run, before, a)
	}
	p.winners[a.CallID] = a
}

// heard notes what a loser was told. The winner may not have heard himself yet.
func (p *paused) heard(t *testing.T, a Answer) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if winner, ok := p.winners[a.CallID]; ok && winner.Reason != a.Reason {
		t.Errorf("run %s: told %+v, accepted was %+v", p.run, a, winner)
	}
}

// given is what somebody says to a call.
func given(call, who string) Answer {
	a := Answer{CallID: call, Kind: ClientResult, Reason: who, Result: chunk.Value("1")}
	switch call {
	case "approval":
		a.Kind, a.ApprovalID, a.Approved, a.Result = Approval, "a", true, nil
	case "child":
		a.Kind = SubagentResult
	}
	return a
}

// Forty runs wait for three calls each. Many answer, and each process, workers
// and deadlines included, dies now and then between any two of its steps; the
// server is restarted, too. In the end each call has the one answer that was
// accepted, and each run is resumed with all of them.
func TestDeathBetweenAnySteps(t *testing.T) {
	const runs, people = 40, 10
	srv := start(t)
	queue, err := commands.New(srv.JetStream(t), commands.Config{AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		T: t, box: newBox(t, srv.JetStream(t), Config{}), queue: queue,
		done: make(chan struct{}, runs), rng: seedtest.Rand(t),
	}
	for i := range runs {
		p := &paused{session: chunk.RootSession("acme", fmt.Sprint("s", i)), run: fmt.Sprint("run-", i), winners: map[string]Answer{}}
		s.runs = append(s.runs, p)
		deadline := commands.Command{Kind: commands.Expire, Session: p.session, AgentType: "support", RunID: p.run}
		if err := queue.PublishAt(t.Context(), deadline, time.Now().Add(time.Duration(500+s.rand(2500))*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	serving, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- queue.Serve(serving, []string{"support"}, s.handle) }()

	var all sync.WaitGroup
	for who := range people {
		all.Go(func() {
			for i := range 2 * runs {
				p := s.runs[s.rand(runs)]
				err := s.answer(t.Context(), p, given(calls[s.rand(len(calls))], fmt.Sprintf("%d-%d", who, i)))
				if err != nil && !errors.Is(err, errDied) {
					t.Error(err)
				}
			}
		})
	}
	srv.Restart(t)
	for range runs {
		natstest.Receive(t, "a run to be resumed", s.done)
	}
	all.Wait()
	natstest.Await(t, "the queue to be empty", func(ctx context.Context) error {
		for _, name := range []string{"TR_COMMANDS", "TR_DEADLINES"} {
			stream, err := s.box.js.Stream(ctx, name)
			if err != nil {
				return err
			}
			if n := stream.CachedInfo().State.Msgs; n != 0 {
				return fmt.Errorf("%s has %d", name, n)
			}
		}
		return nil
	})
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for _, p := range s.runs {
		s.check(p)
	}
}

func (s *stage) check(p *paused) {
	s.Helper()
	all, err := s.box.Answers(s.Context(), p.session, p.run)
	if err != nil || len(all) != len(calls) {
		s.Errorf("run %s: %d answers, %v", p.run, len(all), err)
	}
	for _, a := range all {
		want := p.winners[a.CallID]
		if want.At = a.At; !reflect.DeepEqual(a, want) {
			s.Errorf("run %s: stored %+v, accepted %+v", p.run, a, want)
		}
	}
}
