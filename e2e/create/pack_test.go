//go:build e2e

package create

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// npm runs npm with a Node.js that is recent enough, and variables of the environment.
type npm struct {
	node string // path
	env  []string
}

func newNPM(t *testing.T) npm {
	t.Helper()
	script := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", "node.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("scripts/node.sh: %v", err)
	}
	node := strings.TrimSpace(string(out))
	return npm{node, append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))}
}

// with returns npm with further variables.
func (n npm) with(env ...string) npm { return npm{n.node, append(slices.Clone(n.env), env...)} }

func (n npm) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	npm := exec.CommandContext(ctx, "npm", args...)
	npm.Dir, npm.Env = dir, n.env
	return npm
}

// run runs npm and returns its output.
func (n npm) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := n.command(t.Context(), dir, args...)
	command.Stderr = t.Output()
	out, err := command.Output()
	if err != nil {
		t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// archive is a packed package with its package.json.
type archive struct {
	path     string
	manifest map[string]any
}

// pack packs a copy of a package of the working tree as npm would publish it. Its version ends with a hash of the sources of both packages, because npm keeps what it has
// created projects with: another version is another package.
func pack(t *testing.T, n npm, source, suffix string) archive {
	t.Helper()
	work := filepath.Join(t.TempDir(), filepath.Base(source))
	if err := os.CopyFS(work, withoutBuilt{os.DirFS(source)}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(work, "package.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]any
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	version := fmt.Sprint(manifest["version"])
	manifest["version"] = version + suffix
	text, err = json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(n.run(t, work, "pack", "--silent"))
	return archive{filepath.Join(work, filepath.Base(name)), manifest}
}

// withoutBuilt is a directory of a package without what is built or installed in it.
type withoutBuilt struct{ fs.FS }

func (w withoutBuilt) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.FS, name)
	kept := entries[:0]
	for _, e := range entries {
		if e.Name() != "node_modules" && e.Name() != "dist" {
			kept = append(kept, e)
		}
	}
	return kept, err
}

// hashOf returns a hash of the files of directories.
func hashOf(t *testing.T, dirs ...string) string {
	t.Helper()
	sum := sha256.New()
	for _, dir := range dirs {
		tree := withoutBuilt{os.DirFS(dir)}
		err := fs.WalkDir(tree, ".", func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := fs.ReadFile(tree, path)
			_, _ = io.WriteString(sum, path)
			_, _ = sum.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6])
}
