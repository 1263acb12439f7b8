package archtest

import (
	"debug/elf"
	"debug/gosym"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// productionTags are the build tags of the binary. Without grpcnotrace, gRPC, of which the OTLP exporter takes a type, adds pages with traces of its own calls, and with them
// html/template.
const productionTags = "grpcnotrace"

// TestProductionBinary checks what is linked into cmd/tailrace on the platforms of the image: no test code and no benchmark.
func TestProductionBinary(t *testing.T) {
	list := list(t)
	i := slices.IndexFunc(list, func(p listed) bool { return p.ImportPath == module+"/cmd/tailrace" })
	if i < 0 {
		t.Fatal("cmd/tailrace does not exist")
	}
	for _, dep := range list[i].Deps {
		if dep == "testing" || strings.HasPrefix(dep, "testing/") || strings.HasPrefix(dep, module+"/internal/testkit") ||
			strings.HasPrefix(dep, module+"/internal/bench") || strings.HasPrefix(dep, module+"/e2e") || matches(dep, testOnly) {
			t.Errorf("the binary has %s, which is for tests", dep)
		}
	}
}

// TestNoTemplates checks that no template can be executed in cmd/tailrace: templates call methods by names that are known at run time only, so the linker would
// keep all exported methods of all types, a fifth of the binary (ADR 0035). Packages may import them as long as the linker removes what would execute one.
func TestNoTemplates(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tailrace")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-tags", productionTags, "-ldflags", "-s -w", "-o", binary, "./cmd/tailrace")
	build.Dir = root
	build.Env = append(os.Environ(), "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := functions(t, binary)
	if !slices.Contains(names, "main.main") {
		t.Fatalf("%d functions without main.main", len(names))
	}
	for _, name := range names {
		if strings.HasPrefix(name, "text/template.(*state).") {
			t.Errorf("the binary has %s: templates can be executed", name)
		}
	}
	for _, file := range []string{"Makefile", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(text), productionTags) {
			t.Errorf("%s does not build with the tag %s: %v", file, productionTags, err)
		}
	}
}

// functions returns the names of the functions of a binary for Linux, which a binary without symbols has too, for stack traces.
func functions(t *testing.T, binary string) []string {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, text := f.Section(".gopclntab"), f.Section(".text")
	if lines == nil || text == nil {
		t.Fatal("the binary has no table of functions")
	}
	data, err := lines.Data()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(table.Funcs))
	for _, fn := range table.Funcs {
		names = append(names, fn.Name)
	}
	return names
}
