//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A receiver that uses only the CloudEvents SDK reads what `publish` wrote.
func TestSDKReceiverReadsTheLog(t *testing.T) {
	u := newUp(t)
	u.start(t)
	line := `{"type":"text_delta","agentId":"a","agentType":"demo","timestamp":1700000000000,"step":1,"delta":"grüße 🌍"}`
	if res := u.tailrace(t, line, "publish", "--session", "s1"); res.code != 0 {
		t.Fatalf("publish: exit %d: %s", res.code, res.err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", "../examples/receiver", fmt.Sprintf("nats://127.0.0.1:%d", u.natsPort), "tr.chunks.0.default.s1.s1")
	cmd.Stderr = t.Output() // go run writes there which modules it downloads
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, want := range []string{"/default/s1/s1 1-1 run_started", "/default/s1/s1 1-2 text_delta", "/default/s1/s1 1-3 stream_end"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d: want %q, got:\n%s", i, want, out)
		}
	}
	if !strings.Contains(lines[1], `"delta":"grüße 🌍"`) {
		t.Errorf("the text is not complete: %s", lines[1])
	}
}
