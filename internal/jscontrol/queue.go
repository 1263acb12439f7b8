package jscontrol

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// QueueConfig configures a Queue. The zero QueueConfig is ready for production.
type QueueConfig struct {
	// Layout names the subjects and the stream. All processes of a deployment share it.
	Layout subjects.Layout

	// MaxRuns, if not nil, returns the maximum number of commands of a tenant on the queue, waiting and in progress, with which Request and Publish accept another Execute; 0
	// is unlimited. It does not limit sub-agents, which count, and resumed runs.
	MaxRuns func(tenant string) int

	// RetryTimeout limits the retries of Publish, Request and PublishAt while the outcome is unknown, and of Pending while the server is unavailable. It must
	// be shorter than the duplicate window of the stream. Defaults to 10 seconds.
	RetryTimeout time.Duration

	// AckWait is the time without a progress message of its worker after which a command is redelivered to another one. Workers of one agent type share the
	// value: the last to start sets it. Defaults to 5 seconds.
	AckWait time.Duration

	// Concurrency is the number of commands of one agent type that a Serve call handles at a time. Other commands stay on the server, where any worker can
	// fetch them. An Expire does not wait for runs: the same number of them is handled in addition. Defaults to 64.
	Concurrency int

	// RetryDelay is the delay of the redelivery after a command failed for the first time; it doubles with every failure up to 30 seconds. Defaults to half a
	// second.
	RetryDelay time.Duration

	// Log receives commands that were rejected, have failed or lost their worker. Defaults to none.
	Log *slog.Logger
}

const maxRetryDelay = 30 * time.Second

func (c QueueConfig) withDefaults() QueueConfig {
	c.RetryTimeout = cmp.Or(c.RetryTimeout, 10*time.Second)
	c.AckWait = cmp.Or(c.AckWait, 5*time.Second)
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	c.RetryDelay = cmp.Or(c.RetryDelay, 500*time.Millisecond)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
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

// Queue publishes and serves commands. It owns no resources; its methods are safe for concurrent use.
type Queue struct {
	js  jetstream.JetStream
	api *jsclient.Client
	cfg QueueConfig
}

// NewQueue returns a Queue over js. The stream must exist when it is used (package topology creates it); until then Publish fails and Serve waits.
func NewQueue(js jetstream.JetStream, cfg QueueConfig) (*Queue, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("commands: %w", err)
	}
	return &Queue{js: js, api: jsclient.New(js), cfg: cfg}, nil
}

// Now returns the time of the server, see jsclient.Client.Now.
func (q *Queue) Now(ctx context.Context) (time.Time, error) {
	return q.api.Now(ctx, names.Layout(q.cfg.Layout).CommandStream())
}

// SweepTime returns the time for a sweep, see jsclient.Client.SweepTime.
func (q *Queue) SweepTime(ctx context.Context, host func() time.Time) (time.Time, error) {
	return q.api.SweepTime(ctx, names.Layout(q.cfg.Layout).CommandStream(), host)
}
