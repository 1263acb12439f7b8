package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
)

// The work queue is full: a message is refused with 507 and its code within seconds, readers are served, and after space was freed the same message is
// answered.
func TestFullQueue(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(nil)
	limit := func(bytes int64) {
		t.Helper()
		stream, err := w.JS.Stream(t.Context(), "TR_COMMANDS")
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = bytes
		if _, err := w.JS.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		return run.End(ctx, nil)
	})
	limit(10)
	begun := time.Now()
	want := `507 {"error":"nothing can be stored at present","code":"INSUFFICIENT_STORAGE"}`
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, want) {
		t.Errorf("a message is %s, want %s", got, want)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("refused after %s", took)
	}
	if got := e.get("", nil); got != "204" {
		t.Errorf("a reader gets %s", got)
	}
	limit(-1)
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, "start(") {
		t.Errorf("after space was freed a message is %s", got)
	}
}

// While the log of the session cannot be written, a message is refused at once and no command is stored.
func TestNoStorageForTheSession(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) {
		cfg.storage = func(s chunk.Session) error { return fmt.Errorf("log of %s: %w", s, chunk.ErrNoStorage) }
	})
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.HasPrefix(got, "507 ") {
		t.Errorf("a message is %s", got)
	}
	stream, err := w.JS.Stream(t.Context(), "TR_COMMANDS")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.GetLastMsgForSubject(t.Context(), "tr.commands.>"); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("a command is stored: %v", err)
	}
}
