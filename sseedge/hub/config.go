package hub

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Encode appends the frame of a record for readers of the given scope, or
// nothing when they are shown nothing for it. It must be pure: the bytes are
// made once and given to all. Chunks, run_started and all records of a root
// must come out the same in both scopes. native.Encode is one.
type Encode func(dst []byte, rec chunk.Record, scope chunk.Scope) []byte

// Config shapes a Hub. The zero Config is ready for production but for Encode,
// which is required.
type Config struct {
	// Encode makes the frames of requests that name no encoding.
	Encode Encode

	// Encodings are further ones by name: other dialects, or the same one with
	// something left out for an audience. What is watched in two encodings is
	// encoded, kept and read from the log for each of them.
	Encodings map[string]Encode

	// Partitions is the number of feeds. Defaults to 1.
	Partitions int

	// Partition tells which of them carries a session; all sessions of one root
	// must be in one. Required when there is more than one.
	Partition func(chunk.Session) int

	// Memory bounds the frames held for all sessions together, in bytes. What
	// was read least recently goes first. Defaults to 256 MiB.
	Memory int64

	// Page is how much history one read of the log brings in, in bytes of
	// frames. Defaults to 1 MiB.
	Page int

	// Reads bounds the reads of the log that run at once on this node; others
	// wait their turn. Defaults to 16.
	Reads int

	// Grace is how long a session nobody watches is kept, for the reader who
	// comes back. Defaults to 30 seconds.
	Grace time.Duration

	// Log hears of records that were skipped, feeds that broke and holes that
	// were found; never of a client's own errors. Defaults to silence.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	if c.Partition == nil {
		c.Partition = func(chunk.Session) int { return 0 }
	}
	if c.Memory == 0 {
		c.Memory = 256 << 20
	}
	if c.Page == 0 {
		c.Page = 1 << 20
	}
	if c.Reads == 0 {
		c.Reads = 16
	}
	if c.Grace == 0 {
		c.Grace = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Encode == nil:
		return errors.New("Encode is nil, want a function")
	case slices.Contains(slices.Collect(maps.Keys(c.Encodings)), ""):
		return errors.New("Encodings has one without a name")
	case c.Partitions < 0:
		return fmt.Errorf("Partitions is %d, want more than 0", c.Partitions)
	case c.Partitions > 1 && c.Partition == nil:
		return fmt.Errorf("Partition is nil, want a function for %d partitions", c.Partitions)
	case c.Memory < 0:
		return fmt.Errorf("Memory is %d, want more than 0", c.Memory)
	case c.Page < 0:
		return fmt.Errorf("Page is %d, want more than 0", c.Page)
	case c.Reads < 0:
		return fmt.Errorf("Reads is %d, want more than 0", c.Reads)
	case c.Grace < 0:
		return fmt.Errorf("Grace is %s, want more than 0", c.Grace)
	}
	return nil
}
