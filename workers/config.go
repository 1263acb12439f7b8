package workers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/subjects"
)

// Config configures Workers. Agents is required. In every other field 0 means the default, and Off (a
// negative number) disables the limit or the delay where the field supports it.
type Config struct {
	// Agents are the agents to serve, by agent type. A type is a token of at most 64 letters, digits, "-" and
	// "_".
	Agents map[string]Agent

	// MaxSteps is the maximum number of steps of a turn; one more fails the run with CodeStepLimit. Defaults
	// to 50; Off is unlimited.
	MaxSteps int

	// MaxTakeovers is the maximum number of takeovers of a run since its last committed step; one from a worker that
	// shut down is not counted. The worker that would exceed it fails the run with CodeRunCrashed, so that a run that
	// crashes its worker does not crash every worker. The runs of dead workers start one at a time in a process, within
	// limits; from the second takeover on, the agent is called after a delay. Defaults to 3; Off is unlimited, without
	// the delays.
	MaxTakeovers int

	// ShutdownTimeout is how long a running step may continue after the context of Run has ended. Uncommitted
	// output is rolled back by the next worker. Defaults to 5 seconds; Off cancels running steps at once.
	ShutdownTimeout time.Duration

	// Layout names the subjects, streams and buckets. All programs of one deployment use the same Layout.
	Layout subjects.Layout

	// Lease is how long after the last sign of life of a worker its run moves to another one. All workers of an
	// agent type share the value: the one that started last sets it. Defaults to 5 seconds, at least 100 ms.
	Lease time.Duration

	// Concurrency is the maximum number of runs of one agent type in this process. Other commands stay on the
	// server, where any worker can take them. Defaults to 64.
	Concurrency int

	// RetryDelay is how long a command waits after its first failure; the delay doubles with every failure, up to
	// 30 seconds. Defaults to 500 milliseconds, at most 30 seconds.
	RetryDelay time.Duration

	// RetryTimeout is how long one write is retried while the server is unreachable or does not accept it; then
	// the run moves to another worker. Defaults to 30 seconds.
	RetryTimeout time.Duration

	// Pace is the shortest time between two records of a block of deltas, see producers.Config. Defaults to 60 milliseconds;
	// Off publishes every delta as soon as the previous record is stored, for agents whose text is spoken.
	Pace time.Duration

	// MaxSessionChunks and MaxSessionBytes are the limits of producers.Config, with its defaults; a run over one fails with CodeSessionLimit. Off is unlimited.
	MaxSessionChunks int64
	MaxSessionBytes  int64

	// TokensPerDay, if not nil, returns the number of tokens that a tenant may use in a day in UTC, in all processes; 0 is
	// unlimited. A run of a tenant that has used as many fails with CodeTokenBudget before its next step. It is a limit for
	// steps that begin: those that are running, and those that begin within about a second in other processes, may exceed it.
	// While the usage cannot be read, what is known of it counts. TokensPerDay may be called concurrently.
	//
	// The tokens of Step.Usage are counted for all tenants, input and output, also those of steps that fail or are repeated.
	TokensPerDay func(tenant string) int64

	// Format is the encoding of stored chunks. Defaults to JSON.
	Format codec.Format

	// Observe, if not nil, receives the commands that Run handles.
	Observe Observer

	// ObservePublish, if not nil, is called with the outcome of each record that a run writes, see producers.Config.
	ObservePublish func(outcome producers.Outcome, took time.Duration, attempts int)

	// TracerProvider, if not nil, gets spans of commands, runs, steps and tool calls, with the attributes of OpenTelemetry's conventions for generative AI and
	// without text. A run has the trace of the request that caused it. An agent finds the span of its step in the context: it may add attributes, such as
	// gen_ai.request.model, and spans below it.
	TracerProvider trace.TracerProvider

	// Log gets the failures, takeovers and retries of runs. Nil disables logging.
	Log *slog.Logger

	maxDelta int              // of the producer; set by tests to keep deltas apart
	now      func() time.Time // time of the start of steps, and of the day of used tokens; set by tests
}

// Off switches off the limit or the delay of a Config field that supports it.
const Off = -1

const defaultMaxSteps = 50

func (c Config) withDefaults() Config {
	c.MaxSteps = cmp.Or(c.MaxSteps, defaultMaxSteps)
	c.MaxTakeovers = cmp.Or(c.MaxTakeovers, defaultMaxTakeovers)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 5*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.now == nil {
		c.now = time.Now
	}
	return c
}

func (c Config) validate() error {
	if len(c.Agents) == 0 {
		return errors.New("Agents is empty, want at least one")
	}
	for name, agent := range c.Agents {
		if err := subjects.CheckToken("agent type", name); err != nil {
			return fmt.Errorf("Agents: %w", err)
		}
		if agent == nil {
			return fmt.Errorf("Agents: %q is nil", name)
		}
	}
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	switch { // before commands and producers, whose errors name other fields
	case c.Lease != 0 && c.Lease < 100*time.Millisecond:
		return fmt.Errorf("Lease is %s, want at least 100ms", c.Lease)
	case c.Concurrency < 0:
		return fmt.Errorf("Concurrency is %d, want at least 1", c.Concurrency)
	case c.RetryDelay < 0 || c.RetryDelay > 30*time.Second:
		return fmt.Errorf("RetryDelay is %s, want more than 0 and at most 30s", c.RetryDelay)
	case c.RetryTimeout < 0:
		return fmt.Errorf("RetryTimeout is %s, want more than 0", c.RetryTimeout)
	}
	return nil
}

func (c Config) queue() jscontrol.QueueConfig {
	return jscontrol.QueueConfig{Layout: c.Layout, AckWait: c.Lease, Concurrency: c.Concurrency, RetryDelay: c.RetryDelay, Log: c.Log}
}

func (c Config) producer(positions producers.PositionStore) producers.Config {
	return producers.Config{
		MaxSessionChunks: c.MaxSessionChunks, MaxSessionBytes: c.MaxSessionBytes,
		Layout: c.Layout, Positions: positions, Pace: c.Pace, RetryTimeout: c.RetryTimeout, Format: c.Format, MaxDelta: c.maxDelta, Observe: c.ObservePublish, Log: c.Log,
	}
}
