package httpedge

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/hub"
)

// streamStats counts the events and bytes of one stream.
type streamStats struct {
	m             *metrics // nil counts nothing
	opened        time.Time
	backlogSentAt time.Time // when the last batch of earlier records had been written
	isLive        bool      // all earlier records were written
	events        int
	bytes         int
}

// sent counts a batch whose write returned at the given time. It is called for each batch of each client and does not allocate.
func (a *streamStats) sent(batch hub.Batch, at time.Time) {
	a.events += batch.Records
	a.bytes += len(batch.Frames)
	if a.m == nil {
		return
	}
	a.m.events.Add(float64(batch.Records))
	a.m.bytes.Add(float64(len(batch.Frames)))
	// The age of a record that was stored before this client connected is not a delay, even if it is the newest record. The two times are from the clocks of
	// two machines.
	if batch.StoredAt.After(a.opened) {
		a.m.delivery.Observe(max(0, at.Sub(batch.StoredAt)).Seconds())
		a.caughtUp()
	} else if !a.isLive {
		a.backlogSentAt = at
	}
}

// caughtUp records that the following batches are new.
func (a *streamStats) caughtUp() {
	if a.m != nil && !a.isLive && !a.backlogSentAt.IsZero() {
		a.m.catchup.Observe(a.backlogSentAt.Sub(a.opened).Seconds())
	}
	a.isLive = true
}

// silent records that there was no batch for the time of a heartbeat. Before the first batch this has no meaning, because the log may respond slowly.
func (a *streamStats) silent() {
	if !a.backlogSentAt.IsZero() {
		a.caughtUp()
	}
}

// open returns the statistics of a new stream.
func (m *metrics) open() streamStats {
	if m != nil {
		m.connected("opened")
	}
	return streamStats{m: m, opened: time.Now()}
}

// close ends it. err is what ended the stream, io.EOF if all sessions are complete; ctx is the context it ran in.
func (a *streamStats) close(ctx context.Context, err error) (reason string) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	reason = httpkit.EndReason(ctx, err)
	if reason == httpkit.EndClean {
		a.caughtUp()
	}
	if a.m != nil {
		a.m.disconnects.WithLabelValues(reason).Inc()
	}
	return reason
}
