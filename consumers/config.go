package consumers

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Reader. The zero Config is ready for production.
type Config struct {
	// Layout says which subjects and streams hold the log. The same for all
	// programs that share it.
	Layout subjects.Layout

	// Heartbeat is how often the server says that nothing is new. After three
	// of them in vain the reader attaches anew and checks that the log is
	// still the one it read. Defaults to 2 seconds, 100 ms to 3 seconds.
	Heartbeat time.Duration

	// Patience is how long the beginning of a read waits for NATS to answer
	// before it fails. A read that has begun waits for as long as its context
	// lets it. Defaults to 10 seconds.
	Patience time.Duration

	// Archives lets reads take the history of a session from its archive, when
	// there is one and it is exactly what the log has. They give the same,
	// sooner; where there are no archives, a read begins one request later.
	Archives bool

	// OnForeign is told of messages in the log that are no records; they are
	// counted and passed over. It is called by the goroutine that iterates and
	// must be safe for concurrent use. Defaults to a warning in Log, at most
	// one per second.
	OnForeign func(Foreign)

	// Log is where the package speaks. Defaults to slog.Default().
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Heartbeat == 0 {
		c.Heartbeat = 2 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	if c.Heartbeat < 100*time.Millisecond || c.Heartbeat > 3*time.Second {
		return fmt.Errorf("Heartbeat is %s, want 100ms to 3s", c.Heartbeat)
	}
	if c.Patience < 0 {
		return fmt.Errorf("Patience is %s, want more than 0", c.Patience)
	}
	return nil
}
