package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
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
