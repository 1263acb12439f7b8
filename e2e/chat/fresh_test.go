//go:build e2e

package chat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFreshClone installs and builds the example as its README says, from the files that a clone has: npm builds the client, whose compiler is not installed there yet.
func TestFreshClone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*npmTimeout)
	defer cancel()
	clone := t.TempDir()
	for from, names := range map[string][]string{
		client:  {"src", "package.json", "package-lock.json", "tsconfig.json", "prepare.mjs", "README.md"},
		example: {"src", "package.json", "package-lock.json", ".npmrc", "tsconfig.json", "vite.config.ts", "index.html"},
	} {
		dir := filepath.Join(clone, filepath.Base(filepath.Dir(from)), filepath.Base(from))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			copyAll(ctx, t, filepath.Join(from, name), dir)
		}
	}
	env := append(os.Environ(), "PATH="+filepath.Dir(findNode(ctx, t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, args := range [][]string{{"ci", "--no-audit", "--no-fund", "--loglevel=error"}, {"run", "build"}} {
		npm := exec.CommandContext(ctx, "npm", args...)
		npm.Dir, npm.Env = filepath.Join(clone, "examples", "chat"), env
		if out, err := npm.CombinedOutput(); err != nil {
			t.Fatalf("npm %s: %v\n%s", args, err, out)
		}
	}
}
