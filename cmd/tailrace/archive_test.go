package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/topology"
)

// A session that has ended is archived once, and read from there.
func TestArchive(t *testing.T) {
	server := natstest.Start(t, natstest.Listen())
	js := server.JetStream(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(topology.Ensure(t.Context(), js, topology.Config{}))
	producer, err := producers.New(js, producers.Config{})
	must(err)
	defer func() { must(producer.Close()) }()
	session := chunk.RootSession("default", "s1")
	writing, err := producer.Start(t.Context(), session, chunk.RunStarted{})
	must(err)
	for i := range 300 {
		must(writing.Emit(t.Context(), chunk.Chunk{Body: chunk.SourceURL{SourceID: fmt.Sprint(i), URL: "https://example.com"}}))
	}
	must(writing.End(t.Context(), nil))
	for _, step := range []struct{ args, want string }{
		{"", "0 sessions archived, 0 cannot be, 0 archives removed\n"}, // not a day old
		{"--archive-after=1ns", "1 sessions archived, 0 cannot be, 0 archives removed\n"},
		{"--archive-after=1ns", "0 sessions archived, 0 cannot be, 0 archives removed\n"},
	} {
		if got := tailrace(t, exitOK, append([]string{"archive", "--nats-url", server.URL}, strings.Fields(step.args)...)...); got != step.want {
			t.Fatalf("archive %s: got %q, want %q", step.args, got, step.want)
		}
	}
	archived := func() bool {
		t.Helper()
		reader, err := consumers.New(js, consumers.Config{UseArchives: true})
		must(err)
		n := uint64(0)
		for _, err := range reader.Replay(t.Context(), chunk.Range{Session: session}) {
			must(err)
			n++
		}
		return n >= 300 && reader.Stats().Archived == n
	}
	if !archived() {
		t.Fatal("the archive is not read")
	}

	// … and a projector does it by itself.
	objects, err := js.Stream(t.Context(), "OBJ_TR_OBJECTS")
	must(err)
	must(objects.Purge(t.Context()))
	if archived() {
		t.Fatal("an archive is read that is not there")
	}
	startProcess(t, "projector", "--nats-url", server.URL, "--ops-listen", "", "--archive-after", "1ns")
	natstest.Eventually(t, "the projector to archive", func(context.Context) error {
		if !archived() {
			return errors.New("not yet")
		}
		return nil
	})
}
