package demo

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// env is a server with the streams of Tailrace, and the clients of the demo agents.
type env struct {
	*stack.Stack

	t *testing.T
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{stack.Start(t, stack.Options{}), t}
}

// serve runs a worker with its own connection until the test ends or the process is stopped or killed.
func (e *env) serve(pace Pace) *stack.Process {
	e.t.Helper()
	p := e.NewProcess(natsauth.Worker)
	served, err := workers.New(p.JS, workers.Config{
		Agents: Agents(pace), ShutdownTimeout: workers.Off,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	p.Go(served.Run)
	return p
}

func command(scenario, session, run string) control.Command {
	return control.Command{
		Kind: control.Execute, Session: chunk.RootSession("acme", session), AgentType: script.AgentType, RunID: run,
		Input:  []chunk.InputMessage{{Content: "Start."}},
		Params: chunk.Value(fmt.Sprintf(`{"scenario":%q}`, scenario)),
	}
}

// request publishes a command. The command of the previous run may still be on the queue, between its end and its acknowledgement.
func (e *env) request(c control.Command) {
	e.t.Helper()
	natstest.Eventually(e.t, "request of "+c.RunID, func(ctx context.Context) error { return e.Queue.Request(ctx, c, 0) })
}

// awaitRun waits until a run, or one that resumes it, has ended.
func (e *env) awaitRun(s chunk.Session) fold.Snapshot {
	e.t.Helper()
	return e.Await(s, "end of the run", func(snap fold.Snapshot) bool {
		return snap.Run.Status == fold.RunEnded || snap.Run.Status == fold.RunFailed
	})
}

// awaitStatus waits until the latest run has an id and a status.
func (e *env) awaitStatus(s chunk.Session, run string, want fold.RunStatus) fold.Snapshot {
	e.t.Helper()
	return e.Await(s, fmt.Sprintf("run %s is %s", run, want), func(snap fold.Snapshot) bool { return snap.Run.ID == run && snap.Run.Status == want })
}

// run plays a scenario to its end.
func (e *env) run(c control.Command) fold.Snapshot {
	e.t.Helper()
	e.request(c)
	return e.awaitRun(c.Session)
}

// checkText compares the text of a session and of its sub-agents with their scripts. A call that was rolled back
// has left a session of its own; it is not in the log of its parent.
func (e *env) checkText(s chunk.Session, want script.Agent) (sessions []chunk.Session) {
	e.t.Helper()
	text := ""
	topics := map[string]string{} // by call id
	for _, step := range want.Steps {
		for _, act := range step.Acts {
			for _, c := range act.Ask {
				p, err := readParams(c.Input)
				if err != nil {
					e.t.Fatal(err)
				}
				topics[c.ID] = p.Topic
			}
		}
	}
	sessions = []chunk.Session{s}
	started := map[string]bool{}
	for _, c := range e.Chunks(s) {
		switch b := c.Body.(type) {
		case chunk.TextDelta:
			text = chunk.Concat(text, b.Delta)
		case chunk.SubagentStart:
			topic, ok := topics[b.CallID]
			if !ok || started[b.CallID] {
				e.t.Errorf("%s: unexpected call %s", want.Type, b.CallID)
			}
			started[b.CallID] = true
			child := s.Child(b.SubSessionID)
			agent, err := script.SubAgent(b.SubAgentType, topic, script.RunInfo{Session: child, Turn: fold.MessageID(0)})
			if err != nil {
				e.t.Fatal(err)
			}
			sessions = append(sessions, e.checkText(child, agent)...)
		}
	}
	if text != want.Text() {
		e.t.Errorf("%s: text\n%q\nwant\n%q", want.Type, text, want.Text())
	}
	if len(started) != len(topics) {
		e.t.Errorf("%s: %d sub-agents, want %d", want.Type, len(started), len(topics))
	}
	return sessions
}

// scriptOf returns the script of the first turn of a session.
func scriptOf(t *testing.T, c control.Command, scenario string) script.Agent {
	t.Helper()
	s, ok := script.Find(scenario)
	if !ok {
		t.Fatalf("no scenario %s", scenario)
	}
	return s.Agent(script.RunInfo{Session: c.Session, Turn: fold.MessageID(0), RunID: c.RunID})
}

var noPause = ScaledPace(0)
