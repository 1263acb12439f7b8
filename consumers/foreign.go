package consumers

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// Foreign is a message in the log that is no record: its subject is no
// session's, or its envelope cannot be read. It has no ordinal, so passing
// over it leaves no hole.
type Foreign struct {
	Stream  string
	Subject string
	Seq     chunk.Seq
	Err     error // *subjects.ParseError or *codec.EnvelopeError
}

// Stats counts what a Reader met since it was made.
type Stats struct {
	Foreign uint64 // messages that are no records
	Stale   uint64 // records dropped because a writer of a higher epoch had taken over
	Resets  uint64 // times a consumer was lost and replaced

	Archived uint64 // records that were read from archives
}

// Stats of all reads of r, those that have ended among them.
func (r *Reader) Stats() Stats {
	return Stats{
		Foreign: r.foreign.Load(),
		Stale:   r.stale.Load(),
		Resets:  r.resets.Load(),

		Archived: r.archived.Load(),
	}
}

func (r *Reader) passOver(f Foreign) {
	r.foreign.Add(1)
	r.cfg.OnForeign(f)
}

// warnForeign is the default of OnForeign. A writer gone mad fills the log with
// thousands of such messages a second; it must not fill ours too.
func warnForeign(log *slog.Logger) func(Foreign) {
	var quietUntil atomic.Int64
	return func(f Foreign) {
		now, until := time.Now(), quietUntil.Load()
		if now.UnixNano() < until || !quietUntil.CompareAndSwap(until, now.Add(time.Second).UnixNano()) {
			return
		}
		log.Warn("a message in the log is no record; passing it over",
			slog.String("stream", f.Stream),
			slog.String("subject", f.Subject),
			slog.Uint64("sequence", uint64(f.Seq)),
			slog.Any("error", f.Err))
	}
}
