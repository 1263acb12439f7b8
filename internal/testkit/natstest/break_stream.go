package natstest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// BreakStream makes the server fail to write the files of a stream, as a full or read-only disk does: it replaces their directory by a file, and publishes to
// the subject until the server needs a new file and does not respond. dir is the StoreDir of the server. repair restores the directory; the server does not
// write the stream before a Restart.
func BreakStream(tb testing.TB, js jetstream.JetStream, dir, stream, subject string) (repair func()) {
	tb.Helper()
	files := filepath.Join(dir, "jetstream", "$G", "streams", stream, "msgs")
	moved := files + ".moved"
	if err := os.Rename(files, moved); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(files, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	for range 64 { // more than the largest file
		ctx, cancel := context.WithTimeout(tb.Context(), time.Second)
		_, err := js.Publish(ctx, subject, make([]byte, 512<<10), jetstream.WithRetryAttempts(0))
		cancel()
		if err != nil {
			return func() {
				tb.Helper()
				if err := os.Remove(files); err != nil {
					tb.Fatal(err)
				}
				if err := os.Rename(moved, files); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
	tb.Fatal("the server stores all messages without its directory")
	return nil
}
