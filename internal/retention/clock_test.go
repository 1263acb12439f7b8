package retention

import (
	"errors"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/jsclient"
)

// The clock of a host is 90 days fast, or slow. Its sweep would remove the only copies of what was written today, so that it is refused. A difference below a
// minute changes nothing: the age is by the time of the server.
func TestSweepWithAWrongClock(t *testing.T) {
	w := newEnv(t)
	stop := w.project()
	must(t, w.say(s1).End(t.Context(), nil))
	w.projected(s1)
	stop()
	stream, err := w.JS.Stream(t.Context(), "TR_CHUNKS_0")
	must(t, err)
	must(t, stream.Purge(t.Context()))
	for shift, want := range map[time.Duration]error{
		91 * 24 * time.Hour: jsclient.ErrClock, -91 * 24 * time.Hour: jsclient.ErrClock, 2 * time.Minute: jsclient.ErrClock, -2 * time.Minute: jsclient.ErrClock,
		30 * time.Second: nil, -30 * time.Second: nil,
	} {
		w.eraser.host = func() time.Time { return time.Now().Add(shift) }
		if n, err := w.eraser.Sweep(t.Context()); n != 0 || !errors.Is(err, want) {
			t.Errorf("host shifted by %s: %d removed, %v; want %v", shift, n, err, want)
		}
		if snap, err := w.Reader.Snapshot(t.Context(), s1); err != nil || snap.FinishedCount() != 2 {
			t.Fatalf("host shifted by %s: %d messages, %v; want 2", shift, snap.FinishedCount(), err)
		}
	}
}
