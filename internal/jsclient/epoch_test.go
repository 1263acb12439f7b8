package jsclient

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A stream without an epoch, or with one that no cursor can have, has its creation time as its epoch, which it keeps when it is stored. The other metadata stays.
func TestEpochOfStreamOfEarlierBuild(t *testing.T) {
	for _, metadata := range []map[string]string{nil, {"owner": "x"}, {EpochKey: "Not An Epoch", "owner": "x"}, {EpochKey: "short"}} {
		js := natstest.Start(t).JetStream(t)
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		c := New(js)
		want := strconv.FormatInt(stream.CachedInfo().Created.UnixNano(), 36)
		wantEpoch(t, c, want, false)
		for range 2 {
			if got, err := c.StoreEpoch(t.Context(), "S", ""); err != nil || got != want {
				t.Errorf("StoreEpoch: %q, %v, want %q", got, err, want)
			}
			info := wantEpoch(t, c, want, true)
			if got := info.Config.Metadata["owner"]; got != metadata["owner"] {
				t.Errorf("other metadata is %q, before %q", got, metadata["owner"])
			}
		}
	}
}

// A new epoch differs from all others, and has the form that a cursor can have.
func TestNewEpochIsStored(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgs: 7}); err != nil {
		t.Fatal(err)
	}
	c := New(js)
	seen := map[string]bool{}
	for range 3 {
		epoch := NewEpoch()
		if seen[epoch] || !chunk.IsStreamEpoch(epoch) {
			t.Fatalf("NewEpoch: %q after %v", epoch, seen)
		}
		seen[epoch] = true
		if got, err := c.StoreEpoch(t.Context(), "S", epoch); err != nil || got != epoch {
			t.Errorf("StoreEpoch: %q, %v, want %q", got, err, epoch)
		}
		if info := wantEpoch(t, c, epoch, true); info.Config.MaxMsgs != 7 {
			t.Errorf("%d messages at most, want 7", info.Config.MaxMsgs)
		}
	}
}

func wantEpoch(t *testing.T, c *Client, want string, wantStored bool) *jetstream.StreamInfo {
	t.Helper()
	info, err := c.info(t.Context(), "S", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if epoch, stored := EpochOf(&info.StreamInfo); epoch != want || stored != wantStored || !chunk.IsStreamEpoch(epoch) {
		t.Errorf("EpochOf: %q, %t, want %q, %t", epoch, stored, want, wantStored)
	}
	state, err := c.State(t.Context(), "S", "")
	if err != nil || state.Epoch != want {
		t.Errorf("State: %q, %v, want %q", state.Epoch, err, want)
	}
	return &info.StreamInfo
}
