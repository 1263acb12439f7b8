//go:build e2e

package clients

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

const source = "../../clients/ts"

// built is the client as npm would publish it, unpacked, and the Node.js to run it with. It is built once for all tests.
type built struct {
	node    string // path
	modules string // node_modules with the tools of the client
	dir     string // of the tests: has node_modules/tailrace-client
	pkg     string // node_modules/tailrace-client
	files   []string
	err     error
}

var build = sync.OnceValue(func() *built {
	b := &built{}
	ctx, cancel := context.WithTimeout(context.Background(), npmTimeout)
	defer cancel()
	b.err = b.all(ctx)
	return b
})

func newClient(t *testing.T) *built {
	t.Helper()
	b := build()
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b
}

func (b *built) all(ctx context.Context) error {
	script := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "node.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return fmt.Errorf("scripts/node.sh: %w", err)
	}
	b.node = strings.TrimSpace(string(out))
	if b.modules, err = b.install(ctx, source); err != nil {
		return err
	}
	return b.pack(ctx)
}

// npm runs npm with the Node.js of the tests.
func (b *built) npm(ctx context.Context, dir string, args ...string) ([]byte, error) {
	npm := exec.CommandContext(ctx, "npm", args...)
	npm.Dir = dir
	npm.Env = append(os.Environ(), "PATH="+filepath.Dir(b.node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	npm.Stderr = os.Stderr
	out, err := npm.Output()
	if err != nil {
		return nil, fmt.Errorf("npm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return out, nil
}

// install installs the packages of a lock file into .tools, and returns their node_modules. An existing directory is used as it is: its name contains the hash of the
// lock file, and an incomplete installation never has this name.
func (b *built) install(ctx context.Context, source string) (modules string, err error) {
	tools, err := filepath.Abs(filepath.Join("..", "..", ".tools"))
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return "", err
	}
	if strings.Contains(string(lock), `"resolved"`) {
		return "", fmt.Errorf("%s names the registry it was made with: npm install --omit-lockfile-registry-resolved", source)
	}
	sum := sha256.Sum256(lock)
	home := filepath.Join(tools, fmt.Sprintf("client-%x", sum[:6]))
	modules = filepath.Join(home, "node_modules")
	if _, err := os.Stat(home); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, "client-half-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	for _, name := range []string{"package.json", "package-lock.json"} {
		if err := copyFile(filepath.Join(source, name), half); err != nil {
			return "", err
		}
	}
	if _, err := b.npm(ctx, half, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"); err != nil {
		return "", err
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			return "", err
		}
	}
	return modules, nil
}

// pack builds and packs a copy of the client, and unpacks the result as an installation does.
func (b *built) pack(ctx context.Context) error {
	home, err := os.MkdirTemp("", "tailrace-client")
	if err != nil {
		return err
	}
	cleanups = append(cleanups, home)
	work := filepath.Join(home, "source")
	b.dir = filepath.Join(home, "app")
	b.pkg = filepath.Join(b.dir, "node_modules", "tailrace-client")
	if err := os.MkdirAll(b.pkg, 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"src", "package.json", "tsconfig.json", "prepare.mjs", "README.md"} {
		if out, err := exec.CommandContext(ctx, "cp", "-R", filepath.Join(source, name), work).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	if err := os.Symlink(b.modules, filepath.Join(work, "node_modules")); err != nil {
		return err
	}
	out, err := b.npm(ctx, work, "pack", "--json", "--silent")
	if err != nil {
		return err
	}
	var packed []struct {
		Filename string `json:"filename"`
		Files    []struct {
			Path string `json:"path"`
		} `json:"files"`
	}
	if err := json.Unmarshal(out, &packed); err != nil || len(packed) != 1 {
		return fmt.Errorf("npm pack: %w in %s", err, out)
	}
	for _, f := range packed[0].Files {
		b.files = append(b.files, f.Path)
	}
	slices.Sort(b.files)
	if out, err := exec.CommandContext(ctx, "tar", "-xzf", filepath.Join(work, packed[0].Filename), "-C", b.pkg, "--strip-components=1").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	programs, err := filepath.Glob("*.mjs")
	if err != nil {
		return err
	}
	for _, path := range programs {
		if err := copyFile(path, b.dir); err != nil {
			return err
		}
	}
	return b.link(b.dir, "")
}

// link gives a directory the packages that the client is used with. suffix selects the version of the AI SDK: "-6", or "" for the newest.
func (b *built) link(dir, suffix string) error {
	modules := filepath.Join(dir, "node_modules")
	if err := os.MkdirAll(filepath.Join(modules, "@ai-sdk"), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"react", "react-test-renderer", "react-is", "scheduler", "@types", "csstype", "ai" + suffix, "@ai-sdk/react" + suffix} {
		if _, err := os.Stat(filepath.Join(b.modules, name)); err != nil {
			continue
		}
		if err := os.Symlink(filepath.Join(b.modules, name), filepath.Join(modules, strings.TrimSuffix(name, "-6"))); err != nil {
			return err
		}
	}
	return nil
}

// cleanups are the directories of all tests.
var cleanups []string

func copyFile(path, dir string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600)
}
