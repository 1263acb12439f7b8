//go:build e2e

package clients

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const pythonSource = "../../clients/python"

// pythonTimeout is the timeout of an installation.
const pythonTimeout = 5 * time.Minute

// installed is the Python package in an environment of its own, installed from its wheel without an index. The environment sees the packages of the system, of which
// the extras of the package need some.
type installed struct {
	python string // of the environment
	dir    string // has the environment
	files  []string
	err    error

	install func(ctx context.Context, dir string) (python string, err error) // into another environment
}

var installPython = sync.OnceValue(func() *installed {
	b := &installed{}
	ctx, cancel := context.WithTimeout(context.Background(), pythonTimeout)
	defer cancel()
	b.err = b.all(ctx)
	return b
})

func newPython(t *testing.T) *installed {
	t.Helper()
	b := installPython()
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b
}

func (b *installed) all(ctx context.Context) error {
	script := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "python.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return fmt.Errorf("scripts/python.sh: %w", err)
	}
	builder := strings.TrimSpace(string(out))
	if b.dir, err = os.MkdirTemp("", "tailrace-python"); err != nil {
		return err
	}
	cleanups = append(cleanups, b.dir)
	work, dist := filepath.Join(b.dir, "source"), filepath.Join(b.dir, "dist")
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	if err := commands(ctx, [][]string{
		{"cp", "-R", filepath.Join(pythonSource, "src"), filepath.Join(pythonSource, "pyproject.toml"), filepath.Join(pythonSource, "README.md"), work},
		{builder, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", dist, work},
	}); err != nil {
		return err
	}
	b.install = func(ctx context.Context, dir string) (string, error) {
		python := filepath.Join(dir, "bin", "python")
		return python, commands(ctx, [][]string{
			{builder, "-m", "venv", "--system-site-packages", "--without-pip", dir},
			{builder, "-m", "pip", "--python", python, "--disable-pip-version-check", "install", "--quiet", "--no-index", "--find-links", dist, "tailrace"},
		})
	}
	if b.python, err = b.install(ctx, filepath.Join(b.dir, "env")); err != nil {
		return err
	}
	wheels, err := filepath.Glob(filepath.Join(dist, "tailrace-*.whl"))
	if err != nil || len(wheels) != 1 {
		return fmt.Errorf("pip has built %v: %w", wheels, err)
	}
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		return err
	}
	for _, f := range wheel.File {
		b.files = append(b.files, f.Name)
	}
	return wheel.Close()
}

func commands(ctx context.Context, all [][]string) error {
	for _, args := range all {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// command starts python -m tailrace.
func (b *installed) command(t *testing.T, args ...string) *node {
	t.Helper()
	return program(t, b.dir, b.python, append([]string{"-m", "tailrace"}, args...)...)
}

// script starts a program of this directory.
func (b *installed) script(t *testing.T, name string, args ...string) *node {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return program(t, b.dir, b.python, append([]string{path}, args...)...)
}
