//go:build e2e

package chat

import (
	"context"
	"crypto/sha256"
	"errors"
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

const (
	example = "../../examples/chat"
	client  = "../../clients/ts"
)

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
		copyAll(ctx, t, filepath.Join(example, name), dir)
	}
	copyFile(t, filepath.Join(manifests[major], "package.json"), dir)
	a := app{dir, append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))}
	a.addPackages(ctx, t, modules)
	return a
}

// addPackages makes node_modules, with the client as it is in the working tree. It is compiled here, and so with the types of this version of the AI SDK.
func (a app) addPackages(ctx context.Context, t *testing.T, modules string) {
	t.Helper()
	entries, err := os.ReadDir(modules)
	if err != nil {
		t.Fatal(err)
	}
	pkg := filepath.Join(a.dir, "node_modules", "tailrace-client")
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "tailrace-client" {
			continue
		}
		if err := os.Symlink(filepath.Join(modules, e.Name()), filepath.Join(a.dir, "node_modules", e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"src", "package.json", "tsconfig.json"} {
		copyAll(ctx, t, filepath.Join(client, name), pkg)
	}
	compile := exec.CommandContext(ctx, filepath.Join(a.dir, "node_modules", ".bin", "tsc"), "-p", pkg)
	compile.Env = a.env
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
	if strings.Contains(string(lock), `"resolved": "http`) {
		t.Fatalf("%s names the registry it was made with: npm install --omit-lockfile-registry-resolved", manifests[major])
	}
	sum := sha256.Sum256(lock)
	home := filepath.Join(tools, fmt.Sprintf("example-%d-%x", major, sum[:6]))
	modules := filepath.Join(home, "examples", "chat", "node_modules")
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
	// The lock file of the example names the client by its place.
	dir, beside := filepath.Join(half, "examples", "chat"), filepath.Join(half, "clients", "ts")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.MkdirAll(beside, 0o755)); err != nil {
		t.Fatal(err)
	}
	copyFile(t, filepath.Join(client, "package.json"), beside)
	copyFile(t, filepath.Join(manifests[major], "package.json"), dir)
	copyFile(t, filepath.Join(manifests[major], "package-lock.json"), dir)
	npm := exec.CommandContext(ctx, "npm", "ci", "--install-links", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = dir
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

// copyAll copies a file or a directory into a directory.
func copyAll(ctx context.Context, t *testing.T, path, dir string) {
	t.Helper()
	if out, err := exec.CommandContext(ctx, "cp", "-R", path, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
