package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/projector/fold"
)

// Every scenario is written as in its script, in every session, and completes. Together they contain all 31 chunk
// types.
func TestScenariosArePlayed(t *testing.T) {
	e := newEnv(t)
	e.serve(noPause)
	used := map[chunk.Type]bool{}
	for _, s := range script.Scenarios() {
		if s.Name == "asking" {
			continue // it waits for a user: e2e.TestApproval
		}
		c := command(s.Name, "s-"+s.Name, "r1")
		if snap := e.run(c); snap.Run.Output.String() != fmt.Sprintf(`{"scenario":%q}`, s.Name) {
			t.Errorf("%s: output %s", s.Name, snap.Run.Output)
		}
		for _, session := range e.checkText(c.Session, scriptOf(t, c, s.Name)) {
			snap := e.awaitRun(session)
			if snap.Run.Status != fold.RunEnded || len(snap.OpenCalls()) > 0 {
				t.Errorf("%s: run of %s is %s, open calls %+v", s.Name, session, snap.Run.Status, snap.OpenCalls())
			}
			if f := snap.Faults; f.Skipped+f.RejectedPatches+f.RejectedPieces+f.Lost > 0 {
				t.Errorf("%s: faults %+v", s.Name, f)
			}
			for _, c := range e.Chunks(session) {
				used[c.Type()] = true
			}
		}
	}
	n := 0
	for typ := range used {
		if !typ.Control() {
			n++
		}
	}
	if n != 31 {
		t.Errorf("%d chunk types in the log, want all 31", n)
	}
}

// The lifecycle scenario suspends its run, is resumed under another run id, and rolls a step back.
func TestLifecycle(t *testing.T) {
	e := newEnv(t)
	e.serve(noPause)
	c := command("lifecycle", "s1", "r1")
	e.run(c)
	var got []string
	resumed := ""
	for _, c := range e.Chunks(c.Session) {
		switch b := c.Body.(type) {
		case chunk.RunStarted:
			resumed = b.RunID
		case chunk.StepDiscarded:
			if b.Reason != "retry" {
				t.Errorf("discarded because of %q", b.Reason)
			}
		case chunk.StreamResync:
			if b.StepCount != 2 || b.CheckpointID == "" {
				t.Errorf("resync %+v, want the checkpoint of step 2", b)
			}
		}
		switch typ := c.Type(); typ {
		case chunk.TypeRunStarted, chunk.TypeStreamPaused, chunk.TypeSuspensionMarker, chunk.TypeRunPaused, chunk.TypeRunResumed, chunk.TypeStepCommitted,
			chunk.TypeStepDiscarded, chunk.TypeTruncated, chunk.TypeStreamResync, chunk.TypeRunInterrupted, chunk.TypeExecutorSuperseded, chunk.TypeStreamEnd:
			got = append(got, string(typ))
		}
	}
	const want = "run_started step_committed suspension_marker run_paused stream_paused run_started run_resumed step_committed " +
		"step_discarded truncated stream_resync run_interrupted executor_superseded run_resumed step_committed stream_end"
	if got := strings.Join(got, " "); got != want {
		t.Errorf("records\n%s\nwant\n%s", got, want)
	}
	if resumed == c.RunID {
		t.Error("resumed under the same run id")
	}
}

// A second turn continues in the session with ids of its own.
func TestTurns(t *testing.T) {
	e := newEnv(t)
	e.serve(noPause)
	first, second := command("failing", "s1", "r1"), command("failing", "s1", "r2")
	e.run(first)
	e.request(second)
	e.awaitStatus(first.Session, "r2", fold.RunEnded)
	text, ended := "", map[string]bool{}
	for _, c := range e.Chunks(first.Session) {
		switch b := c.Body.(type) {
		case chunk.TextDelta:
			text = chunk.Concat(text, b.Delta)
		case chunk.ToolEnd:
			if ended[b.ToolCallID] {
				t.Errorf("call %s ends twice", b.ToolCallID)
			}
			ended[b.ToolCallID] = true
		}
	}
	if want := strings.Repeat(scriptOf(t, first, "failing").Text(), 2); text != want {
		t.Errorf("text %q, want %q", text, want)
	}
}

// Workers crash after a random number of records, one after the other: in a text, between checkpoint and commit,
// in a cleanup, around a suspension. The text of every session is that of an undisturbed run.
func TestCrashes(t *testing.T) {
	seed := seedtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for scenario, limit := range map[string]int{"subagents": 60, "lifecycle": 30, "failing": 30} {
		t.Run(scenario, func(t *testing.T) {
			e := newEnv(t)
			crashes := 0
			for round := range 4 {
				c := command(scenario, fmt.Sprint("s", round), "r1")
				e.request(c)
				for range 3 {
					reached, ended := e.after(c.Session, 1+rng.IntN(limit))
					p := e.serve(noPause)
					select {
					case <-reached:
						p.Kill()
						crashes++
					case <-ended:
					case <-time.After(time.Minute):
						pending, _, err := e.Queue.Pending(t.Context(), c.Session, c.AgentType)
						t.Fatalf("seed %d, round %d: the run has not ended after a minute: %+v; command %+v, %v", seed, round, e.Snapshot(c.Session).Run, pending, err)
					}
					p.Stop()
					if snap, err := e.Reader.Snapshot(t.Context(), c.Session); err == nil && snap.Run.Status == fold.RunEnded {
						break
					}
				}
				p := e.serve(noPause)
				e.awaitRun(c.Session)
				e.checkText(c.Session, scriptOf(t, c, scenario))
				p.Stop()
				if t.Failed() {
					t.Fatalf("seed %d, round %d", seed, round)
				}
			}
			if crashes < 4 {
				t.Errorf("%d crashes, want at least 4", crashes)
			}
		})
	}
}

// after returns a channel that is closed after n more records of any session, and one that is closed when the log of
// a session has its end. A core subscription sees a record before it is stored: the end that a killed worker wrote may
// come before the subscription and after the snapshot that the test read, so it is read from the log.
func (e *env) after(s chunk.Session, n int) (reached, ended <-chan struct{}) {
	e.t.Helper()
	nth, end := make(chan struct{}), make(chan struct{})
	nc := e.Server.Conn(e.t)
	if _, err := nc.Subscribe("tr.chunks.>", func(*nats.Msg) {
		if n--; n == 0 {
			close(nth)
		}
	}); err != nil {
		e.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		e.t.Fatal(err)
	}
	go func() {
		for wait.Sleep(e.t.Context(), 20*time.Millisecond) == nil {
			if last, err := e.Log.Last(e.t.Context(), s); err == nil && last.Type.Terminal() {
				close(end)
				return
			}
		}
	}()
	return nth, end
}

// A stop request ends a step in the middle of a pause: its output is kept, and its open calls get an outcome. The
// next turn is played completely.
func TestStop(t *testing.T) {
	e := newEnv(t)
	for scenario, n := range map[string]int32{"plain": 1, "parallel": 30, "tour": 111} {
		c := command(scenario, scenario, "r1")
		var pauses atomic.Int32
		blocked := make(chan struct{})
		p := e.serve(func(ctx context.Context, _ time.Duration) error {
			switch m := pauses.Add(1); {
			case m < n:
				return ctx.Err()
			case m == n:
				close(blocked)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		e.request(c)
		select {
		case <-blocked:
		case <-time.After(time.Minute):
			t.Fatalf("%s: %d pauses after a minute, want %d: %+v", scenario, pauses.Load(), n, e.Snapshot(c.Session).Run)
		}
		if err := e.Inbox.Stop(t.Context(), control.Stop{Session: c.Session, RunID: c.RunID, Kind: control.StopInterrupt, Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		snap := e.awaitStatus(c.Session, "r1", fold.RunInterrupted)
		if f := snap.Faults; f.Skipped > 0 || len(snap.OpenCalls()) > 0 {
			t.Errorf("%s: faults %+v, open calls %+v", scenario, f, snap.OpenCalls())
		}
		p.Stop()
		p = e.serve(noPause)
		next := command("plain", scenario, "r2")
		e.request(next)
		e.awaitStatus(c.Session, "r2", fold.RunEnded)
		p.Stop()
	}
}

// A run that cannot be played fails with the reason.
func TestUnknownScenarioFails(t *testing.T) {
	e := newEnv(t)
	e.serve(noPause)
	for text, want := range map[string]string{
		`{"scenario":"nonsense"}`: `unknown scenario "nonsense"`,
		`[]`:                      "invalid params",
	} {
		c := command("", fmt.Sprintf("s%d", len(text)), "r1")
		c.Params = chunk.Value(text)
		if snap := e.run(c); snap.Failure == nil || !strings.HasPrefix(snap.Failure.Message, want) {
			t.Errorf("%s: failure %+v, want %s", text, snap.Failure, want)
		}
	}
}

// A chat message selects a scenario by name; without a name it gets the first one.
func TestMessageSelectsTheScenario(t *testing.T) {
	for message, want := range map[string]string{
		"":                                "tour",
		"Show me the approval, please":    "approval",
		"`Tool-Args`?":                    "tool-args",
		"long or plain? the first I said": "long",
		"hello":                           "tour",
	} {
		if got := mentioned([]chunk.InputMessage{{Content: "state"}, {Content: message}}); got.Name != want {
			t.Errorf("%q: got %q, want %q", message, got.Name, want)
		}
	}
	if got := mentioned(nil); got.Name != "tour" {
		t.Errorf("without input: got %q", got.Name)
	}
}

// Params take precedence over the message; invalid params are rejected.
func TestScenarioOf(t *testing.T) {
	for text, want := range map[string]string{
		``:                                    "approval",
		`null`:                                "approval",
		`{}`:                                  "approval",
		`{"theme":"dark"}`:                    "approval",
		`{"scenario":null}`:                   "approval",
		`{"scenario":"plain"}`:                "plain",
		`{"scenario":"plain","theme":"dark"}`: "plain",
		`{"scenario":"none"}`:                 "",
		`{"scenario":""}`:                     "",
		`{"scenario":"tool-args`:              "",
		`{"scenario":7}`:                      "",
		`{"scenario":["plain"]}`:              "",
		`{"scenario":{}}`:                     "",
		`["plain"]`:                           "",
		`"plain"`:                             "",
		`7`:                                   "",
		`true`:                                "",
		`plain`:                               "",
		` `:                                   "",
	} {
		got, err := scenarioOf(chunk.Value(text), []chunk.InputMessage{{Content: "the approval"}})
		if got.Name != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v; want %q", text, got.Name, err, want)
		}
	}
}
