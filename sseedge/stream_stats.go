package sseedge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// Why a stream ended.
const (
	endClean  = "end"    // the session is complete
	endClient = "client" // it is gone
	endSlow   = "slow"   // it took nothing for Config.WriteTimeout
	endDrain  = "drain"
	endError  = "error" // the log is unavailable, or has no record to continue with
)

// streamStats is what one stream did, from when it was opened to its end.
type streamStats struct {
	m             *metrics // nil counts nothing
	opened        time.Time
	backlogSentAt time.Time // when the last batch of what was there before had been written
	isLive        bool      // that is over
	events        int
	bytes         int
}

// sent counts a batch whose write returned at the given time. It is called
// for each batch of each client and allocates nothing.
func (a *streamStats) sent(batch hub.Batch, at time.Time) {
	a.events += batch.Records
	a.bytes += len(batch.Frames)
	if a.m == nil {
		return
	}
	a.m.events.Add(float64(batch.Records))
	a.m.bytes.Add(float64(len(batch.Frames)))
	// What was stored before this client came is no delay, also when it is the
	// newest there is. The two clocks are those of two machines.
	if batch.StoredAt.After(a.opened) {
		a.m.delivery.Observe(max(0, at.Sub(batch.StoredAt)).Seconds())
		a.caughtUp()
	} else if !a.isLive {
		a.backlogSentAt = at
	}
}

// caughtUp says that what follows is new.
func (a *streamStats) caughtUp() {
	if a.m != nil && !a.isLive && !a.backlogSentAt.IsZero() {
		a.m.catchup.Observe(a.backlogSentAt.Sub(a.opened).Seconds())
	}
	a.isLive = true
}

// silent says that nothing came for as long as a heartbeat. Before the first
// batch that says nothing: the log may be slow to answer.
func (a *streamStats) silent() {
	if !a.backlogSentAt.IsZero() {
		a.caughtUp()
	}
}

// open begins an account.
func (m *metrics) open() streamStats {
	if m != nil {
		m.connected("opened")
	}
	return streamStats{m: m, opened: time.Now()}
}

// close ends it. err is what ended the stream, ctx the context it ran in.
func (a *streamStats) close(ctx context.Context, err error) (reason string) {
	reason = endReason(ctx, err)
	if reason == endClean {
		a.caughtUp()
	}
	if a.m != nil {
		a.m.disconnects.WithLabelValues(reason).Inc()
	}
	return reason
}

// endReason tells the reasons apart. A write that fails ends the context as well,
// so a slow client is looked for before one that is gone. The kernel may be the
// first to find it slow (see Listen): it sees that the window stays closed, while
// its own buffer still takes what is written.
func endReason(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return endClean
	case errors.Is(context.Cause(ctx), httpkit.ErrDrained):
		return endDrain
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return endSlow
	case ctx.Err() != nil:
		return endClient
	}
	return endError
}

// logLevel returns Info for reasons that an operator should see.
func logLevel(reason string) slog.Level {
	if reason == endSlow || reason == endError {
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
