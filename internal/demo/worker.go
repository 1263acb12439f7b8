package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/producers"
)

// WorkerConfig is what a Worker needs. Queue, Producer, Log and Inbox have no default.
type WorkerConfig struct {
	Queue    Serving
	Producer *producers.Producer
	Log      Log
	Inbox    Stops

	// Pace makes the pauses between chunks. Defaults to Tempo(1), a model's.
	Pace Pace

	// Logger hears what becomes of runs. Defaults to no log.
	Logger *slog.Logger
}

// Serving hands out commands. *commands.Queue fits.
type Serving interface {
	Serve(ctx context.Context, agentTypes []string, handle commands.Handler) error
}

// Worker plays scenarios. Any number of workers share the work.
type Worker struct{ cfg WorkerConfig }

// NewWorker checks cfg and returns a Worker, which does nothing yet.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	if cfg.Queue == nil || cfg.Producer == nil || cfg.Log == nil || cfg.Inbox == nil {
		return nil, errors.New("demo worker: want a queue, a producer, a log and an inbox")
	}
	if cfg.Pace == nil {
		cfg.Pace = Tempo(1)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Worker{cfg: cfg}, nil
}

// Run plays what is asked for until ctx ends. Runs that are under way then stay
// as they are; the next worker goes on with them.
func (w *Worker) Run(ctx context.Context) error {
	return w.cfg.Queue.Serve(ctx, []string{script.AgentType}, w.Handle)
}

// params is what a command asks the demo agent for.
type params struct {
	Scenario *string `json:"scenario"` // nil: what the last message says
}

// choose finds the scenario that a command names in its params. Those of a chat
// name none; what is said there does. The error is told to whoever asked.
func choose(c commands.Command) (script.Scenario, error) {
	if c.Params.IsNull() {
		return spoken(c.Input), nil
	}
	var asked params
	if err := json.Unmarshal(c.Params, &asked); err != nil {
		return script.Scenario{}, errors.New(`the params cannot be read: want null or an object, such as {"scenario":"tour"}`)
	}
	if asked.Scenario == nil {
		return spoken(c.Input), nil
	}
	scenario, ok := script.Find(*asked.Scenario)
	if !ok {
		return script.Scenario{}, fmt.Errorf("there is no scenario %.40q", *asked.Scenario)
	}
	return scenario, nil
}

// spoken finds a scenario by its name in the last message; the first one if there
// is no name.
func spoken(input []chunk.InputMessage) script.Scenario {
	if n := len(input); n > 0 {
		for word := range strings.FieldsSeq(strings.ToLower(input[n-1].Content)) {
			if scenario, ok := script.Find(strings.Trim(word, ".,:;!?\"'`")); ok {
				return scenario
			}
		}
	}
	return script.Scenarios()[0]
}

// errBusy sends a command back for a while: the session answers another one,
// and the turns of a session come one after the other.
var errBusy = errors.New("the session is busy with another run")

const busyDelay = time.Second

// Handle does one command, from wherever the last attempt left it. It is a
// commands.Handler.
func (w *Worker) Handle(ctx context.Context, c commands.Command) error {
	if c.Kind != commands.Execute {
		return nil // its runs wait for nobody, so there is nothing to resume, to expire or to abort
	}
	env := script.Env{Session: c.Session, RunID: c.RunID, Issued: c.Issued}
	agent := script.Agent{Env: env, Type: c.AgentType}
	scenario, unknown := choose(c)
	if unknown == nil {
		agent = scenario.Agent(env)
	}
	stop, unheed, err := w.heed(ctx, c)
	if err != nil {
		return err
	}
	defer unheed()
	p := &player{WorkerConfig: w.cfg, agent: agent, input: c.Input, stop: stop}
	err = p.perform(ctx, w.open(p), func(ctx context.Context) error {
		if unknown != nil {
			w.cfg.Logger.WarnContext(ctx, "nothing to play", "session", c.Session.String(), "error", unknown)
			return p.run.Fail(ctx, unknown.Error(), nil)
		}
		return p.play(ctx)
	})
	switch {
	case errors.Is(err, errStopped):
		return nil // it has ended in another way
	case errors.Is(err, producers.ErrRunning):
		// Another worker was quicker to start it. It is not to be disturbed: the
		// command stays with it.
		return fmt.Errorf("%w: %w", chunk.ErrFenced, err)
	case errors.Is(err, errBusy):
		return commands.Later(busyDelay, err)
	}
	return err
}

// open starts the run of a root session.
func (w *Worker) open(p *player) opener {
	return func(ctx context.Context, run chunk.RunStarted) (*producers.Run, error) {
		return w.cfg.Producer.Start(ctx, p.agent.Session, run, producers.AgentType(p.agent.Type))
	}
}
