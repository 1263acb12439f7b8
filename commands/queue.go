package commands

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsapi"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Queue. The zero Config is ready for production.
type Config struct {
	// Layout names the subjects and the stream. All programs of one Tailrace
	// share it.
	Layout subjects.Layout

	// Patience is how long Publish, Request and PublishAt keep trying while they
	// do not know whether the command is stored, and Pending while nobody
	// answers. It must be shorter than the duplicate window of
	// the stream. Defaults to 10 seconds.
	Patience time.Duration

	// AckWait is how long after the last sign of life of its worker a command
	// is given to another one. Workers of one agent type share the value: the
	// last to start sets it. Defaults to 5 seconds.
	AckWait time.Duration

	// Concurrency is how many commands of one agent type a Serve call handles
	// at a time. Others wait on the server, where any worker can take them. An
	// Expire does not wait behind runs: as many of them are handled beside.
	// Defaults to 64.
	Concurrency int

	// RetryDelay is how long a command rests after its handler failed for the
	// first time; it doubles with every failure up to 30 seconds. Defaults to
	// half a second.
	RetryDelay time.Duration

	// Log hears of commands that were refused, failed or lost their worker.
	// Defaults to no log.
	Log *slog.Logger
}

const maxRetryDelay = 30 * time.Second

func (c Config) withDefaults() Config {
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.AckWait == 0 {
		c.AckWait = 5 * time.Second
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
	}
	if c.RetryDelay == 0 {
		c.RetryDelay = 500 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	if c.Patience < 0 {
		return fmt.Errorf("Patience is %s, want more than 0", c.Patience)
	}
	if c.AckWait < 100*time.Millisecond {
		return fmt.Errorf("AckWait is %s, want at least 100ms", c.AckWait)
	}
	if c.Concurrency < 1 {
		return fmt.Errorf("Concurrency is %d, want at least 1", c.Concurrency)
	}
	if c.RetryDelay < 0 || c.RetryDelay > maxRetryDelay {
		return fmt.Errorf("RetryDelay is %s, want more than 0 and at most %s", c.RetryDelay, maxRetryDelay)
	}
	return nil
}

// Queue publishes and serves commands. It holds nothing but the connection it
// was given; its methods may be called from any goroutine.
type Queue struct {
	js  jetstream.JetStream
	api *jsapi.API
	cfg Config
}

// New returns a Queue over js. The stream must exist by the time it is used
// (package topology makes it); until then Publish fails and Serve waits.
func New(js jetstream.JetStream, cfg Config) (*Queue, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	return &Queue{js: js, api: jsapi.New(js), cfg: cfg}, nil
}
