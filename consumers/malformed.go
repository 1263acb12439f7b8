package consumers

import (
	"log/slog"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// Malformed is a message in the log that is not a record: its subject is not that of a session, or its envelope cannot be parsed. It has no ordinal, so
// skipping it leaves no gap.
type Malformed struct {
	Stream  string
	Subject string
	Seq     chunk.Seq
	Err     error // of subjects.Layout.Parse, or a *codec.EnvelopeError
}

// Stats has the counters of a Reader.
type Stats struct {
	Malformed uint64 // malformed messages
	Fenced    uint64 // records of fenced writers, dropped
	Resets    uint64 // consumers lost and replaced

	Gaps        uint64 // ranges that firehoses could not deliver
	DeadLetters uint64 // records that firehoses gave to DeadLetter
}

// Stats returns the counters of all reads of r, including those that have ended.
func (r *Reader) Stats() Stats {
	return Stats{
		Malformed: r.malformed.Load(),
		Fenced:    r.fenced.Load(),
		Resets:    r.resets.Load(),

		Gaps:        r.gaps.Load(),
		DeadLetters: r.deadLetters.Load(),
	}
}

func (r *Reader) skipMalformed(f Malformed) {
	r.malformed.Add(1)
	r.cfg.OnMalformed(f)
}

// warnMalformed is the default of OnMalformed. A faulty writer may store thousands of such messages per second, which must not fill the log output.
func warnMalformed(log *slog.Logger) func(Malformed) {
	var limit wait.Throttle
	return func(f Malformed) {
		more, ok := limit.Allow()
		if !ok {
			return
		}
		log.Warn("malformed message skipped",
			slog.String("stream", f.Stream),
			slog.String("subject", f.Subject),
			slog.Uint64("sequence", uint64(f.Seq)),
			slog.Any("error", f.Err),
			slog.Int64("notLogged", more))
	}
}
