//go:build e2e

package clients

import (
	"fmt"
	"os"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// TestSingleRequests loads snapshots, messages and the list, answers an approval and stops a run, at a process with the demo agent.
func TestSingleRequests(t *testing.T) {
	b := newClient(t)
	addr, ops := fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t)), fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t))
	up := &edgeProcess{
		url: "http://" + addr, ops: ops, env: append(os.Environ(), "TAILRACE_LOG_LEVEL=warn"),
		args: []string{
			"up", "--listen", addr, "--ops-listen", ops, "--nats-port", fmt.Sprint(natstest.ReservePort(t)), "--data-dir", t.TempDir(), "--demo", "0.2", "--drain", "0s",
		},
	}
	up.start(t)
	t.Cleanup(func() {
		up.kill()
		if t.Failed() {
			t.Logf("log of the process:\n%s", up.log.String())
		}
	})
	all := b.run(t, "sessions.mjs", map[string]any{"url": up.url}).until("its end", isLast)
	if last := all[len(all)-1]; last.Type != "return" || last.ID == "" {
		t.Errorf("%+v", last)
	}
}
