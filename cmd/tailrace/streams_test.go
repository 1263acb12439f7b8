package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/topology"
)

// writeStreams writes a file of streams.
func writeStreams(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "streams.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Each member of the file is a size or an age of its streams; without the file they have the defaults of the topology.
func TestStreamsFile(t *testing.T) {
	file := writeStreams(t, `{
		"placement":   {"cluster": "east", "tags": ["ssd", "zone:a"]},
		"log":         {"maxBytes": "200GiB"},
		"commands":    {"maxBytes": "1GiB", "maxAge": "4h"},
		"deadlines":   {"maxBytes": "2GiB"},
		"inbox":       {"maxBytes": "3GiB", "maxAge": "2.5d"},
		"credentials": {"maxBytes": "4MiB"},
		"usage":       {"maxBytes": "5 MiB"},
		"snapshots":   {"maxBytes": "1.5TiB", "maxAge": "100d", "bucket": "OTHER"},
		"objects":     {"maxBytes": "unlimited"},
		"deadLetters": {"maxBytes": "6MiB", "maxAge": "6h"},
		"audit":       {"maxBytes": "7340032B", "maxAge": "365d"}
	}`)
	cfg, _, err := load([]string{"--max-age", "3h", "--streams", file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	streams, err := topology.Streams(cfg.newStreams())
	if err != nil {
		t.Fatal(err)
	}
	const gib, day = 1 << 30, 24 * time.Hour
	want := map[string]struct {
		bytes int64
		age   time.Duration
	}{
		"TR_CHUNKS_0": {200 * gib, 3 * time.Hour}, "TR_COMMANDS": {gib, 4 * time.Hour}, "TR_DEADLINES": {2 * gib, 32 * day}, "KV_TR_INBOX": {3 * gib, 60 * time.Hour},
		"KV_TR_CREDENTIALS": {4 << 20, 0}, "KV_TR_USAGE": {5 << 20, 40 * day}, "KV_OTHER": {1536 * gib, 0}, "OBJ_TR_OBJECTS": {-1, 0},
		"TR_DEADLETTERS": {6 << 20, 6 * time.Hour}, "TR_AUDIT": {7 << 20, 365 * day},
	}
	for _, s := range streams {
		if w, ok := want[s.Name]; !ok || s.MaxBytes != w.bytes || s.MaxAge != w.age {
			t.Errorf("%s: %d bytes, %s; want %d, %s", s.Name, s.MaxBytes, s.MaxAge, w.bytes, w.age)
		}
		if s.Placement == nil || s.Placement.Cluster != "east" || !slices.Equal(s.Placement.Tags, []string{"ssd", "zone:a"}) {
			t.Errorf("%s: placement %v", s.Name, s.Placement)
		}
		if got := s.Metadata["tailrace.max-age"]; s.Name == "KV_OTHER" && got != "2400h0m0s" {
			t.Errorf("%s: max age of snapshots %q", s.Name, got)
		}
	}
	if len(streams) != len(want) {
		t.Errorf("%d streams, want %d", len(streams), len(want))
	}
	if cfg, _, err = load(nil, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := cfg.newStreams(), (topology.Config{Layout: cfg.layout(), Replicas: 1, Log: topology.Limits{MaxAge: 72 * time.Hour}}); !isSame(got, want) {
		t.Errorf("without a file: %+v, want %+v", got, want)
	}
}

// isSame reports whether two configurations make the same streams.
func isSame(a, b topology.Config) bool {
	as, errA := topology.Streams(a)
	bs, errB := topology.Streams(b)
	return errA == nil && errB == nil && slices.EqualFunc(as, bs, func(a, b jetstream.StreamConfig) bool {
		return a.Name == b.Name && a.MaxBytes == b.MaxBytes && a.MaxAge == b.MaxAge && a.Metadata["tailrace.max-age"] == b.Metadata["tailrace.max-age"]
	})
}

// An error in the file has the path of the member, and the shape that is expected.
func TestInvalidStreamsFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"command": {}}`:                         `command: there is no such member`,
		`{"log": {"maxAge": "1h"}}`:               `log.maxAge: there is no such member`,
		`{"log": {"maxBytes": "5GB"}}`:            `log.maxBytes: "5GB", want a size such as 512MiB or 1.5TiB, or unlimited`,
		`{"log": {"maxBytes": "0B"}}`:             "want a size",
		`{"log": {"maxBytes": 5}}`:                `log.maxBytes: want a string`,
		`{"commands": {"maxAge": "soon"}}`:        `commands.maxAge: "soon", want an age such as 36h or 30d`,
		`{"snapshots": {"maxAge": "-1d"}}`:        "want an age such as 36h or 30d, or unlimited",
		`{"snapshots": {"bucket": "two.tokens"}}`: "snapshots.bucket",
		`{"placement": {"tags": "ssd"}}`:          `placement.tags`,
		`{} {}`:                                   "after top-level value",
	} {
		file := writeStreams(t, text)
		_, _, err := load([]string{"--streams", file}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "streams "+file) {
			t.Errorf("%s: err = %v, want one with %q", text, err, want)
		}
	}
	if _, _, err := load([]string{"--streams", "/does/not/exist"}, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing file: err = %v", err)
	}
	for text, want := range map[string]string{
		`{"commands": {"maxAge": "1m"}}`:        "Commands.MaxAge is 1m0s, want at least 2m0s",
		`{"deadLetters": {"maxBytes": "1B"}}`:   "DeadLetters.MaxBytes is 1, want at least 1048576",
		`{"commands": {"maxAge": "unlimited"}}`: "Commands.MaxAge is unlimited, want at least 2m0s",
		`{"snapshots": {"maxAge": "71h"}}`:      "Snapshots.MaxAge is 71h0m0s, want unlimited or at least Log.MaxAge, 72h0m0s",
	} {
		if got := tailrace(t, exitUsage, "setup", "--print", "--streams", writeStreams(t, text)); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
}

// Sizes and ages are those of the streams: setup applies the file to new ones, and prints what differs of existing ones; the roles neither need the file nor compare.
func TestSetupWithStreamsFile(t *testing.T) {
	server := natstest.Start(t)
	file := writeStreams(t, `{"commands": {"maxAge": "50h"}, "audit": {"maxBytes": "64MiB"}, "snapshots": {"maxAge": "unlimited"}}`)
	if got := tailrace(t, exitOK, "setup", "--nats-url", server.URL, "--streams", file); got != "created 10 streams\n" {
		t.Errorf("setup: %s", got)
	}
	stream, err := server.JetStream(t).Stream(t.Context(), "TR_COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().Config.MaxAge; got != 50*time.Hour {
		t.Errorf("commands are kept for %s", got)
	}
	if got := tailrace(t, exitOK, "setup", "--nats-url", server.URL); got != "checked 10 streams\n" {
		t.Errorf("setup without the file: %s", got)
	}
	other := writeStreams(t, `{"commands": {"maxAge": "100h"}, "snapshots": {"maxAge": "90d"}}`)
	got := tailrace(t, exitOK, "setup", "--nats-url", server.URL, "--streams", other)
	for _, want := range []string{
		"checked 10 streams; 2 settings differ and were not changed:\n",
		"stricter  TR_COMMANDS: max age is 50h0m0s, want 100h0m0s; change it with `nats stream edit TR_COMMANDS`",
		"accepted  KV_TR_SNAPSHOTS: max age of snapshots is 0s, want 2160h0m0s; change it with `nats stream edit -i KV_TR_SNAPSHOTS` in the metadata, tailrace.max-age",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("setup with another file prints\n%s\nwant %s", got, want)
		}
	}
}
