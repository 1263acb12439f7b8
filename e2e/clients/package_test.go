//go:build e2e

package clients

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// TestUnits runs the tests of the client's parts against the package, with both versions of the AI SDK.
func TestUnits(t *testing.T) {
	b := newClient(t)
	tests, err := filepath.Glob(filepath.Join(source, "test", "*.mjs"))
	if err != nil || len(tests) == 0 {
		t.Fatal(err, tests)
	}
	for suffix, run := range map[string]string{"": "test/*.test.mjs", "-6": "test/ai.test.mjs"} {
		t.Run("ai"+suffix, func(t *testing.T) {
			dir := t.TempDir()
			if err := b.link(dir, suffix); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "test"), 0o755); err != nil {
				t.Fatal(err)
			}
			// A copy, so that its imports find the packages beside it.
			if out, err := exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(b.pkg, "dist"), filepath.Join(b.pkg, "package.json"), dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, path := range tests {
				if err := copyFile(path, filepath.Join(dir, "test")); err != nil {
					t.Fatal(err)
				}
			}
			node := exec.CommandContext(t.Context(), b.node, "--test", run)
			node.Dir = dir
			if out, err := node.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestSizes bounds what a page loads of each entry, in bytes, without other packages. With bundlers that drop what is not used it is less.
func TestSizes(t *testing.T) {
	b := newClient(t)
	modules, err := b.install(t.Context(), inspectorSource) // has the bundler
	if err != nil {
		t.Fatal(err)
	}
	for entry, test := range map[string]struct {
		limit int
		args  []string
	}{
		"index.js":     {limit: 9 << 10},
		"react.js":     {limit: 2 << 10, args: []string{"--external:./store.js", "--external:./tree.js", "--external:./sessions.js"}}, // a page has them from the first entry
		"log.js":       {limit: 6 << 10},
		"resumable.js": {limit: 3 << 10},
		"ai.js":        {limit: 6 << 10},
	} {
		args := append([]string{filepath.Join(b.pkg, "dist", entry), "--bundle", "--minify", "--format=esm", "--packages=external"}, test.args...)
		code, err := exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "esbuild"), args...).Output()
		if err != nil {
			t.Fatal(entry, err)
		}
		var small bytes.Buffer
		zip := gzip.NewWriter(&small)
		_, err = zip.Write(code)
		if err := errors.Join(err, zip.Close()); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", entry, small.Len())
		if small.Len() > test.limit {
			t.Errorf("%s has %d bytes, at most %d", entry, small.Len(), test.limit)
		}
	}
}

// TestTypes compiles programs that use the package as an application does, and the boxes of its README that are marked with this test.
func TestTypes(t *testing.T) {
	b := newClient(t)
	projects := []string{"tsconfig.json", "tsconfig.chat.json", "tsconfig.readme.json"}
	for _, name := range append([]string{"app.ts", "chat.ts", "readme.d.ts"}, projects...) {
		if err := copyFile(filepath.Join("types", name), b.dir); err != nil {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile(filepath.Join(source, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	boxes := regexp.MustCompile("(?s)```(\\w+) run=TestTypes\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(boxes) < 8 {
		t.Errorf("%d boxes of the README, want at least 8", len(boxes))
	}
	for i, box := range boxes {
		if err := os.WriteFile(filepath.Join(b.dir, fmt.Sprintf("readme%d.%s", i, box[1])), []byte(box[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, project := range projects {
		tsc := exec.CommandContext(t.Context(), b.node, filepath.Join(b.modules, "typescript", "bin", "tsc"), "-p", filepath.Join(b.dir, project))
		if out, err := tsc.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", project, err, out)
		}
	}
}
