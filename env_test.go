package tailrace_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// env is a server without streams.
type env struct {
	*natstest.Server

	t *testing.T
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{natstest.Start(t), t}
}

// open opens a Tailrace over a connection of its own, which is closed with the test, and creates the streams.
func (e *env) open(cfg tailrace.Config) *tailrace.Tailrace {
	e.t.Helper()
	cfg.Create = true
	tr, err := tailrace.Open(e.t.Context(), e.JetStream(e.t), cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			e.t.Error(err)
		}
	})
	return tr
}

// run runs roles until the test ends or stop is called, and fails the test if Run returns an error.
func (e *env) run(tr *tailrace.Tailrace, roles ...tailrace.Role) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := tr.Run(ctx, roles...); err != nil {
			e.t.Errorf("Run: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	e.t.Cleanup(stop)
	return stop
}

// echo is an agent that repeats its input.
func echo(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		s.MarkFinal()
		return s.Text(ctx, "You said: "+t.Input()[0].Content)
	})
}

// asker is an agent that asks for the result of a tool of the browser, and ends with it.
func asker(ctx context.Context, t *workers.Turn) error {
	return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
		last := t.Messages()[len(t.Messages())-1]
		if calls := last.Calls(); len(calls) > 0 {
			s.MarkFinal()
			return s.Text(ctx, "done")
		}
		return s.Tool("c1", "browser").AskClient(ctx, map[string]any{}, time.Time{})
	})
}

// follow returns the records of a session after a position until it is complete.
func (e *env) follow(tr *tailrace.Tailrace, id string, after chunk.Position) (records []chunk.Record) {
	e.t.Helper()
	for rec, err := range tr.Follow(e.t.Context(), id, after) {
		if err != nil {
			e.t.Fatal(err)
		}
		records = append(records, rec)
	}
	return records
}

// awaitPhase waits until the latest run of a session is in a phase.
func (e *env) awaitPhase(tr *tailrace.Tailrace, id string, want any) {
	e.t.Helper()
	natstest.Eventually(e.t, fmt.Sprintf("phase %v", want), func(ctx context.Context) error {
		status, err := tr.Status(ctx, id)
		if err == nil && any(status.Phase) != want {
			err = fmt.Errorf("phase %v", status.Phase)
		}
		return err
	})
}

// text returns the text deltas of records.
func text(t *testing.T, records []chunk.Record) (all string) {
	t.Helper()
	for _, rec := range records {
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if delta, ok := chunk.As[chunk.TextDelta](c); ok {
			all += delta.Delta
		}
	}
	return all
}

func reasonOf(err error) tailrace.Reason {
	if refused, ok := errors.AsType[*tailrace.Error](err); ok {
		return refused.Reason
	}
	return ""
}
