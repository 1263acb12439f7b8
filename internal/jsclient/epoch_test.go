package jsclient

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A stream without an epoch, or with one that no cursor can have, has its creation time as its epoch.
func TestEpochOfCreation(t *testing.T) {
	for _, metadata := range []map[string]string{nil, {"owner": "x"}, {EpochKey: "Not An Epoch", "owner": "x"}, {EpochKey: "short"}} {
		js := natstest.Start(t).JetStream(t)
		stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		want := strconv.FormatInt(stream.CachedInfo().Created.UnixNano(), 36)
		if state, err := New(js).State(t.Context(), "S", ""); err != nil || state.Epoch != want || !chunk.IsStreamEpoch(want) {
			t.Errorf("epoch %q, %v, want %q", state.Epoch, err, want)
		}
	}
}

// A renewed epoch differs from all others, and has the form that a cursor can have. Other settings and metadata stay.
func TestRenewEpoch(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgs: 7, Metadata: map[string]string{"owner": "x"}}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	c := New(js)
	seen := map[string]bool{}
	for range 3 {
		if err := c.RenewEpoch(t.Context(), "S"); err != nil {
			t.Fatal(err)
		}
		info, err := c.info(t.Context(), "S", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		epoch := EpochOf(&info.StreamInfo)
		if seen[epoch] || !chunk.IsStreamEpoch(epoch) || info.Config.Metadata[EpochKey] != epoch {
			t.Fatalf("epoch %q after %v", epoch, seen)
		}
		seen[epoch] = true
		if info.Config.MaxMsgs != 7 || info.Config.Metadata["owner"] != "x" {
			t.Errorf("other settings are %+v", info.Config)
		}
	}
}
