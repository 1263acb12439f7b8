package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/subjects"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// writer writes records to the log.
type writer struct {
	t    *testing.T
	js   jetstream.JetStream
	last map[chunk.Session]chunk.Ordinal
}

func (w *writer) put(s chunk.Session, epoch chunk.Epoch, body chunk.Body) {
	w.t.Helper()
	w.last[s]++
	msg := streamtest.Message(w.t, subjects.Layout{}, codec.Envelope{Session: s, Epoch: epoch, Ordinal: w.last[s]}, body)
	if _, err := w.js.PublishMsg(w.t.Context(), msg); err != nil {
		w.t.Fatal(err)
	}
}

// unreachable is a store that is away after its first commit.
type unreachable struct{ memory }

func (u *unreachable) Begin(ctx context.Context, partitions int) ([]row.Position, error) {
	u.mu.Lock()
	commits := u.commits
	u.mu.Unlock()
	if commits > 1 {
		return nil, errStore
	}
	return u.memory.Begin(ctx, partitions)
}

// While the store is away, the failures are counted and the lag rises.
func TestMetricsWhileTheStoreIsAway(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	st := &unreachable{memory{fails: func(n int) failure { return []failure{succeeds, storesNothing}[min(n-1, 1)] }}}
	reg := prometheus.NewRegistry()
	metrics, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := New(js, Config{Store: st, Every: time.Millisecond, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- sink.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	s := chunk.RootSession("acme", "s1")
	w.put(s, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	natstest.Eventually(t, "a batch", func(context.Context) error {
		if stored := sample(t, reg, "tailrace_sink_commits_total", "stored"); stored != 1 {
			return fmt.Errorf("%v batches stored", stored)
		}
		return nil
	})
	w.put(s, 1, chunk.StreamEnd{StreamID: s.ID})
	var first float64
	natstest.Eventually(t, "failures and a lag", func(context.Context) error {
		failed, lag := sample(t, reg, "tailrace_sink_commits_total", "failed"), sample(t, reg, "tailrace_sink_lag_seconds", "0")
		if first == 0 {
			first = lag
		}
		if failed < 3 || lag <= first {
			return fmt.Errorf("%v failures, a lag of %v s after %v s", failed, lag, first)
		}
		return nil
	})
}

// A sink that has forgotten a tree reads it again, also when the log has lost records in its middle.
func TestTreeWithAGap(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	root, other := chunk.RootSession("acme", "s1"), chunk.RootSession("acme", "s2")
	child := root.Child("c1")
	w.put(root, 1, chunk.RunStarted{RunID: "r1", Epoch: 1, Mode: "execute"})
	w.put(other, 1, chunk.RunStarted{RunID: "r2", Epoch: 1, Mode: "execute"})
	for n := range 3 {
		w.last[root]++ // lost
		w.put(root, 1, chunk.ToolStart{ToolCallID: fmt.Sprint("t", n), ToolName: "search", Arguments: chunk.Value(`{}`)})
		w.put(child, 1, chunk.RunStarted{RunID: fmt.Sprint("c", n), Epoch: 1, Mode: "execute"})
		w.last[child]++
		w.put(other, 1, chunk.StepStart{})
		w.put(child, 1, chunk.StreamEnd{StreamID: child.ID})
		w.put(root, 1, chunk.ToolEnd{ToolCallID: fmt.Sprint("t", n), ToolName: "search", Result: chunk.Value(`1`)})
		w.put(other, 1, chunk.StepEnd{})
	}
	w.put(root, 1, chunk.StreamEnd{StreamID: root.ID})
	var rows [2][]row.Observation
	for i, bytes := range []int{1 << 20, 1} {
		store := &memory{}
		sink, err := New(js, Config{Store: store, NoFollow: true, Observe: observe.Config{Memory: bytes}})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows[i] = store.rows
	}
	if diff := cmp.Diff(rows[0], rows[1]); diff != "" || len(rows[0]) == 0 {
		t.Errorf("%d rows (- with memory, + without):\n%s", len(rows[0]), diff)
	}
}

// A record whose rows cannot be computed is a gap, as the later ones of its tree are. It stops no other session.
func TestRecordThatCannotBeFolded(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	bad, good := chunk.RootSession("acme", "bad"), chunk.RootSession("acme", "good")
	for _, s := range []chunk.Session{bad, good} {
		w.put(s, 1, chunk.RunStarted{RunID: s.ID, Epoch: 1, Mode: "execute"})
		w.put(s, 1, chunk.StepStart{})
		w.put(s, 1, chunk.StepEnd{Model: new(s.ID), Usage: &chunk.Usage{InputTokens: "1", OutputTokens: "1"}})
	}
	w.put(bad, 1, chunk.StepStart{})
	w.put(good, 1, chunk.StreamEnd{StreamID: good.ID})
	fault := func(p observe.Priced) (row.Money, string, bool) {
		if p.Model == bad.ID {
			panic("fault of the test")
		}
		return 0, "", false
	}
	store := &memory{}
	sink, err := New(js, Config{Store: store, NoFollow: true, Observe: observe.Config{Price: fault}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var skipped []int64
	for _, g := range store.gaps {
		if g.Reason == row.Malformed && g.Root == bad.Root {
			skipped = append(skipped, *g.FromSeq)
		}
	}
	if diff := cmp.Diff([]int64{3, 7}, skipped); diff != "" || len(store.gaps) != 2 {
		t.Errorf("gaps %+v:\n%s", store.gaps, diff)
	}
	last := store.rows[len(store.rows)-1]
	if last.Root != good.Root || last.Kind != row.Run || last.Status != row.Completed || len(store.events) != 6 {
		t.Errorf("%d events, the last row is %+v", len(store.events), last)
	}
}

// away is a store that never begins.
type away struct {
	memory

	err error
}

func (a *away) Begin(context.Context, int) ([]row.Position, error) { return nil, a.err }

// A job whose store is away ends with the error of the store; a sink that follows has a lag from its start on.
func TestStoreThatIsAway(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	reg := prometheus.NewRegistry()
	metrics, err := NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := New(js, Config{Store: &away{err: errStore}, NoFollow: true, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	sink.giveUp = 100 * time.Millisecond
	if err := sink.Run(t.Context()); !errors.Is(err, errStore) {
		t.Errorf("the job ended with %v", err)
	}
	if lag := sample(t, reg, "tailrace_sink_lag_seconds", "0"); lag <= 0 {
		t.Errorf("the lag is %v s", lag)
	}
	if sink, err = New(js, Config{Store: &away{err: row.ErrOtherTenant}}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Run(t.Context()); !errors.Is(err, row.ErrOtherTenant) {
		t.Errorf("a sink of another tenant ended with %v", err)
	}
}

// The lag of a sink of one tenant is that of the records of this tenant.
func TestLagOfATenant(t *testing.T) {
	js := streamtest.Start(t).JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	sink, err := New(js, Config{Store: &memory{}, Tenant: "acme", NoFollow: true})
	if err != nil {
		t.Fatal(err)
	}
	w.put(chunk.RootSession("acme", "s1"), 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	if err := sink.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.put(chunk.RootSession("other", "s1"), 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute"})
	if behind, age, err := sink.parts[0].lag(t.Context()); behind != 0 || age != 0 || err != nil {
		t.Errorf("%d messages, %v behind, %v; only another tenant has written", behind, age, err)
	}
	w.put(chunk.RootSession("acme", "s1"), 1, chunk.StreamEnd{StreamID: "s1"})
	if behind, age, err := sink.parts[0].lag(t.Context()); behind != 2 || age <= 0 || err != nil {
		t.Errorf("%d messages, %v behind, %v, want 2", behind, age, err)
	}
}

// sample returns the value of a metric whose only label has a value, 0 if there is none.
func sample(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestCopy(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	w := &writer{t, js, map[chunk.Session]chunk.Ordinal{}}
	for i := range 20 {
		s := chunk.RootSession("acme", fmt.Sprint("s", i))
		w.put(s, 1, chunk.RunStarted{RunID: "r", Epoch: 1, Mode: "execute", Input: []chunk.InputMessage{{Content: "hi"}}})
		w.put(s, 1, chunk.StepStart{})
		w.put(s, 1, chunk.TextDelta{Delta: "hello"})
		w.put(s, 1, chunk.StepEnd{})
		w.put(s, 1, chunk.StreamEnd{StreamID: s.ID})
	}
	st := &memory{fails: func(n int) failure { return []failure{succeeds, storesNothing, losesAnswer}[n%3] }}
	sink, err := New(js, Config{Store: st, NoFollow: true, Bytes: 3000, Observe: observe.Config{}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := sink.Run(ctx); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	if len(st.events) != 80 || len(st.rows) != 60 {
		t.Errorf("%d events, %d observations, want 80 and 60", len(st.events), len(st.rows))
	}
}
