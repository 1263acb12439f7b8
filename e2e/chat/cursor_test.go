//go:build e2e

package chat

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
)

// What the cursor counts is what the SDK was given, and nothing else: one record
// too many is lost for ever, one too few is shown twice.
func TestCursorCountsWhatArrived(t *testing.T) {
	t.Parallel()
	for major := range manifests {
		t.Run(fmt.Sprintf("ai%d", major), func(t *testing.T) {
			t.Parallel()
			app := newApp(t, major)
			copyFile(t, "cursor.mjs", app.dir)
			seed := cmp.Or(*seedFlag, rand.Uint64())
			node := exec.CommandContext(t.Context(), findNode(t.Context(), t), "cursor.mjs", fmt.Sprint(seed))
			node.Dir = app.dir
			if out, err := node.CombinedOutput(); err != nil {
				t.Errorf("-chat-seed %d: %v\n%s", seed, err, out)
			}
		})
	}
}
