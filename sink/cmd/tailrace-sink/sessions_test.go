package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
	"github.com/tailrace/tailrace/projector/fold"
)

// ask runs a command, and returns its exit code and what it has printed.
func ask(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out strings.Builder
	code := program(t.Context(), args, &out, t.Output())
	for _, s := range settings() {
		if err := os.Unsetenv(s.variable); err != nil { // a flag has set it
			t.Fatal(err)
		}
	}
	return code, out.String()
}

// Commands erase sessions, and find those that are deleted, beside a process that copies.
func TestEraseBesideASink(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) { testErase(t, kind(t)) })
	}
}

func testErase(t *testing.T, lake stored) {
	t.Helper()
	restore(t)
	srv := streamtest.Start(t)
	js := srv.JetStream(t)
	args := append([]string{"--nats-url", srv.URL, "--view=all"}, lake.args...)
	w := newWriter(t, js)
	for _, id := range []string{"s1", "s2", "s3"} {
		for _, put := range w.turn(chunk.RootSession("acme", id), "r"+id) {
			put()
		}
	}
	<-js.PublishAsyncComplete()
	sink := start(t, append([]string{"--every=50ms"}, args...)...)
	defer end(sink)
	check := func(want report, code int) {
		t.Helper()
		natstest.Eventually(t, "the report", func(context.Context) error {
			exit, out := ask(t, append([]string{"check", "--json"}, args...)...)
			var got report
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			if want.History = got.History; got != want || exit != code {
				return fmt.Errorf("code %d, %+v, want %d, %+v", exit, got, code, want)
			}
			return nil
		})
	}
	all := uint64(len(w.turn(chunk.RootSession("acme", "s"), "r")) * 3)
	check(report{Position: all}, 0) // the log has the sessions, so nothing depends on their heads
	command := func(code int, want string, more ...string) {
		t.Helper()
		if exit, out := ask(t, append(append([]string{"erase"}, more...), args...)...); exit != code || out != want {
			t.Errorf("erase %v: code %d, %q, want %d, %q", more, exit, out, code, want)
		}
	}
	command(0, "sessions erased: 1\n", "--tenant=acme", "--root=s2", "--session=s2-child")
	command(0, "sessions erased: 0\n", "--tenant=acme", "--root=s2", "--session=s2-child")
	command(0, "sessions erased: 2\n", "--tenant=acme", "--root=s1")
	command(0, "sessions erased: 0\n", "--tenant=acme", "--root=s1")
	command(0, "sessions erased: 0\n", "--tenant=zeta", "--root=s2")
	command(0, "sessions erased: 0\n", "--deleted")

	// A deletion of which the log has no record any more.
	s3 := chunk.RootSession("acme", "s3")
	heads, err := jssnapshots.New(js, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := heads.Save(t.Context(), fold.NewTombstone(s3, chunk.Position{Seq: chunk.Seq(all + 1), Ordinal: 99}, 1), 0); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "TR_CHUNKS_0")
	if err == nil {
		err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("tr.chunks.0.acme.s3.>"))
	}
	if err != nil {
		t.Fatal(err)
	}
	check(report{Position: all, Deleted: 1, Absent: 1}, 1)
	command(0, "sessions erased: 2\n", "--deleted")
	check(report{Position: all}, 0)

	// The process continues.
	for _, put := range w.turn(chunk.RootSession("acme", "s4"), "r4") {
		put()
	}
	<-js.PublishAsyncComplete()
	check(report{Position: all / 3 * 4}, 0)
}

func TestWrongErase(t *testing.T) {
	for _, args := range []string{
		"erase", "erase --root=s1", "erase --tenant=acme", "erase --tenant=acme --root=s1 --deleted", "erase --tenant=acme --root=s1 more", "erase --tenant=a.b --root=s1",
		"erase --to=webhook+https://example.com --secret=x --tenant=acme --root=s1", "check more", "check --root=s1", "--root=s1", "erase --no-follow",
	} {
		t.Run(args, func(t *testing.T) {
			restore(t)
			var errs strings.Builder
			if code := program(t.Context(), strings.Fields(args), io.Discard, &errs); code != 2 {
				t.Errorf("code %d, want 2: %s", code, errs.String())
			}
		})
	}
}
