package demo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/inbox"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/kvstore"
	"github.com/tailrace/tailrace/projector/natssource"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const limit = 60 * time.Second

// house is a server with the streams of Tailrace, and a reader of its log.
type house struct {
	srv      *natstest.Server
	log      *consumers.Reader
	reader   *projector.Reader
	maxDelta int // of the workers' writers; 1 keeps deltas apart, so that a run is many messages
}

func newHouse(t *testing.T) *house {
	t.Helper()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	log, err := consumers.New(js.Conn(), js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := kvstore.New(js, kvstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return &house{srv: srv, log: log, reader: projector.NewReader(store, natssource.Log{Reader: log})}
}

// process is a worker with a connection of its own, as if it were a process.
type process struct {
	*Worker

	nc    *nats.Conn
	queue *commands.Queue
	inbox *inbox.Box
}

func (h *house) worker(t *testing.T, pace Pace) *process {
	t.Helper()
	js := h.srv.JetStream(t)
	queue, err := commands.New(js, commands.Config{AckWait: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := producers.New(js.Conn(), js, producers.Config{Patience: 10 * time.Second, MaxDelta: h.maxDelta})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = producer.Close() })
	log, err := consumers.New(js.Conn(), js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	box, err := inbox.New(js, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := NewWorker(WorkerConfig{Queue: queue, Producer: producer, Log: log, Inbox: box, Pace: pace})
	if err != nil {
		t.Fatal(err)
	}
	return &process{Worker: worker, nc: js.Conn(), queue: queue, inbox: box}
}

// kill ends the connection without a word: for the log, the process is gone.
func (p *process) kill() { p.nc.Close() }

func command(scenario, session, run string) commands.Command {
	return commands.Command{
		Kind: commands.Execute, Session: chunk.RootSession("acme", session), AgentType: script.AgentType, RunID: run,
		Input:  []chunk.InputMessage{{Content: "go"}},
		Params: chunk.Value(fmt.Sprintf(`{"scenario":%q}`, scenario)), Issued: time.UnixMilli(1700000000000),
	}
}

func agentOf(t *testing.T, c commands.Command, scenario string) script.Agent {
	t.Helper()
	s, ok := script.Find(scenario)
	if !ok {
		t.Fatalf("no scenario %s", scenario)
	}
	return s.Agent(script.Env{Session: c.Session, RunID: c.RunID, Issued: c.Issued})
}

// records reads a session whole; the reader proves that nothing is missing.
func (h *house) records(t *testing.T, s chunk.Session) []chunk.Record {
	t.Helper()
	var all []chunk.Record
	for rec, err := range h.log.Replay(t.Context(), s, chunk.Position{}) {
		if errors.Is(err, chunk.ErrUnknownSession) {
			return nil
		}
		if err != nil {
			t.Fatalf("replay %s: %v", s, err)
		}
		all = append(all, rec)
	}
	return all
}

// story is what a session says, told so that two tellings can be compared:
// deltas joined, without the records of recovery, and without what sub-agents
// make of the order.
type story struct {
	text  string
	told  []string
	calls []string // of sub-agents, sorted
}

func (h *house) story(t *testing.T, s chunk.Session, run string) story {
	t.Helper()
	var st story
	current := ""
	for _, rec := range h.records(t, s) {
		c, err := rec.Decode()
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := c.Body.(chunk.RunStarted); ok {
			current = b.RunID
		}
		if current != run || rec.Type.Control() { // a clean-up leaves the stream's own records
			continue
		}
		st.tell(t, c)
	}
	slices.Sort(st.calls)
	return st
}

func (st *story) tell(t *testing.T, c chunk.Chunk) {
	t.Helper()
	switch b := c.Body.(type) {
	case chunk.TextDelta:
		st.text = chunk.Concat(st.text, b.Delta)
		st.grow(c.Type(), "", b.Delta)
		return
	case chunk.Thinking:
		st.grow(c.Type(), "", b.Content)
		return
	case chunk.ToolArgStreamDelta:
		st.grow(c.Type(), b.ToolCallID, b.Delta)
		return
	case chunk.StreamResync:
		if b.Reason == "crash_recovery" {
			return
		}
		b.FromSequence = 0
		c.Body = b
	}
	c.Timestamp = 1
	line, err := c.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(line), `"subagent_`) || strings.Contains(string(line), `"tool_end"`) && strings.Contains(string(line), `subagent__`) {
		st.calls = append(st.calls, string(line))
		return
	}
	st.told = append(st.told, string(line))
}

// grow joins deltas of one kind that follow one another, as the writer may have.
func (st *story) grow(typ chunk.Type, call, delta string) {
	mark := "+" + string(typ) + " " + call + ": "
	if n := len(st.told); n > 0 && strings.HasPrefix(st.told[n-1], mark) {
		st.told[n-1] = mark + chunk.Concat(st.told[n-1][len(mark):], delta)
		return
	}
	st.told = append(st.told, mark+delta)
}

// sameStory compares every session of a run with that of an uninterrupted one.
func (h *house) sameStory(t *testing.T, agent script.Agent, want *house) {
	t.Helper()
	agent.Each(func(a script.Agent) {
		got, whole := h.story(t, a.Session, a.RunID), want.story(t, a.Session, a.RunID)
		if got.text != a.Text() {
			t.Errorf("%s says\n%q\nwant\n%q", a.Type, got.text, a.Text())
		}
		if !reflect.DeepEqual(got.calls, whole.calls) {
			t.Errorf("%s calls\n%q\nwant\n%q", a.Type, got.calls, whole.calls)
		}
		for i := range max(len(got.told), len(whole.told)) {
			if i >= len(got.told) || i >= len(whole.told) || got.told[i] != whole.told[i] {
				t.Errorf("%s, record %d:\n%v\nwant\n%v", a.Type, i, at(got.told, i), at(whole.told, i))
				break
			}
		}
	})
}

func at(lines []string, i int) string {
	if i >= len(lines) {
		return "nothing"
	}
	return lines[i]
}

// instantly does not wait.
var instantly = Tempo(0)

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// awaitEnd follows a session until its stream has ended. A clean-up under the
// reader makes it begin again.
func (h *house) awaitEnd(t *testing.T, s chunk.Session) {
	t.Helper()
	natstest.Await(t, "the end of "+s.String(), func(ctx context.Context) error {
		for rec, err := range h.log.Follow(ctx, s, chunk.Position{}) {
			if err != nil {
				return err
			}
			if rec.Type.Terminal() {
				return nil
			}
		}
		return errors.New("no end yet")
	})
}

var errDied = errors.New("died")
