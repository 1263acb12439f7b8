package jssnapshots

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

// Durable is the name of the consumer that the projectors of a partition share.
const Durable = "projector"

// maxAckPending is how many records the server sends ahead of their acknowledgement, so it bounds the memory of the projector.
const maxAckPending = 20_000

// SourceConfig shapes a Source. The zero value is ready for production.
type SourceConfig struct {
	// Layout names the stream, and the bucket to which snapshots are saved before records are acknowledged. The position of the consumer belongs to both: if the
	// bucket was recreated, the acknowledged records are not saved, and the Source begins at the start of the log.
	Layout subjects.Layout

	// Partition selects the stream.
	Partition int

	// Name of the durable consumer. Sources with the same name share the work. Defaults to Durable.
	Name string

	// Batch is the maximum number of records of one batch. Defaults to 500.
	Batch int

	// AckWait is the time after which the server redelivers an unacknowledged record. Defaults to 30 s.
	AckWait time.Duration

	// TakeoverTimeout is the time without requests of the process that reads the partition after which another Source gets it. Defaults to 6 s, at least 3 s.
	TakeoverTimeout time.Duration

	// OnMalformed, if not nil, is called for malformed messages. If it fails, the message is delivered again after AckWait, a few times.
	OnMalformed func(ctx context.Context, f Malformed) error

	// Observe, if not nil, gets lag and redeliveries; the Sources of one process share it.
	Observe SourceObserver

	// Log, if not nil, gets warnings and errors.
	Log *slog.Logger
}

// Malformed is a message in the log that is not a record.
type Malformed struct {
	Partition int
	Subject   string
	Seq       chunk.Seq
	Stored    time.Time
	Err       error // of subjects.Layout.Parse, or a *codec.EnvelopeError
}

func (c SourceConfig) withDefaults() SourceConfig {
	c.Name = cmp.Or(c.Name, Durable)
	c.Batch = cmp.Or(c.Batch, 500)
	c.AckWait = cmp.Or(c.AckWait, 30*time.Second)
	c.TakeoverTimeout = cmp.Or(c.TakeoverTimeout, 6*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c SourceConfig) validate() error {
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
	case c.AckWait < time.Second:
		return fmt.Errorf("AckWait is %s, want at least 1s", c.AckWait)
	case c.TakeoverTimeout < 3*time.Second:
		return fmt.Errorf("TakeoverTimeout is %s, want at least 3s", c.TakeoverTimeout)
	}
	return nil
}

// SourceObserver receives what the Sources of a process measure. Calls may overlap and must not block.
type SourceObserver interface {
	// Redelivered is called for each delivery that is not the first one of its record.
	Redelivered()

	// Lag is called regularly with the number of records of a partition that are not in a saved snapshot yet, and the age of the oldest of them. All
	// Sources of a partition report the same, also those that wait for it.
	Lag(partition int, records uint64, oldest time.Duration)

	// LagUnknown is called when the Source of a partition ends: its last Lag is out of date from then on.
	LagUnknown(partition int)
}
