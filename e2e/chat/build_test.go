//go:build e2e

package chat

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

const example = "../../examples/chat"

// manifests are the directories of package.json and its lock file by the major
// version of the AI SDK: the example's own, and that of this package for the
// other version.
var manifests = map[int]string{6: filepath.Join("packages", "6"), 7: example}

// app is a copy of the example, for one major version of the AI SDK.
type app struct {
	dir string
	env []string // with a Node.js that is recent enough for npm
}

func newApp(t *testing.T, major int) app {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), npmTimeout)
	defer cancel()
	node := findNode(ctx, t)
	modules := install(ctx, t, major)
	dir := t.TempDir()
	for _, name := range []string{"src", "index.html", "tsconfig.json", "vite.config.ts"} {
		if out, err := exec.CommandContext(ctx, "cp", "-R", filepath.Join(example, name), dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	copyFile(t, filepath.Join(manifests[major], "package.json"), dir)
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return app{dir, append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))}
}

// build runs `npm run build`, including the type check, and returns the
// directory of the built files.
func (a app) build(t *testing.T) string {
	t.Helper()
	build := exec.CommandContext(t.Context(), "npm", "run", "build")
	build.Dir, build.Env = a.dir, a.env
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("npm run build: %v\n%s", err, out)
	}
	return filepath.Join(a.dir, "dist")
}

// findNode returns the path of a Node.js that the packages accept.
func findNode(ctx context.Context, t *testing.T) string {
	t.Helper()
	script := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "node.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("scripts/node.sh: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// install installs the packages of a lock file into .tools and returns their
// node_modules. An existing directory is used as it is: its name contains the
// hash of the lock file, and an incomplete installation never has this name.
func install(ctx context.Context, t *testing.T, major int) string {
	t.Helper()
	tools, err := filepath.Abs(filepath.Join("..", "..", ".tools"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(manifests[major], "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Fatalf("%s names the registry it was made with: npm install --omit-lockfile-registry-resolved", manifests[major])
	}
	sum := sha256.Sum256(lock)
	home := filepath.Join(tools, fmt.Sprintf("chat-%d-%x", major, sum[:6]))
	modules := filepath.Join(home, "node_modules")
	if _, err := os.Stat(home); err == nil {
		return modules
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	half, err := os.MkdirTemp(tools, "chat-half-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(half)
	copyFile(t, filepath.Join(manifests[major], "package.json"), half)
	copyFile(t, filepath.Join(manifests[major], "package-lock.json"), half)
	npm := exec.CommandContext(ctx, "npm", "ci", "--prefix", half, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci for version %d (it needs the npm registry): %v\n%s", major, err, out)
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			t.Fatal(err)
		}
	}
	return modules
}

func copyFile(t *testing.T, path, dir string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// buildProgram builds a program of the example.
func buildProgram(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./"+name)
	build.Dir = example
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}
