package archtest

import (
	"slices"
	"strings"
	"testing"
)

// TestProductionBinary checks what is linked into cmd/tailrace on the platforms of the image: no test code, no benchmark, and no package with which the linker
// keeps all exported methods of all types, which is a third of the binary (ADR 0035).
func TestProductionBinary(t *testing.T) {
	list := list(t)
	i := slices.IndexFunc(list, func(p listed) bool { return p.ImportPath == module+"/cmd/tailrace" })
	if i < 0 {
		t.Fatal("cmd/tailrace does not exist")
	}
	for _, dep := range list[i].Deps {
		test := dep == "testing" || strings.HasPrefix(dep, "testing/") || strings.HasPrefix(dep, module+"/internal/testkit") ||
			strings.HasPrefix(dep, module+"/internal/bench") || strings.HasPrefix(dep, module+"/e2e") || matches(dep, testOnly)
		if test {
			t.Errorf("the binary has %s, which is for tests", dep)
		}
		if dep == "text/template" || dep == "html/template" {
			t.Errorf("the binary has %s, whose MethodByName makes the linker keep all exported methods", dep)
		}
	}
}
