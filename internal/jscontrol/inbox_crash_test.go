package jscontrol

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
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// errCrashed simulates a crash of a process.
var errCrashed = errors.New("crashed")

// paused is a run that waits for three calls, with the accepted answers.
type paused struct {
	session chunk.Session
	run     string

	mu      sync.Mutex // guards the fields below
	winners map[string]control.Answer
	resumed int // completed handlers of its resume
}

var calls = []string{"client", "approval", "child"}

// env has many suspended runs and many clients that answer. Each process may crash.
type env struct {
	*testing.T

	box   *Inbox
	queue *Queue
	runs  []*paused
	done  chan struct{} // one for each run that was resumed for the first time

	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func (s *env) rand(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *env) crashes() bool { return s.rand(4) == 0 }

// answer is one process: it stores an answer, checks whether it was the last, and requests a resume. It may crash between any two steps.
func (s *env) answer(ctx context.Context, p *paused, a control.Answer) error {
	if s.crashes() {
		return errCrashed
	}
	a.Session, a.RunID = p.session, p.run
	err := s.box.Answer(ctx, a)
	var first *control.AnsweredError
	switch {
	case err == nil:
		p.accept(s.T, a)
	case errors.As(err, &first):
		p.checkRefused(s.T, first.Answer)
	default:
		return err
	}
	if s.crashes() {
		return errCrashed
	}
	return s.requestResume(ctx, p)
}

// requestResume requests a resume if all calls have answers. A repetition is harmless.
func (s *env) requestResume(ctx context.Context, p *paused) error {
	all, err := s.box.Answers(ctx, p.session, p.run)
	if err != nil || len(all) < len(calls) || p.isResumed() {
		return err
	}
	if s.crashes() {
		return errCrashed
	}
	return s.queue.Request(ctx, control.Command{
		Kind: control.Resume, Session: p.session, AgentType: "support", RunID: control.ResumeRunID(p.run), Resumes: p.run, Mode: "continue",
	}, 0)
}

// handle is a worker. It may crash as well; then the command is redelivered.
func (s *env) handle(ctx context.Context, c control.Command) error {
	for _, p := range s.runs {
		if p.session != c.Session {
			continue
		}
		if s.crashes() {
			return control.RetryAfter(0, errCrashed)
		}
		if c.Kind == control.Expire {
			return s.expire(ctx, p)
		}
		return s.resume(ctx, p, c)
	}
	s.Errorf("a command of an unknown session: %+v", c)
	return nil
}

func (s *env) expire(ctx context.Context, p *paused) error {
	for _, call := range calls {
		a := given(call, "")
		a.Result, a.Approved, a.Error, a.ErrorCode = nil, false, "too late", "client_tool_deadline_exceeded"
		if err := s.answer(ctx, p, a); err != nil && !errors.Is(err, control.ErrBusy) {
			return control.RetryAfter(0, err)
		}
	}
	if err := s.requestResume(ctx, p); err != nil {
		return control.RetryAfter(0, err)
	}
	return nil
}

func (s *env) resume(ctx context.Context, p *paused, c control.Command) error {
	all, err := s.box.Answers(ctx, p.session, p.run)
	if err != nil {
		return err
	}
	if len(all) != len(calls) || c.Resumes != p.run {
		s.Errorf("run %s is resumed by %+v with %d answers", p.run, c, len(all))
	}
	if s.crashes() {
		return control.RetryAfter(0, errCrashed)
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

func (p *paused) accept(t *testing.T, a control.Answer) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, ok := p.winners[a.CallID]; ok {
		t.Errorf("run %s: %+v and %+v were accepted", p.run, before, a)
	}
	p.winners[a.CallID] = a
}

// checkRefused compares the answer in the error of a rejected client with the accepted one. The client of the accepted answer may not have its response yet.
func (p *paused) checkRefused(t *testing.T, a control.Answer) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if winner, ok := p.winners[a.CallID]; ok && winner.Reason != a.Reason {
		t.Errorf("run %s: refused with %+v, accepted was %+v", p.run, a, winner)
	}
}

// given returns an answer to a call.
func given(call, reason string) control.Answer {
	a := control.Answer{CallID: call, Kind: control.ClientResult, Reason: reason, Result: chunk.Value("1")}
	switch call {
	case "approval":
		a.Kind, a.ApprovalID, a.Approved, a.Result = control.Approval, "a", true, nil
	case "child":
		a.Kind = control.SubagentResult
	}
	return a
}

// Forty runs wait for three calls each. Many clients answer, and each process, including workers and deadlines, may crash between any two steps; the server is
// restarted, too. In the end each call has the one accepted answer, and each run is resumed with all of them.
func TestCrashBetweenAnySteps(t *testing.T) {
	const runs, clients = 40, 10
	srv := streamtest.Start(t)
	queue, err := NewQueue(srv.JetStream(t), QueueConfig{AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := &env{
		T: t, box: newInbox(t, srv.JetStream(t), InboxConfig{}), queue: queue,
		done: make(chan struct{}, runs), rng: seedtest.Rand(t),
	}
	for i := range runs {
		p := &paused{session: chunk.RootSession("acme", fmt.Sprint("s", i)), run: fmt.Sprint("run-", i), winners: map[string]control.Answer{}}
		s.runs = append(s.runs, p)
		deadline := control.Command{Kind: control.Expire, Session: p.session, AgentType: "support", RunID: p.run}
		if err := queue.PublishAt(t.Context(), deadline, time.Now().Add(time.Duration(500+s.rand(2500))*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	serving, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- queue.Serve(serving, []string{"support"}, s.handle) }()

	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for i := range 2 * runs {
				p := s.runs[s.rand(runs)]
				err := s.answer(t.Context(), p, given(calls[s.rand(len(calls))], fmt.Sprintf("%d-%d", client, i)))
				if err != nil && !errors.Is(err, errCrashed) {
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
	natstest.Eventually(t, "the queue to be empty", func(ctx context.Context) error {
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

func (s *env) check(p *paused) {
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
