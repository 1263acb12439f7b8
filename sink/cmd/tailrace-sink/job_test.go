package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A job with --no-follow logs how many rows it has stored, and does the upkeep of the store when everything is stored.
func TestJobMaintains(t *testing.T) {
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	w := newWriter(t, js)
	for _, put := range w.turn(chunk.RootSession("acme", "s1"), "r1") {
		put()
	}
	<-js.PublishAsyncComplete()
	dir := filepath.Join(t.TempDir(), "lake")
	for _, want := range []string{"end of the log reached\" rows=[1-9]", "end of the log reached\" rows=0\n"} { // the second job has nothing to copy
		var errs strings.Builder
		code := program(t.Context(), []string{"--nats-url", srv.URL, "--to", dir, "--no-follow", "--ops-listen="}, io.Discard, &errs)
		if code != 0 || !regexp.MustCompile(want).MatchString(errs.String()) {
			t.Errorf("exit code %d, want 0 and %q in:\n%s", code, want, &errs)
		}
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
