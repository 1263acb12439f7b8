package topology

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/subjects"
)

const (
	// MaxChunk is the largest stored body of a chunk in bytes.
	MaxChunk = 512 << 10

	// HeaderRoom is what a stream allows on top for the headers of a message,
	// which the server counts as part of it. Ours take 300 bytes, with a
	// trace context and the longest names about 2 KiB; other producers of
	// CloudEvents may be more generous.
	HeaderRoom = 16 << 10
)

// Config shapes the streams. The zero Config is ready for one server.
type Config struct {
	// Layout names everything and says how many partitions there are.
	Layout subjects.Layout

	// Replicas is 1, or 3 on a cluster: then one server may be lost at any
	// time. Defaults to 1.
	Replicas int

	// Storage defaults to files. Memory is for tests and loses everything
	// when the server stops.
	Storage jetstream.StorageType

	// MaxAge is how long the log keeps a record. Defaults to 72 hours.
	MaxAge time.Duration

	// MaxBytes is the size of each stream of the log at which its oldest
	// records go before their time. Defaults to 0, no limit but the disk.
	MaxBytes int64

	// MaxMsgSize is the largest message of the log, of the work queue and of the
	// inbox in bytes, headers included. Defaults to MaxChunk + HeaderRoom; the server's
	// max_payload must be as large.
	MaxMsgSize int32

	// MaxConsumers bounds the consumers of each stream of the log: one per
	// edge, projector and firehose, and one for each catch-up that is on its
	// way. They cost the server about 25 KB each, so this bounds its memory
	// too. Defaults to 4096; the server's own default of 1000 is too few for
	// a fleet of edges after a restart.
	MaxConsumers int

	// CommandMaxAge is how long a command waits for a worker before it is
	// forgotten. Defaults to 24 hours.
	CommandMaxAge time.Duration

	// InboxMaxAge is how long an answer is kept for a run that waits for others,
	// InboxMaxBytes how many bytes of them; beyond it new ones are refused. They
	// default to 30 days and 0, no limit but the disk.
	InboxMaxAge   time.Duration
	InboxMaxBytes int64

	// SnapshotMaxBytes bounds the bucket; beyond it writes are refused.
	// Defaults to 0, no limit but the disk. There is no age: a session's
	// messages are written once and would be gone before its head.
	SnapshotMaxBytes int64

	// ObjectMaxBytes bounds the bucket of what is too large for the other;
	// beyond it writes are refused. Defaults to 0, no limit but the disk.
	ObjectMaxBytes int64

	// DeadLetterMaxAge is how long a message that could not be folded is kept.
	// Defaults to 30 days.
	DeadLetterMaxAge time.Duration

	// DeadLetterMaxBytes is how many bytes of them are kept, which the server
	// sets aside at once; beyond it the oldest go. Defaults to 64 MiB.
	DeadLetterMaxBytes int64

	// MaxSnapshot is the largest value in the bucket in bytes, its headers
	// included. Defaults to 1 MiB, the server's own max_payload.
	MaxSnapshot int32
}

func (c Config) withDefaults() Config {
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.MaxAge == 0 {
		c.MaxAge = 72 * time.Hour
	}
	if c.MaxMsgSize == 0 {
		c.MaxMsgSize = MaxChunk + HeaderRoom
	}
	if c.MaxConsumers == 0 {
		c.MaxConsumers = 4096
	}
	if c.CommandMaxAge == 0 {
		c.CommandMaxAge = 24 * time.Hour
	}
	if c.InboxMaxAge == 0 {
		c.InboxMaxAge = 30 * 24 * time.Hour
	}
	if c.DeadLetterMaxAge == 0 {
		c.DeadLetterMaxAge = 30 * 24 * time.Hour
	}
	if c.DeadLetterMaxBytes == 0 {
		c.DeadLetterMaxBytes = 64 << 20
	}
	if c.MaxSnapshot == 0 {
		c.MaxSnapshot = 1 << 20
	}
	return c
}

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	switch {
	case c.Replicas != 1 && c.Replicas != 3:
		return fmt.Errorf("Replicas is %d, want 1 or 3", c.Replicas)
	case c.MaxAge < time.Minute:
		return fmt.Errorf("MaxAge is %s, want at least 1m", c.MaxAge)
	case c.MaxBytes < 0:
		return fmt.Errorf("MaxBytes is %d, want 0 (no limit) or more", c.MaxBytes)
	case c.MaxMsgSize < HeaderRoom:
		return fmt.Errorf("MaxMsgSize is %d, want at least %d, the room for headers", c.MaxMsgSize, HeaderRoom)
	case c.MaxConsumers < 1:
		return fmt.Errorf("MaxConsumers is %d, want at least 1", c.MaxConsumers)
	case c.CommandMaxAge < commandWindow:
		return fmt.Errorf("CommandMaxAge is %s, want at least %s", c.CommandMaxAge, commandWindow)
	case c.InboxMaxAge < commandWindow:
		return fmt.Errorf("InboxMaxAge is %s, want at least %s", c.InboxMaxAge, commandWindow)
	case c.InboxMaxBytes < 0:
		return fmt.Errorf("InboxMaxBytes is %d, want 0 (no limit) or more", c.InboxMaxBytes)
	case c.SnapshotMaxBytes < 0:
		return fmt.Errorf("SnapshotMaxBytes is %d, want 0 (no limit) or more", c.SnapshotMaxBytes)
	case c.ObjectMaxBytes < 0:
		return fmt.Errorf("ObjectMaxBytes is %d, want 0 (no limit) or more", c.ObjectMaxBytes)
	case c.DeadLetterMaxAge < time.Minute:
		return fmt.Errorf("DeadLetterMaxAge is %s, want at least 1m", c.DeadLetterMaxAge)
	case c.DeadLetterMaxBytes < 1<<20:
		return fmt.Errorf("DeadLetterMaxBytes is %d, want at least %d", c.DeadLetterMaxBytes, 1<<20)
	case c.MaxSnapshot < HeaderRoom:
		return fmt.Errorf("MaxSnapshot is %d, want at least %d", c.MaxSnapshot, HeaderRoom)
	}
	return nil
}
