package embed

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// owner is another process that runs a server on a directory.
type owner struct {
	cmd   *exec.Cmd
	stdin io.Closer
	url   string
}

func startOwner(t *testing.T, dir string) *owner {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), ownerVariable+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := &owner{cmd: cmd, stdin: stdin}
	t.Cleanup(o.kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "nats://") {
		t.Fatalf("output of the other process %q, %v, want its URL", line, err)
	}
	o.url = strings.TrimSpace(line)
	return o
}

// kill sends SIGKILL. A second call has no effect.
func (o *owner) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
}

// Two processes open the same directory: the second gets an error with the
// process id of the first. After any exit of the first the directory is free
// and holds every acknowledged message.
func TestOneProcessOwnsTheFiles(t *testing.T) {
	dir := t.TempDir()
	other := startOwner(t, dir)
	js := connect(t, other.url)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := js.Publish(t.Context(), "s", []byte("one")); err != nil {
			t.Fatal(err)
		}
	}
	js.Conn().Close()

	_, err := Start(t.Context(), Config{StoreDir: dir})
	want := fmt.Sprintf("data directory %q is in use by process %d: stop that one, or choose another directory", dir, other.cmd.Process.Pid)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	other.kill()

	srv := start1(t, Config{StoreDir: dir})
	stream, err := connect(t, "", srv.InProcess()).Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 100 {
		t.Errorf("%d messages after a kill, want 100", n)
	}
	stop(t, srv)

	third := startOwner(t, dir) // a shutdown frees the files too
	if err := third.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := third.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	start1(t, Config{StoreDir: dir})
}

// A directory that is not writable, even for root.
func TestDirectoryIsNotWritable(t *testing.T) {
	_, err := Start(t.Context(), Config{StoreDir: "/proc/self", Log: slog.New(slog.DiscardHandler)})
	want := `data directory "/proc/self" is not writable: choose another, or give this user write permission`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
