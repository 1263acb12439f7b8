//go:build e2e

package chat

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
)

// The cursor counts exactly the records that the SDK has received: with one
// record too many, that record would be lost; with one too few, it would be
// shown twice.
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
