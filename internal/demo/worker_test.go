package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/natstest"
)

// Every scenario is written as its script has it, in every session, and ends.
func TestEveryScenarioIsPlayed(t *testing.T) {
	h := newHouse(t)
	w := h.worker(t, instantly)
	used := map[chunk.Type]bool{}
	for _, s := range script.Scenarios() {
		c := command(s.Name, "s-"+s.Name, "r1")
		if err := w.Handle(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		agentOf(t, c, s.Name).Each(func(a script.Agent) {
			all := h.records(t, a.Session)
			for _, rec := range all {
				used[rec.Type] = true
			}
			if last := all[len(all)-1]; last.Type != chunk.TypeStreamEnd {
				t.Errorf("%s, %s ends with %s", s.Name, a.Type, last.Type)
			}
			if got := h.story(t, a.Session, a.RunID).text; got != a.Text() {
				t.Errorf("%s, %s says %q, want %q", s.Name, a.Type, got, a.Text())
			}
		})
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

// The chunks of a session are numbered by the steps they belong to, and each step
// ends with its commit.
func TestStepsAreCommitted(t *testing.T) {
	h := newHouse(t)
	c := command("subagents", "s1", "r1")
	if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	agentOf(t, c, "subagents").Each(func(a script.Agent) {
		step, committed := int64(0), int64(0)
		for _, rec := range h.records(t, a.Session) {
			ch, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			switch b := ch.Body.(type) {
			case chunk.StepStart:
				step++
			case chunk.StepCommitted:
				committed++
				if b.CheckpointID != a.CheckpointID(int(step)) || b.StepID != a.StepID(int(step)) {
					t.Errorf("step %d is committed as %+v", step, b)
				}
			}
			if ch.Step != step {
				t.Errorf("%s: %s has step %d in step %d", a.Type, rec.Type, ch.Step, step)
			}
			if ch.AgentID != a.Session.ID || ch.AgentType != a.Type {
				t.Errorf("%s is of agent %s (%s)", rec.Type, ch.AgentID, ch.AgentType)
			}
		}
		if committed != int64(len(a.Steps)) {
			t.Errorf("%s: %d steps committed of %d", a.Type, committed, len(a.Steps))
		}
	})
}

// A tool_end follows the subagent_end of its call at once, also when several
// sub-agents end together (helix.md, EO-6).
func TestSubagentEndThenToolEnd(t *testing.T) {
	h := newHouse(t)
	c := command("subagents", "s1", "r1")
	if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ends := 0
	call := ""
	for _, rec := range h.records(t, c.Session) {
		ch, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if end, ok := ch.Body.(chunk.ToolEnd); call != "" && (!ok || end.ToolCallID != call) {
			t.Errorf("subagent_end of %s is followed by %s", call, rec.Type)
		}
		call = ""
		if end, ok := ch.Body.(chunk.SubagentEnd); ok {
			call = end.CallID
			ends++
		}
	}
	if ends != 2 {
		t.Errorf("%d sub-agents ended, want 2", ends)
	}
}

// A finished run is left alone, however often its command comes.
func TestFinishedRunIsAcknowledged(t *testing.T) {
	h := newHouse(t)
	w := h.worker(t, instantly)
	c := command("plain", "s1", "r1")
	for range 3 {
		if err := w.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	starts := 0
	for _, rec := range h.records(t, c.Session) {
		if rec.Type == chunk.TypeRunStarted {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d runs were started", starts)
	}
}

// A second turn goes on in the session, and a takeover of it leaves the first
// turn alone, whose steps have higher numbers.
func TestTurns(t *testing.T) {
	h := newHouse(t)
	first, second := command("failing", "s1", "r1"), command("plain", "s1", "r2")
	if err := h.worker(t, instantly).Handle(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	doomed := h.worker(t, h.dieInStep(t, second.Session, 1))
	if err := doomed.Handle(t.Context(), second); !errors.Is(err, errDied) {
		t.Fatalf("err = %v", err)
	}
	if err := h.worker(t, instantly).Handle(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if got, want := h.story(t, first.Session, "r1").text, agentOf(t, first, "failing").Text(); got != want {
		t.Errorf("the first turn says %q, want %q", got, want)
	}
	if got, want := h.story(t, first.Session, "r2").text, agentOf(t, second, "plain").Text(); got != want {
		t.Errorf("the second turn says %q, want %q", got, want)
	}
}

// The turns of a session wait for one another.
func TestBusySession(t *testing.T) {
	h := newHouse(t)
	first, second := command("plain", "s1", "r1"), command("thinking", "s1", "r2")
	if err := h.worker(t, h.dieInStep(t, first.Session, 1)).Handle(t.Context(), first); !errors.Is(err, errDied) {
		t.Fatalf("err = %v", err)
	}
	w := h.worker(t, instantly)
	if err := w.Handle(t.Context(), second); !errors.Is(err, errBusy) {
		t.Fatalf("err = %v, want errBusy", err)
	}
	for _, c := range []commands.Command{first, second} {
		if err := w.Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := h.story(t, first.Session, "r2").text, agentOf(t, second, "thinking").Text(); got != want {
		t.Errorf("the second turn says %q, want %q", got, want)
	}
}

// What cannot be played is seen by whoever asked for it.
func TestUnknownScenarioFails(t *testing.T) {
	h := newHouse(t)
	for asked, want := range map[string]string{
		`{"scenario":"nonsense"}`: `there is no scenario "nonsense"`,
		`[]`:                      "the params cannot be read",
	} {
		c := command("", fmt.Sprintf("s%d", len(asked)), "r1")
		c.Params = chunk.Value(asked)
		if err := h.worker(t, instantly).Handle(t.Context(), c); err != nil {
			t.Fatalf("%s: %v", asked, err)
		}
		all := h.records(t, c.Session)
		last, err := all[len(all)-1].Decode()
		if err != nil {
			t.Fatal(err)
		}
		if failed, ok := last.Body.(chunk.StreamFailed); !ok || !strings.HasPrefix(failed.Error, want) {
			t.Errorf("%s ends with %+v, want %s", asked, last.Body, want)
		}
	}
}

// From the queue to the log: a worker is killed in the middle, another one gets
// the command again and finishes it, and the queue is empty.
func TestKilledWorkerOverTheQueue(t *testing.T) {
	h := newHouse(t)
	asking := h.worker(t, instantly)
	c := command("tour", "s1", "r1")
	if err := asking.queue.Publish(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var first *process
	acts := 0
	first = h.worker(t, func(ctx context.Context, _ time.Duration) error {
		if acts++; acts == 300 {
			first.kill()
		}
		return ctx.Err()
	})
	if err := first.Run(background(t)); err == nil {
		t.Error("a worker without a connection says nothing")
	}
	ctx, cancel := context.WithCancel(background(t))
	stopped := make(chan error, 1)
	go func() { stopped <- asking.Run(ctx) }()
	h.awaitEnd(t, c.Session)
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	whole := newHouse(t)
	if err := whole.worker(t, instantly).Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h.sameStory(t, agentOf(t, c, "tour"), whole)
	started := 0
	for _, rec := range h.records(t, c.Session) {
		if rec.Type == chunk.TypeRunStarted {
			started++
		}
	}
	if started < 2 {
		t.Errorf("%d run_started, want a takeover", started)
	}
}

// The server is restarted while a worker plays: the worker waits and goes on, and
// neither the log nor the queue shows it.
func TestServerRestartsUnderAWorker(t *testing.T) {
	h := newHouse(t)
	c := command("subagents", "s1", "r1")
	var acts atomic.Int32
	w := h.worker(t, func(ctx context.Context, _ time.Duration) error {
		if n := acts.Add(1); n == 50 || n == 150 {
			h.srv.Restart(t)
		}
		return ctx.Err()
	})
	natstest.Await(t, "publish", func(ctx context.Context) error { return w.queue.Publish(ctx, c) })
	ctx, cancel := context.WithCancel(background(t))
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	h.awaitEnd(t, c.Session)
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	whole := newHouse(t)
	if err := whole.worker(t, instantly).Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	h.sameStory(t, agentOf(t, c, "subagents"), whole)
	for _, rec := range h.records(t, c.Session) {
		if rec.Type == chunk.TypeTruncated || rec.Epoch != 1 {
			t.Errorf("the log shows %s of epoch %d", rec.Type, rec.Epoch)
		}
	}
}

// A chat says in words what it wants, and gets something whatever it says.
func TestSpoken(t *testing.T) {
	for said, want := range map[string]string{
		"":                                "tour",
		"Show me the approval, please":    "approval",
		"`Tool-Args`?":                    "tool-args",
		"long or plain? the first I said": "long",
		"hello":                           "tour",
	} {
		if got := spoken([]chunk.InputMessage{{Content: "state"}, {Content: said}}); got.Name != want {
			t.Errorf("%q: got %q, want %q", said, got.Name, want)
		}
	}
	if got := spoken(nil); got.Name != "tour" {
		t.Errorf("without input: got %q", got.Name)
	}
}

// Params come before what is said, and those that say something else are refused.
func TestChoose(t *testing.T) {
	for asked, want := range map[string]string{
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
		c := commands.Command{Params: chunk.Value(asked), Input: []chunk.InputMessage{{Content: "the approval"}}}
		got, err := choose(c)
		if got.Name != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v; want %q", asked, got.Name, err, want)
		}
	}
}
