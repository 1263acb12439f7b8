package workers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/embed"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/topology"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// An agent with one step, and the records that a reader of the log gets.
func Example() {
	h := open()
	defer h.close()

	greeter := workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			for _, word := range []string{"Hello, ", t.Input()[0].Content, "!"} {
				if err := s.Text(ctx, word); err != nil {
					return err
				}
			}
			s.MarkFinal()
			return nil
		})
	})
	h.serve(workers.Config{Agents: map[string]workers.Agent{"greeter": greeter}})

	session := h.ask("greeter", "Ada")
	fmt.Println(h.answerText(session))
	// Output: Hello, Ada!
}

// The end of a step has its model, its tokens and its cost.
func ExampleStep_Model() {
	h := open()
	defer h.close()

	agent := workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			return errors.Join(
				s.Text(ctx, "Hello!"),
				s.Model(chunk.Model{Name: "gpt-5-2025-08-07", Requested: "gpt-5", Provider: "openai"}),
				s.Usage(chunk.Usage{InputTokens: "1200", OutputTokens: "300", Cost: chunk.CostOf("0.0045")}),
			)
		})
	})
	h.serve(workers.Config{Agents: map[string]workers.Agent{"greeter": agent}})

	session := h.ask("greeter", "Hi!")
	h.await(session, chunk.TypeStreamEnd)
	for rec, err := range h.log.Replay(h.ctx, chunk.Range{Session: session}) {
		must(err)
		c, err := rec.Decode()
		must(err)
		if end, ok := chunk.As[chunk.StepEnd](c); ok {
			fmt.Println(*end.Model, *end.Usage.Cost)
		}
	}
	// Output: gpt-5-2025-08-07 0.0045
}

// The loop of an agent with tools. The history shows its position: a model call with tool calls is followed
// by another model call, in this worker or in the next.
func ExampleTurn_Step() {
	h := open()
	defer h.close()

	agent := workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		for {
			reply := model(t.Messages())
			err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				if len(reply.calls) == 0 {
					s.MarkFinal() // after a crash of the worker the model is not called again
				}
				if err := s.Text(ctx, reply.text); err != nil {
					return err
				}
				for id, city := range reply.calls {
					call := s.Tool(id, "weather")
					if err := call.Start(ctx, map[string]string{"city": city}); err != nil {
						return err
					}
					if err := call.End(ctx, weather(city, call.IdempotencyKey())); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil || len(reply.calls) == 0 {
				return err
			}
		}
	})
	h.serve(workers.Config{Agents: map[string]workers.Agent{"forecast": agent}})

	session := h.ask("forecast", "Do I need an umbrella in Bergen?")
	fmt.Println(h.answerText(session))
	// Output: Let me look. Yes: rain in Bergen.
}

type reply struct {
	text  string
	calls map[string]string // id: city
}

// model is a fake model that answers the end of the history.
func model(history []fold.Message) reply {
	last := history[len(history)-1]
	for _, call := range last.Calls() {
		return reply{text: "Yes: " + strings.Trim(call.Output.String(), `"`) + "."}
	}
	return reply{text: "Let me look. ", calls: map[string]string{"call_1": "Bergen"}}
}

func weather(city, _ string) string { return "rain in " + city }

// A call that a user must approve. The run is suspended until the decision and occupies no worker; then the
// agent is called again.
func ExampleCall_AskApproval() {
	h := open()
	defer h.close()

	agent := workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		if t.Steps() == 0 {
			return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				return s.Tool("call_1", "delete").AskApproval(ctx, map[string]string{"file": "notes.txt"}, time.Now().Add(time.Hour))
			})
		}
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			for _, call := range s.ApprovedCalls() {
				if err := call.End(ctx, "deleted, once, by "+call.Name()); err != nil {
					return err
				}
			}
			return s.Text(ctx, "Done.")
		})
	})
	h.serve(workers.Config{Agents: map[string]workers.Agent{"cleaner": agent}})
	session := h.ask("cleaner", "Delete my notes.")

	h.await(session, chunk.TypeStreamPaused)
	must(h.inbox.Answer(h.ctx, control.Answer{
		Session: session, RunID: "run-1", CallID: "call_1", Kind: control.Approval, ApprovalID: "run-1::call_1", Approved: true,
	}))
	h.resume("cleaner", session, "run-1")
	h.await(session, chunk.TypeStreamEnd)

	for rec, err := range h.log.Replay(h.ctx, chunk.Range{Session: session}) {
		must(err)
		c, err := rec.Decode()
		must(err)
		if end, ok := c.Body.(chunk.ToolEnd); ok {
			fmt.Println(end.ToolName, end.Result)
		}
	}
	// Output: delete "deleted, once, by delete"
}

// An agent that delegates to another one. Both may run in any worker.
func ExampleCall_Delegate() {
	h := open()
	defer h.close()

	writer := workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		if t.Steps() == 0 {
			return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
				return s.Tool("call_1", workers.SubagentTool("counter")).Delegate(ctx, map[string]string{"message": t.Input()[0].Content})
			})
		}
		answer := t.Messages()[len(t.Messages())-1].Calls()[0].Output
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			return s.Text(ctx, fmt.Sprintf("It has %s words.", answer))
		})
	})
	counter := workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			return s.Output(ctx, len(strings.Fields(t.Input()[0].Content)))
		})
	})
	h.serve(workers.Config{Agents: map[string]workers.Agent{"writer": writer, "counter": counter}})

	session := h.ask("writer", "how long is this")
	fmt.Println(h.answerText(session))
	// Output: It has 4 words.
}

// toolFixture is a complete Tailrace in this process.
type toolFixture struct {
	ctx    context.Context
	js     jetstream.JetStream
	log    *consumers.Reader
	queue  *jscontrol.Queue
	inbox  *jscontrol.Inbox
	closes []func()
}

func open() *toolFixture {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	dir, err := os.MkdirTemp("", "workers")
	must(err)
	srv, err := embed.Start(ctx, embed.Config{StoreDir: dir, Log: slog.New(slog.DiscardHandler)})
	must(err)
	nc, err := nats.Connect("", srv.InProcess())
	must(err)
	js, err := jetstream.New(nc)
	must(err)
	must(topology.Ensure(ctx, js, topology.Config{}))
	h := &toolFixture{ctx: ctx, js: js}
	h.log, err = consumers.New(js, consumers.Config{})
	must(err)
	h.queue, err = jscontrol.NewQueue(js, jscontrol.QueueConfig{})
	must(err)
	h.inbox, err = jscontrol.NewInbox(js, jscontrol.InboxConfig{})
	must(err)
	h.closes = []func(){
		func() { must(os.RemoveAll(dir)) },
		cancel,
		func() { must(srv.Shutdown(context.Background())) },
		nc.Close,
	}
	return h
}

func (h *toolFixture) close() {
	for _, do := range slices.Backward(h.closes) {
		do()
	}
}

// serve runs a worker until the fixture is closed.
func (h *toolFixture) serve(cfg workers.Config) {
	w, err := workers.New(h.js, cfg)
	must(err)
	ctx, stop := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	h.closes = append(h.closes, func() {
		stop()
		must(<-done)
	})
}

func (h *toolFixture) ask(agent, text string) chunk.Session {
	session := chunk.RootSession("acme", "s1")
	must(h.queue.Request(h.ctx, control.Command{
		Kind: control.Execute, Session: session, AgentType: agent, RunID: "run-1", Input: []chunk.InputMessage{{Content: text}},
	}, 0))
	return session
}

func (h *toolFixture) resume(agent string, session chunk.Session, run string) {
	c := control.Command{Kind: control.Resume, Session: session, AgentType: agent, RunID: control.ResumeRunID(run), Resumes: run}
	err := h.queue.Request(h.ctx, c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok {
		err = h.queue.Request(h.ctx, c, busy.Revision) // its run is suspended, so the command is obsolete
	}
	must(err)
}

// answerText returns the text of an answer after its end.
func (h *toolFixture) answerText(session chunk.Session) string {
	h.await(session, chunk.TypeStreamEnd)
	text := ""
	for rec, err := range h.log.Replay(h.ctx, chunk.Range{Session: session}) {
		must(err)
		c, err := rec.Decode()
		must(err)
		if d, ok := chunk.As[chunk.TextDelta](c); ok {
			text += d.Delta
		}
	}
	return text
}

// await waits until the session has a record of a type.
func (h *toolFixture) await(session chunk.Session, want chunk.Type) {
	for h.ctx.Err() == nil {
		for rec, err := range h.log.Follow(h.ctx, chunk.Range{Session: session}) {
			if err == nil && rec.Type == want {
				return
			}
		}
	}
	must(h.ctx.Err())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
