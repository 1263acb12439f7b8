package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A job with --no-follow does the upkeep of the store when everything is stored.
func TestJobMaintains(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	w := newWriter(t, js)
	for _, put := range w.turn(chunk.RootSession("acme", "s1"), "r1") {
		put()
	}
	<-js.PublishAsyncComplete()
	dir := filepath.Join(t.TempDir(), "lake")
	if err := start(t, "--nats-url", srv.URL, "--to", dir, "--no-follow").Wait(); err != nil {
		t.Fatal(err)
	}
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tip, err := reader.Tip(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "maintained", "p0.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Erased struct {
			Sequence chunk.Seq `json:"sequence"`
		} `json:"erased"`
	}
	if err := json.Unmarshal(data, &state); err != nil || state.Erased.Sequence != tip.Seq {
		t.Errorf("erasures are applied up to %d, %v, want %d", state.Erased.Sequence, err, tip.Seq)
	}
}
