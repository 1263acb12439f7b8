//go:build e2e

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackage checks what npm would publish: the compiled files with their types, and nothing else.
func TestPackage(t *testing.T) {
	b := newClient(t)
	want := []string{"README.md", "package.json"}
	sources, err := filepath.Glob(filepath.Join(source, "src", "*.ts"))
	if err != nil || len(sources) == 0 {
		t.Fatal(err, sources)
	}
	for _, path := range sources {
		name := strings.TrimSuffix(filepath.Base(path), ".ts")
		want = append(want, "dist/"+name+".js", "dist/"+name+".d.ts")
	}
	slices.Sort(want)
	if !slices.Equal(b.files, want) {
		t.Errorf("the package has %v, want %v", b.files, want)
	}
}

// TestUnits runs the tests of the client's parts against the package.
func TestUnits(t *testing.T) {
	b := newClient(t)
	tests, err := filepath.Glob(filepath.Join(source, "test", "*.mjs"))
	if err != nil || len(tests) == 0 {
		t.Fatal(err, tests)
	}
	dir := filepath.Join(b.dir, "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(b.pkg, "dist"), filepath.Join(b.dir, "dist")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	for _, path := range tests {
		if err := copyFile(path, dir); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), b.node, "--test", "test/*.test.mjs")
	run.Dir = b.dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTypes compiles a program that uses the package as an application does.
func TestTypes(t *testing.T) {
	b := newClient(t)
	for _, name := range []string{"app.ts", "tsconfig.json"} {
		if err := copyFile(filepath.Join("types", name), b.dir); err != nil {
			t.Fatal(err)
		}
	}
	tsc := exec.CommandContext(t.Context(), b.node, filepath.Join(b.modules, "typescript", "bin", "tsc"), "-p", b.dir)
	if out, err := tsc.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
