package archtest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const closures = "internal/archtest/testdata/modules.txt"

// neverBelow holds modules that no program gets by an import of a public package, except agents/openai for the one of its own.
var neverBelow = []string{
	natsServer, "github.com/chromedp/",
	"pgregory.net/rapid", "go.uber.org/goleak", "github.com/getkin/", "github.com/cloudevents/",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters/", // a program chooses its own; packages need the API only
}

// TestClosures compares the modules that each public package needs, itself or through others, with a file, so that each module that an import costs is part of
// a reviewed diff. After an intended change:
//
//	go test ./internal/archtest -run TestClosures -update
func TestClosures(t *testing.T) {
	modules := modulesOf(t)
	var page strings.Builder
	for _, pkg := range list(t) {
		name, _ := nameOf(pkg.ImportPath)
		if !isPublic(name, pkg) {
			continue
		}
		fmt.Fprintf(&page, "%s\n", titleOf(name))
		for _, needed := range closureOf(pkg, modules) {
			fmt.Fprintf(&page, "\t%s\n", needed)
			if matches(needed, neverBelow) && (name != "agents/openai" || !strings.HasPrefix(needed, "github.com/openai/")) {
				t.Errorf("%s needs %s, which programs must not get by an import", name, needed)
			}
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, closures), []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(filepath.Join(root, closures))
	if err != nil {
		t.Fatal(err)
	}
	if string(golden) != page.String() {
		t.Errorf("the modules of a public package differ from %s at\n%s\nrun TestClosures with -update if the change is intended",
			closures, firstChange(string(golden), page.String()))
	}
}

// closureOf returns the modules of the packages that pkg needs, without this one.
func closureOf(pkg listed, modules map[string]string) []string {
	needed := map[string]bool{}
	for _, dep := range pkg.Deps {
		if m := modules[dep]; m != "" && m != module {
			needed[m] = true
		}
	}
	return slices.Sorted(maps.Keys(needed))
}

// modulesOf returns the module of each package below this one, "" for the standard library.
func modulesOf(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, mod, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules[path] = mod
	}
	return modules
}

func TestClosureOf(t *testing.T) {
	modules := map[string]string{"a/x": "a", "a/y": "a", "b": "b", module + "/chunk": module, "fmt": ""}
	if got := closureOf(listed{Deps: []string{"fmt", "b", "a/y", "a/x", module + "/chunk"}}, modules); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q, want a and b", got)
	}
}
