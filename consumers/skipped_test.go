package consumers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A consumer skips a message, and its consumer sequences have no gap. The feed reads the skipped message with another consumer. Deleted messages do not count
// as skipped.
func TestFeedOverASkippedMessage(t *testing.T) {
	w := newEnv(t, Config{})
	proxy := natstest.StartFaultProxy(t, w.srv.URL)
	w.reader = w.newReader(Config{Heartbeat: 200 * time.Millisecond}, natstest.Connect(t, proxy.URL))
	recs := w.sayAll(alice, 10)
	for _, seq := range []chunk.Seq{recs[2].Seq, recs[3].Seq, recs[8].Seq} {
		if err := w.stream().DeleteMsg(t.Context(), uint64(seq)); err != nil {
			t.Fatal(err)
		}
	}
	want := []chunk.Seq{1, 2, 5, 6, 7, 8, 10}
	for name, tt := range map[string]struct {
		times  int // how often the sixth message is skipped
		want   []chunk.Seq
		resets uint64
	}{
		"never":  {0, want, 0},
		"once":   {1, want, 1},
		"always": {jsreader.MaxSkips, want[:3], jsreader.MaxSkips - 1},
	} {
		t.Run(name, func(t *testing.T) {
			times := tt.times
			sixth := "ce-id: " + chunk.EventID(recs[5].Epoch, recs[5].Ordinal) + "\r\n"
			proxy.SetDeliveryFaults(func(d natstest.Delivery) natstest.Fault {
				if times > 0 && strings.Contains(d.Header, sixth) {
					times--
					return natstest.DropSilently
				}
				return natstest.Deliver
			})
			before := w.reader.Stats().Resets
			f := w.feed(0, 0)
			var got []chunk.Seq
			for _, m := range f.get(t, len(tt.want)) {
				got = append(got, m.Seq)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if tt.times == jsreader.MaxSkips {
				truncated(t, f.end(t), chunk.TruncatedExpired)
			} else {
				f.cancel()
			}
			if n := w.reader.Stats().Resets - before; n != tt.resets {
				t.Errorf("%d resets, want %d", n, tt.resets)
			}
		})
	}
}
