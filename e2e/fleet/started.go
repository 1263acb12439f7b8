package fleet

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// AwaitStarted waits until the process with this ops listener has started. A version without /startupz has /readyz, which
// reports the same until the server fails.
func AwaitStarted(tb testing.TB, ops string) {
	tb.Helper()
	natstest.Eventually(tb, "the start of the process on "+ops, func(ctx context.Context) error {
		status, err := Status(ctx, "http://"+ops+"/startupz")
		if status == http.StatusNotFound {
			status, err = Status(ctx, "http://"+ops+"/readyz")
		}
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
