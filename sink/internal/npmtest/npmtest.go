// Package npmtest installs npm packages for tests, as a lock file names them, once into .tools.
package npmtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const installTimeout = 5 * time.Minute

// Command returns a command that runs the script of sources with Node.js. Beside the script, sources has package.json and package-lock.json. The name is that of
// the directory in .tools.
func Command(t *testing.T, name string, sources fs.FS, script string) *exec.Cmd {
	t.Helper()
	home, err := install(name, sources)
	if err != nil {
		t.Fatal(err)
	}
	node, err := node()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(home, script)) //nolint:gosec // the script of a package of this module
	cmd.Stderr = os.Stderr
	return cmd
}

// root returns the directory of the repository. Go runs tests in the directory of their package, which is below it.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "node.sh")); err == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("scripts/node.sh is not above the working directory: %w", err)
}

// node returns the path of the Node.js of the tests.
var node = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	dir, err := root()
	if err != nil {
		return "", err
	}
	script := exec.CommandContext(ctx, filepath.Join(dir, "scripts", "node.sh")) //nolint:gosec // the script of this repository
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node.sh: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// installing is held while packages are installed.
var installing sync.Mutex

// install installs the packages of the lock file and returns their directory. An existing directory is used as it is: its name contains the hash of the sources,
// and an incomplete installation never has this name.
func install(name string, sources fs.FS) (string, error) {
	installing.Lock()
	defer installing.Unlock()
	node, err := node()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	files := map[string][]byte{}
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = fs.ReadFile(sources, path)
		sum.Write(files[path])
		return err
	})
	if err != nil {
		return "", err
	}
	dir, err := root()
	if err != nil {
		return "", err
	}
	tools := filepath.Join(dir, ".tools")
	home := filepath.Join(tools, fmt.Sprintf("%s-%x", name, sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	if err := os.MkdirAll(tools, 0o750); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, name+"-half-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(half) }()
	for path, data := range files {
		if err := os.WriteFile(filepath.Join(half, path), data, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = half
	npm.Env = append(os.Environ(), "PATH="+filepath.Dir(node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci of %s (it needs the npm registry): %w\n%s", name, err, out)
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			return "", err
		}
	}
	return home, nil
}
