package projector

import (
	"fmt"
	"log/slog"
	"time"
)

// Config shapes a Runner. The zero Config is ready for production.
type Config struct {
	// SaveRecords is after how many records a session is saved at the latest.
	// It is saved earlier at the end of a step or a run. Defaults to 200.
	SaveRecords int

	// SaveAfter is how long an applied record waits at most for a save, and with
	// it its acknowledgement. It must be well below the time after which the
	// Source delivers again. Defaults to 500 ms.
	SaveAfter time.Duration

	// Owed is how many deliveries may wait for a save, of all sessions together;
	// beyond it everything is saved. It must be well below the number that the
	// Source delivers ahead of acknowledgements. Defaults to 8192.
	Owed int

	// Sessions is how many sessions are kept in memory, Memory about how many
	// bytes of them. The least recently used is saved and let go when there are
	// more. They default to 4096 and 256 MiB.
	Sessions int
	Memory   int

	// Parallel is how many sessions are loaded, folded or saved at the same
	// time. Defaults to 8.
	Parallel int

	// Patience is how long one work on a session may come no further: loading,
	// the next record of catching up, saving. What takes longer is tried again,
	// after a pause that grows up to Patience.
	// Defaults to 10 s.
	Patience time.Duration

	// DeadLetter, if not nil, is told of records that cannot be folded.
	DeadLetter DeadLetter

	// Metrics, if not nil, counts what this Runner does; the Runners of one
	// process share them.
	Metrics *Metrics

	// Log, if not nil, gets what goes wrong.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.SaveRecords == 0 {
		c.SaveRecords = 200
	}
	if c.SaveAfter == 0 {
		c.SaveAfter = 500 * time.Millisecond
	}
	if c.Owed == 0 {
		c.Owed = 8192
	}
	if c.Sessions == 0 {
		c.Sessions = 4096
	}
	if c.Memory == 0 {
		c.Memory = 256 << 20
	}
	if c.Parallel == 0 {
		c.Parallel = 8
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"SaveRecords", c.SaveRecords}, {"Owed", c.Owed}, {"Sessions", c.Sessions}, {"Memory", c.Memory}, {"Parallel", c.Parallel}} {
		if n.value < 1 {
			return fmt.Errorf("%s is %d, want at least 1", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"SaveAfter", c.SaveAfter}, {"Patience", c.Patience}} {
		if d.value <= 0 {
			return fmt.Errorf("%s is %s, want more than 0", d.name, d.value)
		}
	}
	return nil
}
