//go:build e2e

package e2e

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"
)

// followUntil opens the event stream of a session that starts soon and reads n events; the response stays open.
func followUntil(t *testing.T, url, session string, n int) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/sessions/"+session+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusNotFound { // the worker has not written yet
			_ = resp.Body.Close()
			continue
		}
		lines := bufio.NewScanner(resp.Body)
		for n > 0 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data:") {
				n--
			}
		}
		if n > 0 {
			t.Fatalf("the stream ended early: %v", lines.Err())
		}
		return resp
	}
	t.Fatal("the session never started")
	return nil
}
