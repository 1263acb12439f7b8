package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// startProjector starts a projector on a server, with its probes and metrics.
func startProjector(t *testing.T) (ops, url string, js jetstream.JetStream) {
	t.Helper()
	server := streamtest.Start(t)
	ops = startProcess(t, "projector", "--nats-url", server.URL, "--ops-listen", "127.0.0.1:0").awaitOps(t)
	awaitStart(t, ops)
	return ops, server.URL, server.JetStream(t)
}

// put writes a text as record o of session s1 of the default tenant.
func put(t *testing.T, js jetstream.JetStream, o chunk.Ordinal, body string) {
	t.Helper()
	m := codec.EncodeJSON(codec.Envelope{Session: chunk.RootSession("default", "s1"), Epoch: 1, Ordinal: o},
		codec.Header{Type: chunk.TypeTextDelta, Timestamp: 1}, []byte(body))
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "tr.chunks.0.default.s1.s1", Header: m.Header, Data: m.Data}); err != nil {
		t.Fatal(err)
	}
}

const goodText = `{"type":"text_delta","agentId":"s1","agentType":"t","timestamp":1,"delta":"good"}`

// Invalid records are listed, shown, replayed and dropped from the command line, and
// counted; a bucket that is deleted meanwhile and created again by setup is filled.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	ops, url, js := startProjector(t)
	put(t, js, 1, goodText)
	put(t, js, 2, `{"type":"text_delta","delta":"\u001b[31m7"}`)
	put(t, js, 3, goodText)
	if _, err := js.Publish(t.Context(), "tr.chunks.0.default.s1.s1", []byte("hello\x1b[2J")); err != nil {
		t.Fatal(err)
	}
	command := func(want int, args ...string) string {
		t.Helper()
		return tailrace(t, want, append([]string{"deadletters", "--nats-url", url}, args...)...)
	}
	natstest.Eventually(t, "two letters", func(context.Context) error {
		if list := command(exitOK, "list"); strings.Count(list, "\n") != 3 {
			return errors.New(list)
		}
		return nil
	})
	if list := command(exitOK, "list", "--session", "s1"); !strings.Contains(list, "record") || !strings.Contains(list, "envelope") || !strings.Contains(list, "/default/s1/s1") {
		t.Errorf("list: %s", list)
	}
	if list := command(exitOK, "list", "--json"); strings.Count(list, `"addedAt":"20`) != 2 {
		t.Errorf("list as JSON: %s", list)
	}
	if list := command(exitOK, "list", "--tenant", "other", "--json"); list != "" {
		t.Errorf("list of another tenant: %s", list)
	}
	shown := command(exitOK, "show", "--all")
	if strings.ContainsRune(shown, 0x1b) || !strings.Contains(shown, `hello\x1b[2J`) || !strings.Contains(shown, "ce-id: 1-2") {
		t.Errorf("show: %q", shown)
	}
	if one, two := command(exitOK, "show", "1", "--raw"), command(exitOK, "show", "2", "--raw"); one != "hello\x1b[2J" && two != "hello\x1b[2J" {
		t.Errorf("raw: %q and %q", one, two)
	}
	if out := command(exitError, "replay", "--all"); strings.Count(out, "kept: dead letter") != 2 || !strings.Contains(out, "2 of 2 entries kept") {
		t.Errorf("replay: %s", out)
	}
	checkMetrics := func(want ...string) error {
		_, text := get(t, ops+"/metrics", "")
		for _, line := range want {
			if !strings.Contains(text, "\n"+line) {
				return fmt.Errorf("no %s", line)
			}
		}
		return nil
	}
	natstest.Eventually(t, "the metrics", func(context.Context) error {
		return checkMetrics(`tailrace_projector_dead_letters_total{reason="record"} 1`, `tailrace_projector_dead_letters_total{reason="envelope"} 1`,
			`tailrace_projector_applied_total{type="text_delta"} `, `tailrace_projector_lag_messages{partition="0"} 0`, `tailrace_projector_lag_seconds{partition="0"} 0`,
			"tailrace_projector_redelivered_total ", "tailrace_snapshot_cas_conflicts_total ", "tailrace_snapshot_bytes_count ", "tailrace_snapshot_write_seconds_count ")
	})
	if out := command(exitOK, "drop", "1", "2"); out != "1 dropped\n2 dropped\n" {
		t.Errorf("drop: %s", out)
	}
	for _, args := range [][]string{{}, {"add"}, {"show"}, {"drop", "x"}, {"drop", "1", "--all"}, {"list", "1"}, {"replay", "1", "--tenant", "t"}} {
		command(exitUsage, args...)
	}
	command(exitError, "show", "1")

	if err := js.DeleteKeyValue(t.Context(), "TR_SNAPSHOTS"); err != nil {
		t.Fatal(err)
	}
	tailrace(t, exitOK, "setup", "--nats-url", url)
	natstest.Eventually(t, "the snapshot, from the log", func(ctx context.Context) error {
		kv, err := js.KeyValue(ctx, "TR_SNAPSHOTS")
		if err != nil {
			return err
		}
		_, err = kv.Get(ctx, "h.default.s1.s1")
		return err
	})
}
