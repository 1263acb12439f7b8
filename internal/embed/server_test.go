package embed

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func start1(t *testing.T, cfg Config) *Server {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	srv, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { stop(t, srv) })
	return srv
}

func stop(t *testing.T, srv *Server) {
	t.Helper()
	if err := srv.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func connect(t *testing.T, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Stored messages are available to the next server on the same files.
func TestFilesAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	first := start1(t, Config{StoreDir: dir})
	if url := first.ClientURL(); url != "" {
		t.Errorf("without a port the URL is %q, want none", url)
	}
	js := connect(t, "", first.InProcess())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("one")); err != nil {
		t.Fatal(err)
	}
	stop(t, first)
	stop(t, first) // a second call has no effect

	second := start1(t, Config{StoreDir: dir, Port: RandomPort})
	stream, err := connect(t, second.ClientURL()).Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetMsg(t.Context(), 1)
	if err != nil || string(msg.Data) != "one" {
		t.Errorf("message 1 = %v, %v; want %q", msg, err, "one")
	}
}

// A second server on the same files or on a port that is taken fails with a
// one-line error and does not affect the first server.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	running := start1(t, Config{StoreDir: dir, Port: RandomPort})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	invalid := t.TempDir()
	if err := os.WriteFile(filepath.Join(invalid, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"invalid storage":            {Config{StoreDir: invalid}, "NATS server: Can't start JetStream: storage directory is not a directory"},
		"a negative interval":        {Config{StoreDir: dir, SyncInterval: -1}, "SyncInterval is -1ns"},
		"the directory has an owner": {Config{StoreDir: dir}, "is in use by process"},
		"a file is in the way":       {Config{StoreDir: file}, "create data directory"},
		"the port is taken":          {Config{StoreDir: t.TempDir(), Port: port}, "address already in use: stop the other process"},
		"no directory":               {Config{}, "StoreDir is empty"},
		"no such port":               {Config{StoreDir: dir, Port: 70000}, "Port is 70000"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.cfg.Log = slog.New(slog.DiscardHandler)
			srv, err := Start(t.Context(), test.cfg)
			if err == nil {
				stop(t, srv)
				t.Fatal("Start succeeds")
			}
			if got := err.Error(); !strings.Contains(got, test.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want one line with %q", got, test.want)
			}
		})
	}
	js := connect(t, running.ClientURL())
	if _, err := js.AccountInfo(t.Context()); err != nil {
		t.Errorf("the running server is affected: %v", err)
	}
}

// A canceled start releases the directory.
func TestStartIsCanceled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv, err := Start(ctx, Config{StoreDir: dir, Port: RandomPort})
	if err == nil {
		stop(t, srv)
		t.Fatal("Start succeeds")
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Start = %v, want context.Canceled", err)
	}
	start1(t, Config{StoreDir: dir})
}

// Shutdown returns an error when its context ends, and a later call waits
// again.
func TestShutdownIsBounded(t *testing.T) {
	srv := start1(t, Config{StoreDir: t.TempDir(), SyncAlways: true})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutdown timeout"))
	if err := srv.Shutdown(ctx); err != nil && !strings.Contains(err.Error(), "stop NATS server: still stopping: shutdown timeout") {
		t.Errorf("Shutdown = %v", err)
	}
	if err := srv.Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown again = %v", err)
	}
}

// The log of the server is written to Config.Log.
func TestLog(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	srv := start1(t, Config{StoreDir: t.TempDir(), Log: log})
	stop(t, srv)
	if !strings.Contains(buf.String(), "nats-server: Server is ready") {
		t.Errorf("log:\n%s", buf.String())
	}
	if log := (Config{}).withDefaults().Log; log.Enabled(t.Context(), slog.LevelError) {
		t.Error("without a Log errors are logged")
	}
}
