package consumers

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Reader. The zero Config is ready for production.
type Config struct {
	// Layout names the subjects and streams of the log. It must be the same for all programs that share the log.
	Layout subjects.Layout

	// Heartbeat is the interval at which the server sends a heartbeat while it has no new message. After three intervals without a message or a heartbeat
	// the reader attaches again and checks that the log is still the one it read. Defaults to 2 seconds, 100 ms to 3 seconds.
	Heartbeat time.Duration

	// OpenTimeout is how long the beginning of a read waits for a response of NATS before it fails. A read that has begun waits until its context
	// ends. Defaults to 10 seconds.
	OpenTimeout time.Duration

	// OnMalformed is called for malformed messages in the log, which are counted and skipped. It is called by the goroutine that iterates and must be
	// safe for concurrent use. Defaults to a warning in Log, at most one per second.
	OnMalformed func(Malformed)

	// Log gets warnings and debug messages. Nil disables logging.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, 2*time.Second)
	c.OpenTimeout = cmp.Or(c.OpenTimeout, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	if c.Heartbeat < 100*time.Millisecond || c.Heartbeat > 3*time.Second {
		return fmt.Errorf("Heartbeat is %s, want 100ms to 3s", c.Heartbeat)
	}
	if c.OpenTimeout < 0 {
		return fmt.Errorf("OpenTimeout is %s, want more than 0", c.OpenTimeout)
	}
	return nil
}
