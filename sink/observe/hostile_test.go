package observe_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/internal/sinktest"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// script is a log that a test writes record by record.
type script struct {
	tb   testing.TB
	log  sinktest.Log
	s    chunk.Session
	last map[chunk.Session]chunk.Ordinal
	step int64
}

func newScript(tb testing.TB) *script {
	tb.Helper()
	return &script{tb: tb, s: chunk.RootSession("acme", "s1"), last: map[chunk.Session]chunk.Ordinal{}}
}

func (w *script) write(body chunk.Body) {
	w.tb.Helper()
	w.last[w.s]++
	c := chunk.Chunk{AgentID: w.s.ID, AgentType: "planner", Timestamp: int64(len(w.log) + 1), Step: w.step, Body: body}
	data, err := c.AppendJSON(nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	seq := len(w.log) + 1
	w.log = append(w.log, chunk.Record{
		Seq: chunk.Seq(seq), Session: w.s, Epoch: 1, Ordinal: w.last[w.s], Type: c.Type(), StoredAt: time.UnixMilli(int64(seq)), Data: data,
	})
}

func (w *script) start(id string) { w.write(chunk.RunStarted{RunID: id, Epoch: 1, Mode: "execute"}) }

func call(n int) string { return fmt.Sprintf("call-%d", n) }

// A log with very many calls in a step takes time in proportion to its records, and its state has bounds.
func TestManyCallsInAStep(t *testing.T) {
	const calls = 5_000
	w := newScript(t)
	w.start("r")
	w.write(chunk.StepStart{})
	for n := range calls {
		w.write(chunk.ToolStart{ToolCallID: call(n), ToolName: "search", Arguments: chunk.Value(`{"q":"` + strings.Repeat("x", 600) + `"}`)})
	}
	for n := range calls {
		w.write(chunk.ToolEnd{ToolCallID: call(n), ToolName: "search", Result: chunk.Value(`1`)})
	}
	w.write(chunk.StepEnd{})
	w.write(chunk.StreamEnd{})
	b := w.bounded(most)
	rows := latest(b)
	if n := len(rows); n != calls+2 {
		t.Errorf("%d rows", n)
	}
	for _, o := range rows {
		if o.Status != row.Completed {
			t.Fatalf("%+v", o)
		}
	}
}

// most is the most bytes of state of a tree, by estimate.
const most = 17 << 20

// bounded returns the rows of the log, and fails if the state has more bytes.
func (w *script) bounded(most int) (b row.Batch) {
	w.tb.Helper()
	f := observe.New(observe.Config{Position: position})
	highest := 0
	for _, rec := range w.log {
		f.Append(&b, rec)
		_, bytes := f.State()
		highest = max(highest, bytes)
	}
	if highest > most {
		w.tb.Errorf("the state had %d bytes, want at most %d", highest, most)
	}
	return b
}

// A tree that has too much at once is forgotten: its open rows are unknown, and what follows is incomplete. The next turn is complete.
func TestTooManyCallsInATurn(t *testing.T) {
	const calls = 30_000
	w := newScript(t)
	w.start("r")
	for n := range calls {
		w.write(chunk.ToolStart{ToolCallID: call(n), ToolName: "search", Arguments: chunk.Value(`{}`)})
	}
	w.write(chunk.StreamEnd{})
	w.start("next")
	w.write(chunk.StreamEnd{})
	count := map[row.Status]int{}
	for _, o := range latest(w.bounded(most)) {
		count[o.Status]++
		if complete := o.RunID == "next"; o.Kind == row.Run && (o.Status == row.Completed && !o.Incomplete) != complete {
			t.Errorf("%+v", o)
		}
	}
	if count[row.Unknown] < calls/2 || count[row.Running] > 0 {
		t.Errorf("statuses %v", count)
	}
}

// A record that makes a tree too large has at most one row of each observation, and a row has the session of its observation, also if a record of another session of the tree
// has caused it: in a tree that is forgotten or begins again.
func TestRowsOfAForgottenTree(t *testing.T) {
	w := newScript(t)
	root := w.s
	w.start("r")
	for n := range 5 {
		w.s = root.Child(fmt.Sprint("c", n))
		w.start("c")
		for i := range 4_000 {
			w.write(chunk.ToolApprovalRequest{ToolCallID: call(i), ToolName: "search", ApprovalID: call(i), Input: chunk.Value(`{}`)})
		}
	}
	w.s, w.last = root, map[chunk.Session]chunk.Ordinal{}
	w.start("again")
	type version struct {
		id  string
		seq int64
	}
	sessions, versions, unknown := map[string]string{}, map[version]bool{}, 0
	for _, o := range w.bounded(most).Observations {
		if was, ok := sessions[o.ID]; ok && was != o.Session {
			t.Fatalf("%s of %s has the session %s at %d", o.Kind, was, o.Session, o.Seq)
		}
		v := version{o.ID, o.Seq}
		if versions[v] {
			t.Fatalf("%s has two rows at %d", o.Kind, o.Seq)
		}
		if sessions[o.ID], versions[v] = o.Session, true; o.Status == row.Unknown {
			unknown++
		}
	}
	if unknown < 5_000 {
		t.Errorf("%d rows are unknown", unknown)
	}
}

// Very many sub-agents in a turn and over many turns have bounds too, and the rows of the latest ones have their content.
func TestManySubAgents(t *testing.T) {
	const turns, children = 40, 50
	w := newScript(t)
	root := w.s
	for turn := range turns {
		w.s = root
		w.start(fmt.Sprint("r", turn))
		for n := range children {
			w.s = root.Child(fmt.Sprintf("c%d-%d", turn, n))
			w.start(w.s.ID)
			w.write(chunk.StepStart{})
			for range 10 {
				id := call(len(w.log))
				w.write(chunk.ToolStart{ToolCallID: id, ToolName: "read", Arguments: chunk.Value(`{}`)})
				w.write(chunk.ToolEnd{ToolCallID: id, ToolName: "read", Result: chunk.Value(`"` + strings.Repeat("x", 10_000) + `"`)})
			}
			w.write(chunk.StepEnd{})
			w.write(chunk.StreamEnd{})
		}
		w.s = root
		w.write(chunk.StreamEnd{})
	}
	for _, o := range latest(w.bounded(most)) {
		if o.Status != row.Completed || o.Incomplete || o.Kind == row.Tool && len(o.Output) < 10_000 {
			t.Fatalf("%+v", o)
		}
	}
}

// A cleanup computes few entries again: with 5,000 of them a log takes about five times as long as without.
func TestManyCleanups(t *testing.T) {
	const cleanups, limit = 5_000, 25
	w, plain := newScript(t), newScript(t)
	w.start("r")
	plain.start("r")
	for n := range cleanups {
		w.step++
		first := int64(w.last[w.s]) + 1
		for _, into := range []*script{w, plain} {
			into.write(chunk.StepStart{})
			into.write(chunk.ToolStart{ToolCallID: call(n), ToolName: "search", Arguments: chunk.Value(`{}`)})
			into.write(chunk.ToolEnd{ToolCallID: call(n), ToolName: "search", Result: chunk.Value(`1`)})
		}
		last := first + 2
		if n%2 == 0 { // the step stays, but for its last record
			first = last
		}
		w.write(chunk.Truncated{Removed: []chunk.OrdinalRange{{First: first, Last: last}}})
	}
	_, without := timeOf(t, plain)
	b, took := timeOf(t, w)
	t.Logf("%d cleanups took %v, without them %v", cleanups, took, without)
	if took > limit*without {
		t.Errorf("took %v, want at most %d times %v", took, limit, without)
	}
	if len(b.Gaps) != cleanups {
		t.Errorf("%d gaps", len(b.Gaps))
	}
}

func timeOf(t *testing.T, w *script) (row.Batch, time.Duration) {
	t.Helper()
	began := processorTime(t)
	b := rowsOf(observe.Config{}, w.log)
	return b, processorTime(t) - began
}

// A cleanup removes the outcome of a call, which an earlier Folder has written. The log has deleted it before another Folder reads the cleanup: the call is open again.
func TestCleanupOfADeletedRecord(t *testing.T) {
	w := newScript(t)
	w.start("r")
	w.write(chunk.ToolStart{ToolCallID: "c", ToolName: "search", Arguments: chunk.Value(`{}`)})
	w.write(chunk.StepStart{})
	w.write(chunk.ToolEnd{ToolCallID: "c", ToolName: "search", Result: chunk.Value(`1`)})
	b := rowsOf(observe.Config{}, w.log)
	w.write(chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 3, Last: 4}}})
	w.log = slices.Delete(w.log, 2, 4)
	second := reader{Folder: observe.New(observe.Config{Position: position}), log: w.log}
	second.append(&b, 2)
	for _, o := range current(b) {
		if o.Kind == row.Tool && o.Status != row.Running {
			t.Errorf("the call is %s", o.Status)
		}
	}
}

// A cleanup reaches to the beginning of what is kept of a sub-agent that ended two turns before.
func TestCleanupAfterTheLastRun(t *testing.T) {
	w := newScript(t)
	root, child := w.s, w.s.Child("c")
	w.s = child
	w.start("c1")
	w.write(chunk.StreamEnd{})
	for turn := range 3 {
		w.s = root
		w.start(fmt.Sprint("r", turn))
		w.write(chunk.StreamEnd{})
	}
	w.s = child
	for range 3 {
		first := int64(w.last[child]) + 1
		w.write(chunk.StepStart{})
		w.write(chunk.ToolStart{ToolCallID: "t", ToolName: "search", Arguments: chunk.Value(`{}`)})
		w.write(chunk.Truncated{Removed: []chunk.OrdinalRange{{First: first, Last: first + 1}}})
	}
	w.write(chunk.StepStart{})
	w.write(chunk.StepEnd{})
	w.start("c2")
	w.write(chunk.StreamEnd{})
	for _, cfg := range []observe.Config{{}, {Memory: 1}} {
		statuses := map[row.Kind]int{}
		for _, o := range current(read(cfg, w.log, 0, false)) {
			if o.Session == child.ID && o.Status == row.Completed {
				statuses[o.Kind]++
			}
		}
		if statuses[row.Run] != 2 || statuses[row.Step] != 1 || statuses[row.Tool] != 0 {
			t.Errorf("%+v: completed rows %v", cfg, statuses)
		}
	}
}

// A record of a superseded writer is not missing from a log: a cleanup of it writes no other rows than in a Folder that has read everything.
func TestCleanupOfAFencedRecord(t *testing.T) {
	w := newScript(t)
	w.start("r")
	w.write(chunk.StepStart{})
	w.write(chunk.StepEnd{}) // of the superseded writer
	w.write(chunk.StepStart{})
	w.write(chunk.Truncated{Removed: []chunk.OrdinalRange{{First: 3, Last: 4}}})
	for i := range w.log {
		if w.log[i].Ordinal != 3 {
			w.log[i].Epoch = 2
		}
	}
	want := since(rowsOf(observe.Config{}, w.log), 5)
	if diff := cmp.Diff(want, read(observe.Config{}, w.log, 4, false)); diff != "" {
		t.Error(diff)
	}
}

// The estimate of the state is half of the heap to twice of it.
func TestEstimateOfTheState(t *testing.T) {
	const trees = 80
	w := newScript(t)
	for n := range trees {
		w.s = chunk.RootSession("acme", fmt.Sprintf("s%d", n))
		for turn := range 2 {
			w.start(fmt.Sprintf("r%d", turn))
			for range 5 {
				w.write(chunk.StepStart{})
				for range 40 {
					w.write(chunk.TextDelta{Delta: "some words "})
				}
				for range 4 {
					id := call(len(w.log))
					w.write(chunk.ToolStart{ToolCallID: id, ToolName: "search", Arguments: chunk.Value(`{"q":"some words to search for"}`)})
					w.write(chunk.ToolEnd{ToolCallID: id, ToolName: "search", Result: chunk.Value(`{"found":"` + strings.Repeat("words ", 50) + `"}`)})
				}
				w.write(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3"}})
			}
		}
	}
	before := heap()
	f := observe.New(observe.Config{Position: position, Memory: 1 << 30})
	for _, rec := range w.log {
		f.Append(&row.Batch{}, rec)
	}
	used := int(heap() - before)
	n, bytes := f.State()
	t.Logf("%d trees: %d bytes by estimate, %d of heap", n, bytes, used)
	if n != trees || bytes < used/2 || bytes > 2*used {
		t.Errorf("%d trees: %d bytes by estimate, %d of heap", n, bytes, used)
	}
	runtime.KeepAlive(w)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// processorTime returns the time of processors that the test has used: other programs run beside it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
