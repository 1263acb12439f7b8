//go:build e2e

package chat

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
)

// The transport of the client has one stream for each answer, whatever happens to its connections: the stock Chat of both versions, which knows of no cut, has the same
// messages for a cut at each byte.
func TestCuts(t *testing.T) {
	t.Parallel()
	w := newEnv(t, 6)
	for major := range manifests {
		t.Run(fmt.Sprintf("ai%d", major), func(t *testing.T) {
			t.Parallel()
			app := newApp(t, major)
			copyFile(t, "cuts.mjs", app.dir)
			args := []string{"cuts.mjs", "http://" + w.edges[0].addr}
			for range 4 {
				chat := fmt.Sprintf("cuts-%d", rand.Int64())
				w.release(t, chat)
				args = append(args, chat)
			}
			node := exec.CommandContext(t.Context(), findNode(t.Context(), t), args...)
			node.Dir = app.dir
			out, err := node.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
