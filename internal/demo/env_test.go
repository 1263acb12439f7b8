package demo

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/topology"
	"github.com/tailrace/tailrace/workers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// env is a server with the streams of Tailrace, and the clients of the demo agents.
type env struct {
	t      *testing.T
	srv    *natstest.Server
	log    *consumers.Reader
	reader *projector.Reader
	queue  *jscontrol.Queue
	inbox  *jscontrol.Inbox
}

func newEnv(t *testing.T) *env {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, srv: srv}
	var err error
	if e.log, err = consumers.New(js, consumers.Config{}); err != nil {
		t.Fatal(err)
	}
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e.reader = projector.NewReader(store, jssnapshots.Log{Reader: e.log})
	if e.queue, err = jscontrol.NewQueue(js, jscontrol.QueueConfig{}); err != nil {
		t.Fatal(err)
	}
	if e.inbox, err = jscontrol.NewInbox(js, jscontrol.InboxConfig{}); err != nil {
		t.Fatal(err)
	}
	return e
}

// process is a worker with its own connection, like a separate process.
type process struct {
	nc   *nats.Conn
	done chan struct{} // closed when Run has returned
	stop context.CancelFunc
}

// serve runs a worker until the test ends or the process is crashed.
func (e *env) serve(pace Pace) *process {
	e.t.Helper()
	js := e.srv.JetStream(e.t)
	served, err := workers.New(js, workers.Config{
		Agents: Agents(pace), ShutdownTimeout: workers.Off,
		Lease: 250 * time.Millisecond, RetryDelay: 20 * time.Millisecond, RetryTimeout: 10 * time.Second,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	p := &process{nc: js.Conn(), done: make(chan struct{}), stop: cancel}
	go func() {
		defer close(p.done)
		if err := served.Run(ctx); err != nil && !p.nc.IsClosed() {
			e.t.Errorf("worker: %v", err)
		}
	}()
	e.t.Cleanup(p.end)
	return p
}

func (p *process) end() {
	p.stop()
	<-p.done
}

// crash closes the connection without a drain.
func (p *process) crash() { p.nc.Close() }

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
	natstest.Eventually(e.t, "request of "+c.RunID, func(ctx context.Context) error { return e.queue.Request(ctx, c, 0) })
}

// awaitRun waits until a run, or one that resumes it, has ended.
func (e *env) awaitRun(s chunk.Session) fold.Snapshot {
	e.t.Helper()
	var snap fold.Snapshot
	natstest.Eventually(e.t, "end of "+s.String(), func(ctx context.Context) (err error) {
		if snap, err = e.reader.Snapshot(ctx, s); err != nil {
			return err
		}
		switch snap.Run.Status {
		case fold.RunEnded, fold.RunFailed:
			return nil
		}
		return fmt.Errorf("run %s is %s", snap.Run.ID, snap.Run.Status)
	})
	return snap
}

// awaitStatus waits until the latest run has an id and a status.
func (e *env) awaitStatus(s chunk.Session, run string, want fold.RunStatus) fold.Snapshot {
	e.t.Helper()
	var snap fold.Snapshot
	natstest.Eventually(e.t, fmt.Sprintf("run %s of %s is %s", run, s, want), func(ctx context.Context) (err error) {
		if snap, err = e.reader.Snapshot(ctx, s); err == nil && (snap.Run.ID != run || snap.Run.Status != want) {
			err = fmt.Errorf("run %s is %s", snap.Run.ID, snap.Run.Status)
		}
		return err
	})
	return snap
}

// run plays a scenario to its end.
func (e *env) run(c control.Command) fold.Snapshot {
	e.t.Helper()
	e.request(c)
	return e.awaitRun(c.Session)
}

// chunks returns the chunks of a session; the reader fails if one is missing.
func (e *env) chunks(s chunk.Session) []chunk.Chunk {
	e.t.Helper()
	var all []chunk.Chunk
	for rec, err := range e.log.Replay(e.t.Context(), chunk.Range{Session: s}) {
		if errors.Is(err, chunk.ErrUnknownSession) {
			return nil
		}
		if err != nil {
			e.t.Fatal(err)
		}
		c, err := rec.Decode()
		if err != nil {
			e.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
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
	for _, c := range e.chunks(s) {
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
