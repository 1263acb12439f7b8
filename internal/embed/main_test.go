package embed

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// ownerVariable makes the test binary a process that owns a store directory,
// the value of the variable.
const ownerVariable = "TRTEST_EMBED_OWNER"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(ownerVariable); ok {
		os.Exit(runOwner(dir))
	}
	goleak.VerifyTestMain(m)
}

// runOwner runs a server on dir, prints its URL and waits to be killed; it exits
// with its parent.
func runOwner(dir string) int {
	srv, err := Start(context.Background(), Config{StoreDir: dir, Port: RandomPort, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Fprintln(os.Stdout, "error:", err)
		return 1
	}
	fmt.Fprintln(os.Stdout, srv.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	if err != nil || srv.Shutdown(context.Background()) != nil {
		return 1
	}
	return 0
}
