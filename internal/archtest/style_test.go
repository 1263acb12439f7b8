package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bubble is the directive of a function that sleeps and is only called in a synctest bubble, where time is simulated.
const bubble = "//tailrace:bubble"

// TestStyle reads every test file: no skip, and no sleep outside a synctest bubble.
func TestStyle(t *testing.T) {
	files := sources(t, "_test.go")
	if len(files) < 100 {
		t.Errorf("found %d test files, want at least 100: the search is broken", len(files))
	}
	for _, path := range files {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range styleProblems(fset, file) {
			t.Error(problem)
		}
	}
}

// styleProblems returns the calls of a test file that the rules forbid, and directives that are not needed. A function may sleep if it opens a bubble or
// carries the directive.
func styleProblems(fset *token.FileSet, file *ast.File) (problems []string) {
	for _, decl := range file.Decls {
		var sleeps []ast.Node
		opens := false
		ast.Inspect(decl, func(n ast.Node) bool {
			opens = opens || isCall(n, "synctest", "Test")
			if isCall(n, "time", "Sleep") {
				sleeps = append(sleeps, n)
			}
			for _, skip := range []string{"Skip", "Skipf", "SkipNow"} {
				for _, receiver := range []string{"t", "b", "tb", "f"} {
					if isCall(n, receiver, skip) {
						problems = append(problems, fmt.Sprintf("%s: %s.%s; fail and name what to start", fset.Position(n.Pos()), receiver, skip))
					}
				}
			}
			return true
		})
		f, _ := decl.(*ast.FuncDecl)
		directed := f != nil && f.Doc != nil && slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return c.Text == bubble })
		switch {
		case directed && (opens || len(sleeps) == 0):
			problems = append(problems, fmt.Sprintf("%s: %s on a function that opens a bubble or does not sleep", fset.Position(f.Pos()), bubble))
		case !directed && !opens:
			for _, n := range sleeps {
				problems = append(problems, fmt.Sprintf("%s: time.Sleep outside a bubble; wait on a signal, or add %s to a function that only runs in one", fset.Position(n.Pos()), bubble))
			}
		}
	}
	return problems
}

// defaultPort matches an address of a process with default settings.
var defaultPort = regexp.MustCompile(`(127\.0\.0\.1|localhost|\[::1\]):(4422|4480|4481)\b`)

// namesDefaultPort are test files that compare texts with the address and do not use it.
var namesDefaultPort = []string{"e2e/clients/publish_test.go", "sink/e2e/five_minutes_test.go"}

// TestDefaultPorts fails for a test or a test kit that names an address of the default settings: a test passes while another program has the port, such as
// `make run`. The commands that a test runs have other defaults, see natstest.Main.
func TestDefaultPorts(t *testing.T) {
	var found []string
	for _, path := range sources(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "internal/testkit/") && !strings.HasPrefix(path, "e2e/") || path == "internal/archtest/style_test.go" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if address := defaultPort.Find(data); address != nil {
			if found = append(found, path); !slices.Contains(namesDefaultPort, path) {
				t.Errorf("%s has %s; use port 0 or natstest.ReservePort", path, address)
			}
		}
	}
	for _, path := range namesDefaultPort {
		if !slices.Contains(found, path) {
			t.Errorf("%s has no default address any more", path)
		}
	}
	for text, want := range map[string]bool{"http://127.0.0.1:4480/": true, "localhost:4422": true, "127.0.0.1:44801": false, "127.9.0.1:4480": false} {
		if defaultPort.MatchString(text) != want {
			t.Errorf("%s: want %t", text, want)
		}
	}
}

func TestStyleProblems(t *testing.T) {
	for text, want := range map[string]int{
		"func TestX(t *testing.T) { time.Sleep(1) }":                                          1,
		"func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }": 0,
		"// wait waits.\n//\n//tailrace:bubble\nfunc wait() { time.Sleep(1) }":                0,
		"//tailrace:bubble\nfunc wait() { time.Sleep(1) }\nfunc w() { time.Sleep(1) }":        1,
		"// wait runs in a bubble.\nfunc wait() { time.Sleep(1) }":                            1,
		"//tailrace:bubble\nfunc wait() {}":                                                   1,
		"//tailrace:bubble\nfunc wait() { synctest.Test(t, func() { time.Sleep(1) }) }":       1,
		"func TestX(t *testing.T) { t.Skip(); t.Skipf(``) }":                                  2,
		"func TestX(t *testing.T) { t.Log() }":                                                0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x_test.go", "package x\n"+text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := styleProblems(fset, file); len(got) != want {
			t.Errorf("%s: got %q, want %d problems", text, got, want)
		}
	}
}

func isCall(n ast.Node, recv, name string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == recv
}
