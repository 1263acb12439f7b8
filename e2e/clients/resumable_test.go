//go:build e2e

package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// TestResumable writes a stream with the calls of resumable-stream, and reads it with several readers, through two edges and a proxy that cuts responses and requests: each
// reader gets the same text, and the stream is made once.
func TestResumable(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	const words = 300
	proxy := newCutter(t, []string{w.ingestEdge(), w.ingestEdge()}, seedtest.Rand(t), 15_000)
	proxy.cutRequests(12_000)
	proxy.cutAtMost(6) // each wait is longer than the one before
	all := b.run(t, "resumable.mjs", map[string]any{"url": proxy.url, "words": words, "readers": 4}).until("its end", isLast)
	var want strings.Builder
	for i := range words {
		fmt.Fprintf(&want, "word %d é🌊 ", i)
	}
	if got := deltas(t, all[0].ID); got != want.String() {
		t.Errorf("the text is %q", got)
	}
	if proxy.count() == 0 {
		t.Error("nothing was cut")
	}
}

// deltas returns the text of a response of the AI SDK.
func deltas(t *testing.T, response string) string {
	t.Helper()
	var b strings.Builder
	for frame := range strings.SplitSeq(response, "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: {")
		if ok && strings.Contains(data, `"text-delta"`) {
			var chunk struct {
				Delta string `json:"delta"`
			}
			if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
				t.Fatal(err)
			}
			b.WriteString(chunk.Delta)
		}
	}
	return b.String()
}
