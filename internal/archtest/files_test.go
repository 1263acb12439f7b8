package archtest

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the directory of the module, seen from this package.
var root = filepath.Join("..", "..")

var update = flag.Bool("update", false, "write what the tests generate: docs/why/architecture.md, docs/api, the modules of public packages, the budgets of sizes and of private words")

// sources returns the files of the repository that end with one of the suffixes, by path from the root, sorted. It leaves out what is installed or built.
func sources(t *testing.T, suffixes ...string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "bin", "dist", "data"}, d.Name())) {
			return fs.SkipDir
		}
		if !d.IsDir() && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			paths = append(paths, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}

// replaceFile writes data to path if -update is given, and otherwise fails if the file has another content.
func replaceFile(t *testing.T, path, data string) {
	t.Helper()
	name := filepath.Join(root, path)
	if *update {
		if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != data {
		t.Errorf("%s is out of date: go test ./internal/archtest -update", path)
	}
}
