package jssnapshots

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// childVariable holds the job of a test binary that runs a projector.
const childVariable = "TRTEST_SOURCE_CHILD"

// childJob configures a projector in a separate process.
type childJob struct {
	URL string `json:"url"`
	Die int64  `json:"die"` // it kills itself when this many saves are stored and not acknowledged; 0: never
}

// runChild projects until it is killed, or its standard input ends.
func runChild(text string) int {
	var job childJob
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		err = job.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (j childJob) run() error {
	nc, err := nats.Connect(j.URL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	cfg := childConfig
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	source, err := NewSource(js, cfg)
	if err != nil {
		return err
	}
	store, err := New(js, Config{})
	if err != nil {
		return err
	}
	reader, err := consumers.New(js, consumers.Config{})
	if err != nil {
		return err
	}
	runner, err := projector.NewRunner(source, &dying{Store: store, left: j.Die}, reader, projector.Config{
		SaveAfter: 10 * time.Millisecond, SaveRecords: 5, StallTimeout: 2 * time.Second, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process, at the latest
		_, _ = io.Copy(io.Discard, os.Stdin) // an error means the end, too
		cancel()
	}()
	if err := runner.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// childConfig makes a takeover as fast as possible, and disables redelivery by AckWait.
var childConfig = SourceConfig{TakeoverTimeout: 3 * time.Second, AckWait: 10 * time.Minute}

// dying is a Store whose process is killed after a save.
type dying struct {
	projector.Store

	left int64
}

func (d *dying) Save(ctx context.Context, snap fold.Snapshot, after projector.Revision) (projector.Revision, error) {
	revision, err := d.Store.Save(ctx, snap, after)
	if err == nil && atomic.AddInt64(&d.left, -1) == 0 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return 0, err
		}
		select {} // until the signal arrives
	}
	return revision, err
}

// child is a running process with a projector.
type child struct {
	cmd  *exec.Cmd
	dead chan struct{}
}

func startChild(t *testing.T, job childJob) *child {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(os.Args[0]), dead: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = t.Output()
	stdin, err := c.cmd.StdinPipe() // its end, also by a crash of this process, ends the child
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.dead)
		_ = c.cmd.Wait() // the test that killed it checks how it ended
	}()
	t.Cleanup(sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = c.cmd.Process.Kill()
		<-c.dead
	}))
	return c
}

func (c *child) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (c *child) awaitExit(t *testing.T) {
	t.Helper()
	select {
	case <-c.dead:
	case <-time.After(time.Minute):
		t.Fatal("the projector did not exit")
	}
}
