package producers

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/subjects"
)

// NoLinger as Config.Linger sends every delta as soon as the one before it is
// stored. Deltas that come meanwhile still merge.
const NoLinger time.Duration = -1

// Config shapes a Producer. The zero Config is ready for production.
type Config struct {
	// Layout names subjects and streams. It must be that of the readers.
	Layout subjects.Layout

	// Linger is how long a delta that continues a block may wait for the next
	// one to merge with. The first delta of a block never waits. Defaults to
	// 10 milliseconds; NoLinger switches it off.
	Linger time.Duration

	// MaxDelta is the size in bytes of text at which merged deltas are sent
	// without waiting longer, at most an eighth of MaxChunk. Defaults to 4 KiB.
	MaxDelta int

	// Queue is how many records may wait in one run; Emit blocks when that
	// many do. Deltas that merge count once. Defaults to 1,024.
	Queue int

	// QueueBytes is how many bytes of them may wait; Emit blocks when there are
	// more, so a run holds at most this and one chunk. Defaults to 16 MiB.
	QueueBytes int

	// MaxChunk is the size limit of one chunk in bytes of its JSON. A larger
	// chunk is refused with chunk.ErrTooLarge, a larger delta is split. The
	// limits of the stream and of the server must be above it, with some room
	// for headers. Defaults to 512 KiB.
	MaxChunk int

	// Attempt is how long one attempt to publish waits for its answer.
	// Defaults to 2 seconds.
	Attempt time.Duration

	// Patience is how long a record is tried again while the server cannot be
	// reached or takes nothing. Defaults to 30 seconds.
	Patience time.Duration

	// Format is how bodies are stored. Defaults to JSON.
	Format codec.Format

	// Log hears of trouble that was waited out and of what was given up.
	// Defaults to silence.
	Log *slog.Logger

	// Heads, if not nil, knows where a session stood whose records have left
	// the log, so that its ordinals and epochs go on instead of starting over.
	Heads Heads
}

// Heads remembers sessions for longer than the log does; a store of snapshots
// fits.
type Heads interface {
	// Head is the last position and the highest epoch that were seen of s; all
	// zero when nothing was. Calls may overlap.
	Head(ctx context.Context, s chunk.Session) (chunk.Position, chunk.Epoch, error)
}

func (c Config) withDefaults() Config {
	if c.Linger == 0 {
		c.Linger = 10 * time.Millisecond
	}
	if c.MaxDelta == 0 {
		c.MaxDelta = 4 << 10
	}
	if c.Queue == 0 {
		c.Queue = 1024
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 16 << 20
	}
	if c.MaxChunk == 0 {
		c.MaxChunk = 512 << 10
	}
	if c.Attempt == 0 {
		c.Attempt = 2 * time.Second
	}
	if c.Patience == 0 {
		c.Patience = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// minChunk leaves every split delta, and every end, room for its base members.
const minChunk = 4 << 10

func (c Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return fmt.Errorf("Layout: %w", err)
	}
	switch {
	case c.Linger < 0 && c.Linger != NoLinger:
		return fmt.Errorf("Linger is %s, want more than 0, or NoLinger", c.Linger)
	case c.MaxDelta < 1:
		return fmt.Errorf("MaxDelta is %d, want at least 1", c.MaxDelta)
	case c.Queue < 1:
		return fmt.Errorf("Queue is %d, want at least 1", c.Queue)
	case c.QueueBytes < 1:
		return fmt.Errorf("QueueBytes is %d, want at least 1", c.QueueBytes)
	case c.MaxChunk < minChunk:
		return fmt.Errorf("MaxChunk is %d, want at least %d", c.MaxChunk, minChunk)
	case c.Attempt <= 0:
		return fmt.Errorf("Attempt is %s, want more than 0", c.Attempt)
	case c.Patience <= 0:
		return fmt.Errorf("Patience is %s, want more than 0", c.Patience)
	case c.Format != codec.FormatJSON && c.Format != codec.FormatMsgpack:
		return fmt.Errorf("Format is %d, want codec.FormatJSON or codec.FormatMsgpack", int(c.Format))
	}
	return nil
}
