package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jsusage"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
)

// spend is an agent with steps of 60 tokens each. The cached tokens are part of the input.
func spend(steps int) Agent {
	return AgentFunc(func(ctx context.Context, t *Turn) error {
		for t.Steps() < steps {
			if err := t.Step(ctx, func(ctx context.Context, s *Step) error {
				return errors.Join(s.Text(ctx, "."), s.Usage(chunk.Usage{InputTokens: "40", OutputTokens: "20", CachedTokens: new(chunk.Number("30"))}))
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitUsage waits until the usage records are these, as "tenant day tokens", in alphabetical order.
func (w *env) awaitUsage(want ...string) {
	w.t.Helper()
	store, err := jsusage.NewStore(w.NewProcess(natsauth.Operator).JS, subjects.Layout{})
	if err != nil {
		w.t.Fatal(err)
	}
	natstest.Eventually(w.t, fmt.Sprint("usage ", want), func(ctx context.Context) error {
		var got []string
		for e, err := range store.List(ctx, "") {
			if err := errors.Join(err, e.Err); err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%s %s %d", e.Tenant, e.Day.Format(time.DateOnly), e.Tokens))
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			return fmt.Errorf("usage %q", got)
		}
		return nil
	})
}

// execTenant is execute for another tenant.
func execTenant(tenant, agent string) control.Command {
	c := execute(uniqueName("s"), agent, "Continue.")
	c.Session = chunk.RootSession(tenant, c.Session.ID)
	return c
}

func (w *env) wantOverBudget(s chunk.Session, steps int64) {
	w.t.Helper()
	snap := w.AwaitStatus(s, fold.Failed)
	if d := snap.Failure.Detail; *d.Code != CodeTokenBudget || *d.Category != "framework" || *d.Retryable || strings.Contains(snap.Failure.Message, "120") || snap.Run.Step != steps {
		w.t.Errorf("failure %q %s, want one over budget after step %d, is after %d", snap.Failure.Message, *d.Code, steps, snap.Run.Step)
	}
}

// A run over the budget of its tenant fails at its next step and keeps its output; the next run of the tenant, in another process, at its first. The command is not
// repeated. Other tenants and the next day have budgets of their own.
func TestTokenBudget(t *testing.T) {
	w := newEnv(t)
	var now atomic.Int64
	day := time.Date(2026, 11, 25, 23, 59, 59, 0, time.UTC)
	now.Store(day.UnixNano())
	w.now = func() time.Time { return time.Unix(0, now.Load()) }
	w.tokensPerDay = func(tenant string) int64 { return map[string]int64{"acme": 100, "globex": 1000}[tenant] }
	w.serve(w.worker(map[string]Agent{"one": spend(5)}))
	w.serve(w.worker(map[string]Agent{"two": spend(5)}))

	c := execTenant("acme", "one")
	w.Request(c)
	w.wantOverBudget(c.Session, 2)
	w.awaitNoCommand(c)
	w.awaitUsage("acme 2026-11-25 120")

	c = execTenant("acme", "two")
	w.Request(c)
	w.wantOverBudget(c.Session, 0)
	w.awaitNoCommand(c)
	for _, tenant := range []string{"globex", "initech"} { // initech has no budget
		c = execTenant(tenant, "two")
		w.Request(c)
		w.AwaitStatus(c.Session, fold.Ended)
	}
	w.awaitUsage("acme 2026-11-25 120", "globex 2026-11-25 300", "initech 2026-11-25 300")

	now.Store(day.Add(time.Second).UnixNano())
	c = execTenant("acme", "two")
	w.Request(c)
	w.wantOverBudget(c.Session, 2)
	w.awaitUsage("acme 2026-11-25 120", "acme 2026-11-26 120", "globex 2026-11-25 300", "initech 2026-11-25 300")
}

// The tokens of a step that fails, that is repeated, that panics and that reports its usage twice are those that it has used.
func TestTokensOfFailedSteps(t *testing.T) {
	w := newEnv(t)
	w.now = func() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }
	w.serve(w.worker(map[string]Agent{"clumsy": AgentFunc(func(ctx context.Context, turn *Turn) error {
		if err := turn.Step(ctx, func(_ context.Context, s *Step) error { return errors.Join(use(s, "1", "2"), errors.New("busy")) }); err == nil {
			t.Error("the step is committed")
		}
		if err := turn.Step(ctx, func(_ context.Context, s *Step) error { return errors.Join(use(s, "1000", "0"), use(s, "10", "20")) }); err != nil {
			return err
		}
		return turn.Step(ctx, func(_ context.Context, s *Step) error { panic(use(s, "100.9", "2e2")) })
	})}))
	c := execTenant("acme", "clumsy")
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Failed)
	w.awaitUsage("acme 2026-11-25 333")
}

// While the bucket of used tokens is missing, runs continue, and what they use is counted when it is back.
func TestUsageUnavailable(t *testing.T) {
	w := newEnv(t)
	w.now = func() time.Time { return time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC) }
	w.tokensPerDay = func(string) int64 { return 200 }
	operator := w.NewProcess(natsauth.Operator).JS
	if err := operator.DeleteStream(t.Context(), "KV_TR_USAGE"); err != nil {
		t.Fatal(err)
	}
	p := w.serve(w.worker(map[string]Agent{"one": spend(3)}))
	c := execTenant("acme", "one")
	w.Request(c)
	w.AwaitStatus(c.Session, fold.Ended)
	if n := p.UnstoredTokens(); n != 180 {
		t.Errorf("%d tokens are unstored", n)
	}
	streamtest.Ensure(t, operator, topology.Config{})
	w.awaitUsage("acme 2026-11-25 180")
	c = execTenant("acme", "one")
	w.Request(c)
	w.wantOverBudget(c.Session, 1)
}

// A number of tokens is not negative, and that of a mistake is bounded.
func TestTokens(t *testing.T) {
	for n, want := range map[chunk.Number]int64{"": 0, "7": 7, "-3": 0, "1.9": 1, "1e3": 1000, "9223372036854775807": maxStepTokens, "1e308": maxStepTokens} {
		if got := tokens(n); got != want {
			t.Errorf("%s: %d, want %d", n, got, want)
		}
	}
}
