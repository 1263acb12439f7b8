package hub

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tailrace/tailrace/chunk"
)

// Encode appends the frame of a record for readers of the given scope, or
// nothing if the record is not shown to them. It must be pure: a record is encoded
// once for all clients. Chunks, run_started and all records of a root must have the
// same frame in both scopes. helix.Encode is an example.
type Encode func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte

// Config configures a Hub. All fields but Encode have defaults.
type Config struct {
	// Encode makes the frames of requests without an encoding. Required.
	Encode Encode

	// Encodings are further encodings by name: other dialects, or a dialect with
	// parts hidden from an audience. A session that is watched in two encodings is
	// encoded, stored in memory and read from the log once for each of them.
	Encodings map[string]Encode

	// Partitions is the number of streams of the log. Defaults to 1.
	Partitions int

	// MaxMemory bounds the frames of all sessions together, in bytes. The least
	// recently read segments are evicted first. Beside it there is at most a page for
	// each of MaxReads. Defaults to 256 MiB.
	MaxMemory int64

	// PageBytes is how much history one read of the log loads, in bytes of frames.
	// Defaults to 1 MiB.
	PageBytes int

	// MaxReads bounds the concurrent reads of the log; further reads wait. Defaults
	// to 16.
	MaxReads int

	// IdleTTL is how long a session without clients stays in memory, for clients
	// that reconnect. Defaults to 30 seconds.
	IdleTTL time.Duration

	// FeedLinger is how long a feed without clients stays open. The
	// next client after that waits for one request, and sessions that were in memory
	// are read from the log again. Defaults to 1 minute.
	FeedLinger time.Duration

	// TracerProvider, if not nil, gets a span for each live record that starts,
	// pauses or ends a traced run of a session with clients, with a link to the run.
	TracerProvider trace.TracerProvider

	// Log gets skipped messages, failed feeds and gaps; never the errors of a single
	// client. Defaults to no logging.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Partitions = cmp.Or(c.Partitions, 1)
	c.MaxMemory = cmp.Or(c.MaxMemory, 256<<20)
	c.PageBytes = cmp.Or(c.PageBytes, 1<<20)
	c.MaxReads = cmp.Or(c.MaxReads, 16)
	c.IdleTTL = cmp.Or(c.IdleTTL, 30*time.Second)
	c.FeedLinger = cmp.Or(c.FeedLinger, time.Minute)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	switch {
	case c.Encode == nil:
		return errors.New("Encode is nil, want a function")
	case slices.Contains(slices.Collect(maps.Keys(c.Encodings)), ""):
		return errors.New("Encodings has an empty name")
	case c.Partitions < 0:
		return fmt.Errorf("Partitions is %d, want more than 0", c.Partitions)
	case c.MaxMemory < 0:
		return fmt.Errorf("MaxMemory is %d, want more than 0", c.MaxMemory)
	case c.PageBytes < 0:
		return fmt.Errorf("PageBytes is %d, want more than 0", c.PageBytes)
	case c.MaxReads < 0:
		return fmt.Errorf("MaxReads is %d, want more than 0", c.MaxReads)
	case c.IdleTTL < 0:
		return fmt.Errorf("IdleTTL is %s, want more than 0", c.IdleTTL)
	case c.FeedLinger < 0:
		return fmt.Errorf("FeedLinger is %s, want more than 0", c.FeedLinger)
	}
	return nil
}
