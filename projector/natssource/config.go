package natssource

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Config shapes a Source. The zero Config is ready for production.
type Config struct {
	// Layout names the stream.
	Layout subjects.Layout

	// Partition is the stream to read.
	Partition int

	// Name of the durable consumer. Sources with the same name share the work.
	// Defaults to "projector".
	Name string

	// Batch is how many records are handed over at a time, at most. Defaults to
	// 500.
	Batch int

	// Unacknowledged is how many records the server sends ahead of their
	// acknowledgement. It bounds the memory of whoever takes them. Defaults to
	// 20000.
	Unacknowledged int

	// AckWait is when the server sends a record again that nobody acknowledged.
	// Defaults to 30 s.
	AckWait time.Duration

	// Takeover is after how long a silence of the owner another Source gets the
	// partition. Defaults to 6 s, at least 3.
	Takeover time.Duration

	// Bucket is the key-value bucket that is saved to before records are
	// acknowledged. The consumer belongs to it: when it was deleted and made
	// again, what was acknowledged is nowhere any more, and the Source begins at
	// the start of the log. Defaults to that of the Layout.
	Bucket string

	// Foreign, if not nil, is told of messages that are no records. One that it
	// fails for comes again after AckWait, a few times.
	Foreign func(ctx context.Context, f Foreign) error

	// Metrics, if not nil, gets lag and redeliveries; the Sources of one process
	// share them.
	Metrics *Metrics

	// Log, if not nil, gets what goes wrong.
	Log *slog.Logger
}

// Foreign is a message in the log that is no record.
type Foreign struct {
	Partition int
	Subject   string
	Seq       chunk.Seq
	Stored    time.Time
	Err       error // *subjects.ParseError or *codec.EnvelopeError
}

func (c Config) withDefaults() Config {
	if c.Bucket == "" {
		c.Bucket = c.Layout.Snapshots()
	}
	if c.Name == "" {
		c.Name = "projector"
	}
	if c.Batch == 0 {
		c.Batch = 500
	}
	if c.Unacknowledged == 0 {
		c.Unacknowledged = 20_000
	}
	if c.AckWait == 0 {
		c.AckWait = 30 * time.Second
	}
	if c.Takeover == 0 {
		c.Takeover = 6 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	if err := subjects.CheckToken("Name", c.Name); err != nil {
		return err
	}
	switch {
	case c.Partition < 0 || c.Partition >= c.Layout.PartitionCount():
		return fmt.Errorf("Partition is %d, want 0 to %d", c.Partition, c.Layout.PartitionCount()-1)
	case c.Batch < 1 || c.Batch > 10_000:
		return fmt.Errorf("Batch is %d, want 1 to 10000", c.Batch)
	case c.Unacknowledged < c.Batch:
		return fmt.Errorf("Unacknowledged is %d, want at least Batch, %d", c.Unacknowledged, c.Batch)
	case c.AckWait < time.Second:
		return fmt.Errorf("AckWait is %s, want at least 1s", c.AckWait)
	case c.Takeover < 3*time.Second:
		return fmt.Errorf("Takeover is %s, want at least 3s", c.Takeover)
	}
	return nil
}
