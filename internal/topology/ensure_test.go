package topology

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/natstest"
	"github.com/tailrace/tailrace/subjects"
)

// Ensure makes everything; a second time it finds everything as it should be,
// and so does Verify.
func TestEnsureTwice(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	cfg := Config{Layout: subjects.Layout{Partitions: 3}, MaxBytes: 1 << 30, SnapshotMaxAge: time.Hour}
	if err := Verify(t.Context(), js, cfg); err == nil {
		t.Error("Verify finds nothing missing on an empty server")
	}
	for range 2 {
		if err := Ensure(t.Context(), js, cfg); err != nil {
			t.Fatalf("Ensure: %v", err)
		}
		if err := Verify(t.Context(), js, cfg); err != nil {
			t.Fatalf("Verify: %v", err)
		}
	}
	srv.Restart(t)
	natstest.Await(t, "Ensure after a restart", func(ctx context.Context) error { return Ensure(ctx, js, cfg) })
}

// Programs that start together may all call Ensure.
func TestEnsureAtOnce(t *testing.T) {
	srv := natstest.Start(t)
	var all sync.WaitGroup
	for range 8 {
		js := srv.JetStream(t)
		all.Go(func() {
			if err := Ensure(t.Context(), js, Config{Layout: subjects.Layout{Partitions: 4}}); err != nil {
				t.Errorf("Ensure: %v", err)
			}
		})
	}
	all.Wait()
}

// Each setting that somebody may have changed is named with both values.
func TestDifferencesInWords(t *testing.T) {
	tests := map[string]struct {
		change func(*jetstream.StreamConfig)
		want   string
	}{
		"max age": {
			func(c *jetstream.StreamConfig) { c.MaxAge = 24 * time.Hour },
			"TR_CHUNKS_0: max age is 24h0m0s, want 72h0m0s; change it with `nats stream edit TR_CHUNKS_0`, or set MaxAge to 24h0m0s",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			js := natstest.Start(t).JetStream(t)
			stream := Config{}.withDefaults().chunks(0).StreamConfig
			test.change(&stream)
			if _, err := js.CreateStream(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			err := Ensure(t.Context(), js, Config{})
			if _, ok := errors.AsType[*DiffError](err); !ok {
				t.Fatalf("Ensure = %v, want a *DiffError", err)
			}
			if got := err.Error(); !strings.Contains(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
