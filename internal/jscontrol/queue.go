package jscontrol

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/subjects"
)

// QueueConfig shapes a Queue. The zero QueueConfig is ready for production.
type QueueConfig struct {
	// Layout names the subjects and the stream. All programs of one Tailrace
	// share it.
	Layout subjects.Layout

	// RetryTimeout bounds the retries of Publish, Request and PublishAt while it is unknown whether the command is stored, and of Pending while the server is
	// unavailable. It must be shorter than the duplicate window of the stream. Defaults to 10 seconds.
	RetryTimeout time.Duration

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

	// Log receives commands that were rejected, failed or lost their worker. Defaults to none.
	Log *slog.Logger
}

const maxRetryDelay = 30 * time.Second

func (c QueueConfig) withDefaults() QueueConfig {
	if c.RetryTimeout == 0 {
		c.RetryTimeout = 10 * time.Second
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

func (c QueueConfig) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	if c.RetryTimeout < 0 {
		return fmt.Errorf("RetryTimeout is %s, want more than 0", c.RetryTimeout)
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
	api *jsclient.Client
	cfg QueueConfig
}

// NewQueue returns a Queue over js. The stream must exist by the time it is used
// (package topology makes it); until then Publish fails and Serve waits.
func NewQueue(js jetstream.JetStream, cfg QueueConfig) (*Queue, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	return &Queue{js: js, api: jsclient.New(js), cfg: cfg}, nil
}
