package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStyle reads every test file: no skip, and no sleep outside a synctest bubble, where time is simulated.
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

// styleProblems returns the calls of a test file that the rules forbid. A function that opens a bubble may sleep, and so may a file with a comment that
// says that its helpers run in one.
func styleProblems(fset *token.FileSet, file *ast.File) (problems []string) {
	inBubble := slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool { return strings.Contains(group.Text(), "in a bubble") })
	for _, decl := range file.Decls {
		bubble := inBubble
		ast.Inspect(decl, func(n ast.Node) bool {
			bubble = bubble || isCall(n, "synctest", "Test")
			return true
		})
		ast.Inspect(decl, func(n ast.Node) bool {
			if isCall(n, "time", "Sleep") && !bubble {
				problems = append(problems, fset.Position(n.Pos()).String()+": time.Sleep outside a bubble; wait on a signal")
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
	}
	return problems
}

func TestStyleProblems(t *testing.T) {
	for text, want := range map[string]int{
		"func TestX(t *testing.T) { time.Sleep(1) }":                                          1,
		"func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }": 0,
		"// wait runs in a bubble.\nfunc wait() { time.Sleep(1) }":                            0,
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
