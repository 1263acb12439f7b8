package roletest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// Program returns the absolute path of a program that `make build` builds. It fails the test if the program is missing.
func Program(tb testing.TB, path string) string {
	tb.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("%v: run `make build` first", err)
	}
	return path
}

// AwaitStarted waits until the process of a role with this ops listener has started.
func AwaitStarted(tb testing.TB, ops string) {
	tb.Helper()
	natstest.Eventually(tb, "the start of the process on "+ops, func(ctx context.Context) error {
		status, err := Status(ctx, "http://"+ops+"/startupz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
}

// Status returns the status of a GET on a connection of its own.
func Status(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
