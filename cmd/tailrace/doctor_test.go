package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// examine runs doctor and returns its findings, without those that are OK, as "level check object text".
func examine(t *testing.T, wantCode int, args ...string) []string {
	t.Helper()
	code, out, errs := runCommand(t, "", append([]string{"doctor", "--json"}, args...)...)
	if code != wantCode {
		t.Errorf("exit code %d, want %d: %s%s", code, wantCode, out, errs)
	}
	var found []string
	for line := range strings.Lines(out) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if f.Level != levelOK {
			found = append(found, strings.Join([]string{string(f.Level), f.Check, f.Object, f.Text}, " "))
		}
	}
	return found
}

func wantFinding(t *testing.T, found []string, want string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, want) }) {
		t.Errorf("got\n%s\nwant %s", strings.Join(found, "\n"), want)
	}
}

func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	server := natstest.Start(t, natstest.StoreDir(dir))
	js := server.JetStream(t)

	found := examine(t, exitError, "--nats-url", server.URL)
	wantFinding(t, found, "problem stream TR_CHUNKS_0 is missing, want a stream that listens on tr.chunks.0.*.*.*")

	if err := topology.Ensure(t.Context(), js, topology.Config{}); err != nil {
		t.Fatal(err)
	}
	if found := examine(t, exitOK, "--nats-url", server.URL); len(found) != 1 || !strings.HasPrefix(found[0], "warning durable TR_CHUNKS_0 no consumer projector") {
		t.Errorf("with new streams: %q", found)
	}

	edit := func(name string, change func(*jetstream.StreamConfig)) {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		change(&cfg)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	edit("TR_CHUNKS_0", func(c *jetstream.StreamConfig) { c.MaxConsumers = 500 })
	edit("TR_COMMANDS", func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression })
	if _, err := js.CreateConsumer(t.Context(), "TR_CHUNKS_0", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "tr.chunks.0.acme.s1.s1", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "tr.commands.acme.support.s1", nil); err != nil {
		t.Fatal(err)
	}
	found = examine(t, exitError, "--nats-url", server.URL)
	for _, want := range []string{
		"problem durable TR_CHUNKS_0 no consumer projector",
		"warning setting TR_CHUNKS_0 max consumers is 500, want 4096",
		"note setting TR_COMMANDS compression is S2, want None",
		"warning durable TR_CHUNKS_0 billing: 1 messages not delivered, 0 not acknowledged",
		"warning durable TR_COMMANDS 1 commands wait and no worker has read any",
	} {
		wantFinding(t, found, want)
	}

	edit("KV_TR_INBOX", func(c *jetstream.StreamConfig) { c.MaxBytes = 100 })
	edit("TR_COMMANDS", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld })
	natstest.BreakStream(t, js, dir, "TR_CHUNKS_0", "tr.chunks.0.acme.s1.s1")
	found = examine(t, exitError, "--nats-url", server.URL)
	for _, want := range []string{
		"problem setting TR_COMMANDS what is discarded when full is DiscardOld, want DiscardNew",
		"problem storage TR_CHUNKS_0 stream TR_CHUNKS_0: no storage for messages",
		"problem storage KV_TR_INBOX stream KV_TR_INBOX: no storage for messages: 0 of 100 bytes in use",
	} {
		wantFinding(t, found, want)
	}
}

// Without storage in the account, doctor reports that once, with the use.
func TestDoctorOfAFullServer(t *testing.T) {
	server := natstest.Start(t, natstest.MaxStore(32<<20))
	js := server.JetStream(t)
	if err := topology.Ensure(t.Context(), js, topology.Config{DeadLetters: topology.Limits{MaxBytes: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILL", Subjects: []string{"fill"}}); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; {
		_, err = js.Publish(t.Context(), "fill", make([]byte, 100<<10), jetstream.WithRetryAttempts(0))
	}
	out := tailrace(t, exitError, "doctor", "--nats-url", server.URL)
	if strings.Count(out, "no storage for messages") != 1 || !strings.Contains(out, "bytes in use") || !strings.Contains(out, "raise max_file_store of nats-server") {
		t.Errorf("doctor:\n%s", out)
	}
}

// Without a server the exit code is one of its own, and the output has the address.
func TestDoctorWithoutServer(t *testing.T) {
	t.Parallel()
	examine(t, exitUnreachable, "--nats-url", "nats://127.0.0.1:1")
	examine(t, exitUsage, "now")
}

// Without --json each finding is a line of columns.
func TestDoctorPrintsText(t *testing.T) {
	server := natstest.Start(t)
	if err := topology.Ensure(t.Context(), server.JetStream(t), topology.Config{}); err != nil {
		t.Fatal(err)
	}
	out := tailrace(t, exitOK, "doctor", "--nats-url", server.URL)
	for _, want := range []string{"ok       connection", "ok       account", "ok       space       TR_CHUNKS_0       0 messages, 0 bytes in use, no limit\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("got\n%swant %s", out, want)
		}
	}
}
