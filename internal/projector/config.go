package projector

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Config holds the settings of a Runner. The zero Config is ready for production.
type Config struct {
	// SaveRecords is the maximum number of records of a session between two saves. The start, a pause and the end of a run cause
	// an earlier save. Defaults to 200.
	SaveRecords int

	// SaveAfter is the maximum delay between applying a record and saving it, and with it the delay of its acknowledgement. It
	// must be well below the redelivery timeout of the Source. Readers fold the records after the last save, so a longer delay
	// does not make a snapshot older; it makes saves fewer, and the work after a crash more. Defaults to 5 s.
	SaveAfter time.Duration

	// MaxUnsaved is the maximum number of unacknowledged deliveries of all sessions together; beyond it all sessions are saved.
	// It must be well below the number of unacknowledged deliveries that the Source allows. Defaults to 8192.
	MaxUnsaved int

	// MaxSessions and MaxMemory bound the sessions in memory: their number and approximately their bytes. Beyond them the least
	// recently used session is saved and evicted. They default to 4096 and 256 MiB.
	MaxSessions int
	MaxMemory   int

	// Budget, if not nil, bounds this Runner together with all others that have it, instead of MaxSessions and MaxMemory: the limits hold for a process, and not
	// for a partition.
	Budget *Budget

	// Parallel is the number of sessions that are loaded, folded or saved at the same time. Defaults to 64: so many sessions may
	// be slow before others wait for them.
	Parallel int

	// StallTimeout is the maximum time without progress while one session is processed: for loading, for each record of a
	// catch-up, for saving. After it the session is retried, with a delay that grows up to StallTimeout. Defaults to 10 s.
	StallTimeout time.Duration

	// DeadLetter, if not nil, receives records that cannot be folded.
	DeadLetter DeadLetterSink

	// Observe, if not nil, receives the events of the Runner. Several Runners may share it.
	Observe Observer

	// TracerProvider, if not nil, gets a span for each save with the start, a pause or the end of a run that is traced, with a link to the run.
	TracerProvider trace.TracerProvider

	// Log, if not nil, receives warnings and errors.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.SaveRecords = cmp.Or(c.SaveRecords, 200)
	c.SaveAfter = cmp.Or(c.SaveAfter, 5*time.Second)
	c.MaxUnsaved = cmp.Or(c.MaxUnsaved, 8192)
	c.MaxSessions = cmp.Or(c.MaxSessions, 4096)
	c.MaxMemory = cmp.Or(c.MaxMemory, 256<<20)
	c.Parallel = cmp.Or(c.Parallel, 64)
	c.StallTimeout = cmp.Or(c.StallTimeout, 10*time.Second)
	if c.Observe == nil {
		c.Observe = noObserver{}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"SaveRecords", c.SaveRecords}, {"MaxUnsaved", c.MaxUnsaved}, {"MaxSessions", c.MaxSessions}, {"MaxMemory", c.MaxMemory}, {"Parallel", c.Parallel}} {
		if n.value < 1 {
			return fmt.Errorf("%s is %d, want at least 1", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"SaveAfter", c.SaveAfter}, {"StallTimeout", c.StallTimeout}} {
		if d.value <= 0 {
			return fmt.Errorf("%s is %s, want more than 0", d.name, d.value)
		}
	}
	return nil
}
