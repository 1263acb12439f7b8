package producers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/subjects"
)

// Off switches off the delay or the limit of a Config field that supports it.
const Off = -1

// DefaultSessionBytes is the default of Config.MaxSessionBytes: 64 MiB, so that all of a session can be folded again in the memory that a projector has by default.
const DefaultSessionBytes = 64 << 20

// Config configures a Producer. Positions is required, and the other fields are ready for production. In every field 0 means the default, and Off (a negative number) disables the delay
// or the limit where the field supports it.
type Config struct {
	// Layout names subjects and streams. It must be the same as that of the readers.
	Layout subjects.Layout

	// Pace is the shortest time between two records of a block of deltas: a delta that continues a block waits until Pace has passed since the record before
	// it, and is merged with later ones. Other records, Write and Flush end the wait. Defaults to 60 milliseconds; Off, for speech, sends every delta as soon as
	// the previous record is stored, merged with those that were emitted meanwhile.
	Pace time.Duration

	// MaxDelta is the size in bytes of text at which merged deltas are sent without further delay, at most an eighth of MaxChunk. Defaults to 4 KiB.
	MaxDelta int

	// MaxQueue is the maximum number of queued records of one run, at which Emit blocks. Merged deltas count once. Defaults to 1,024.
	MaxQueue int

	// MaxQueueBytes is the size of the queued records of one run, in bytes, at which Emit blocks; a run uses at most this and one chunk. Defaults to 16 MiB.
	MaxQueueBytes int

	// MaxChunk is the maximum size of the JSON of one chunk in bytes. A larger chunk is rejected with chunk.ErrTooLarge, a larger delta is split. The limits
	// of the stream and of the server must be higher, with a reserve for headers. Defaults to 512 KiB.
	MaxChunk int

	// MaxSessionChunks is the number of records of a session, over all its runs, at which further chunks are rejected with ErrSessionLimit. Records of the
	// run itself, such as its end, are still stored. Defaults to 10 million; Off is unlimited.
	MaxSessionChunks int64

	// MaxSessionBytes is the size in bytes of the bodies of a session, over all its runs, at which further chunks are rejected with ErrSessionLimit. Records of
	// the run itself are stored up to 4 MiB beyond it, and the end of a run always. Removed chunks count. Defaults to DefaultSessionBytes; Off is unlimited.
	MaxSessionBytes int64

	// AttemptTimeout is the timeout of one attempt to publish. Defaults to 2 seconds.
	AttemptTimeout time.Duration

	// RetryTimeout is the retry budget of one record while the server is unreachable or does not accept it. Defaults to 30 seconds.
	RetryTimeout time.Duration

	// Format is the stored format of bodies. Defaults to JSON.
	Format codec.Format

	// Observe, if not nil, is called with the outcome of each record, for metrics. took is the time since its first attempt, attempts their number. Calls may
	// overlap and must not block: they are part of the publish.
	Observe func(outcome Outcome, took time.Duration, attempts int)

	// Log, if not nil, gets the retries and failures.
	Log *slog.Logger

	// Positions returns the last position of a session whose records have expired, so that ordinals and epochs continue. Required; with NoPositions they
	// restart.
	Positions PositionStore
}

// PositionStore keeps the positions of sessions for longer than the log does. Package tailrace uses its snapshots.
type PositionStore interface {
	// StoredPosition returns the last known position of s, the highest known epoch, and the chunk.Record.SessionBytes of that position, or zero values. It may be
	// called concurrently, with AttemptTimeout.
	StoredPosition(ctx context.Context, s chunk.Session) (at chunk.Position, epoch chunk.Epoch, sessionBytes int64, err error)
}

// NoPositions is a PositionStore without positions: a session whose records have all expired starts again with ordinal 1. A projector keeps its messages and
// continues with the new records.
var NoPositions PositionStore = noPositions{}

type noPositions struct{}

// StoredPosition implements PositionStore.
func (noPositions) StoredPosition(context.Context, chunk.Session) (at chunk.Position, epoch chunk.Epoch, sessionBytes int64, err error) {
	return chunk.Position{}, 0, 0, nil
}

func (c Config) withDefaults() Config {
	c.Pace = cmp.Or(c.Pace, 60*time.Millisecond)
	c.MaxDelta = cmp.Or(c.MaxDelta, 4<<10)
	c.MaxQueue = cmp.Or(c.MaxQueue, 1024)
	c.MaxQueueBytes = cmp.Or(c.MaxQueueBytes, 16<<20)
	c.MaxChunk = cmp.Or(c.MaxChunk, 512<<10)
	c.MaxSessionChunks = cmp.Or(c.MaxSessionChunks, 10_000_000)
	c.MaxSessionBytes = cmp.Or(c.MaxSessionBytes, DefaultSessionBytes)
	c.AttemptTimeout = cmp.Or(c.AttemptTimeout, 2*time.Second)
	c.RetryTimeout = cmp.Or(c.RetryTimeout, 30*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// minChunk is large enough for the base members of a split delta and of an end.
const minChunk = 4 << 10

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	switch {
	case c.Positions == nil:
		return errors.New("Positions is nil, want a PositionStore or NoPositions")
	case c.MaxDelta < 1:
		return fmt.Errorf("MaxDelta is %d, want at least 1", c.MaxDelta)
	case c.MaxQueue < 1:
		return fmt.Errorf("MaxQueue is %d, want at least 1", c.MaxQueue)
	case c.MaxQueueBytes < 1:
		return fmt.Errorf("MaxQueueBytes is %d, want at least 1", c.MaxQueueBytes)
	case c.MaxChunk < minChunk:
		return fmt.Errorf("MaxChunk is %d, want at least %d", c.MaxChunk, minChunk)
	case c.AttemptTimeout <= 0:
		return fmt.Errorf("AttemptTimeout is %s, want more than 0", c.AttemptTimeout)
	case c.RetryTimeout <= 0:
		return fmt.Errorf("RetryTimeout is %s, want more than 0", c.RetryTimeout)
	case c.Format != codec.FormatJSON && c.Format != codec.FormatMsgpack:
		return fmt.Errorf("Format is %d, want codec.FormatJSON or codec.FormatMsgpack", int(c.Format))
	}
	return nil
}
