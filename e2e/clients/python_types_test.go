//go:build e2e

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPythonTypes checks the package, and a program that uses all of it, with pyright in its strict mode.
func TestPythonTypes(t *testing.T) {
	b, python := newClient(t), newPython(t)
	modules, err := b.install(t.Context(), "pyright")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(pythonSource, "src"), filepath.Join("types", "app.py"), "../../examples/python/agent.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const config = `{"include": ["src", "app.py", "agent.py"], "typeCheckingMode": "strict", "pythonVersion": "3.10", "extraPaths": ["src"]}`
	if err := os.WriteFile(filepath.Join(dir, "pyrightconfig.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), b.node, filepath.Join(modules, "pyright", "index.js"), "--pythonpath", python.python, "-p", dir)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
