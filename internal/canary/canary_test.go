package canary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// watch runs a Canary over the streams until the test ends.
func watch(t *testing.T, js jetstream.JetStream, log *outputtest.Buffer, names ...string) *Canary {
	t.Helper()
	cfg := Config{Interval: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))}
	for _, name := range names {
		cfg.Streams = append(cfg.Streams, Stream{Name: name, Filter: name + ".>"})
	}
	c := New(jsclient.New(js), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return c
}

func await(t *testing.T, c *Canary, stream string, want State) {
	t.Helper()
	natstest.Eventually(t, fmt.Sprintf("%s is %s", stream, want), func(context.Context) error {
		if s := c.Status(stream); s.State != want {
			return fmt.Errorf("state %s: %w", s.State, s.Err)
		}
		return nil
	})
}

func create(t *testing.T, js jetstream.JetStream, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// The server reaches its limit: every stream is full, once in the log, and without a restart each is writable again after a purge.
func TestFullServer(t *testing.T) {
	js := natstest.Start(t, natstest.MaxStore(1<<20)).JetStream(t)
	create(t, js, "A", "B")
	var log outputtest.Buffer
	c := watch(t, js, &log, "A", "B")
	await(t, c, "A", OK)
	for err := error(nil); err == nil; {
		_, err = js.Publish(t.Context(), "A.a", make([]byte, 10<<10), jetstream.WithRetryAttempts(0))
	}
	await(t, c, "A", Full)
	await(t, c, "B", Full)
	if err := c.Err("B", "A"); !errors.Is(err, chunk.ErrNoStorage) || !strings.Contains(err.Error(), "stream B") {
		t.Errorf("Err: %v", err)
	}
	if err := jsclientPurge(t, js, "A"); err != nil {
		t.Fatal(err)
	}
	await(t, c, "A", OK)
	await(t, c, "B", OK)
	if err := c.Err("A", "B"); err != nil {
		t.Errorf("Err: %v", err)
	}
	for text, want := range map[string]int{`msg="stream not writable" stream=A`: 1, "automatic when there is space": 2, `msg="stream writable again" stream=B`: 1} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%d lines with %s, want %d", got, text, want)
		}
	}
}

func jsclientPurge(t *testing.T, js jetstream.JetStream, name string) error {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		return err
	}
	return stream.Purge(t.Context())
}

// The server cannot write the files of one stream: that one is reported until the server is restarted, and the other stays writable.
func TestWriteError(t *testing.T) {
	dir := t.TempDir()
	srv := natstest.Start(t, natstest.StoreDir(dir))
	js := srv.JetStream(t)
	create(t, js, "A", "B")
	var log outputtest.Buffer
	c := watch(t, js, &log, "A", "B")
	repair := natstest.BreakStream(t, js, dir, "A", "A.a")
	await(t, c, "A", WriteError)
	if a, b := c.Status("A"), c.Status("B"); !errors.Is(a.Err, chunk.ErrNoStorage) || b.State != OK {
		t.Errorf("statuses %+v, %+v", a, b)
	}
	repair()
	if got := strings.Count(log.String(), "then restart nats-server"); got != 1 {
		t.Errorf("%d lines with the recovery, want 1", got)
	}
	srv.Restart(t)
	await(t, c, "A", OK)
	if got := strings.Count(log.String(), `msg="stream writable again" stream=A`); got != 1 {
		t.Errorf("%d lines after the restart, want 1", got)
	}
}

// A user who may not ask gets one line, and no error of the connection every few seconds.
func TestNoPermission(t *testing.T) {
	srv := natstest.Start(t, natstest.ServerConfig(`
		authorization { users = [
			{ user: "all", password: "x" }
			{ user: "some", password: "x", permissions: { publish: { deny: "$JS.API.STREAM.PURGE.>" } } }
		] }`))
	create(t, srv.JetStream(t, nats.UserInfo("all", "x")), "A")
	var errs outputtest.Buffer
	js := srv.JetStream(t, nats.UserInfo("some", "x"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		fmt.Fprintln(&errs, err)
	}))
	var log outputtest.Buffer
	c := watch(t, js, &log, "A")
	natstest.Eventually(t, "the missing permission", func(context.Context) error {
		if s := c.Status("A"); !errors.Is(s.Err, nats.ErrPermissionViolation) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	for range 3 {
		c.Check(t.Context())
	}
	if n := strings.Count(errs.String(), "Permissions Violation"); n > 1 || strings.Count(log.String(), "storage not watched") != 1 {
		t.Errorf("%d errors of the connection, %d lines", n, strings.Count(log.String(), "storage not watched"))
	}
	if err := c.Err("A"); err != nil {
		t.Errorf("Err: %v", err)
	}
}
