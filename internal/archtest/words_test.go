package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestHouseWords reads every test file: no skip, and no sleep but inside a
// synctest bubble, where a minute costs nothing.
func TestHouseWords(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			checkWords(t, fset, decl, saysBubble(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// saysBubble reports whether a comment of the file says that it runs in a bubble:
// helpers sleep in the bubble of the test that calls them.
func saysBubble(file *ast.File) bool {
	for _, group := range file.Comments {
		if strings.Contains(group.Text(), "in a bubble") {
			return true
		}
	}
	return false
}

// checkWords judges one top-level declaration. A function that opens a bubble
// may sleep, and so may a file that says it runs in one.
func checkWords(t *testing.T, fset *token.FileSet, decl ast.Decl, bubble bool) {
	t.Helper()
	ast.Inspect(decl, func(n ast.Node) bool {
		bubble = bubble || isCall(n, "synctest", "Test")
		return true
	})
	ast.Inspect(decl, func(n ast.Node) bool {
		if isCall(n, "time", "Sleep") && !bubble {
			t.Errorf("%s: time.Sleep outside a bubble; wait on a signal", fset.Position(n.Pos()))
		}
		for _, skip := range []string{"Skip", "Skipf", "SkipNow"} {
			for _, recv := range []string{"t", "b", "tb", "f"} {
				if isCall(n, recv, skip) {
					t.Errorf("%s: %s.%s; fail and say what to start", fset.Position(n.Pos()), recv, skip)
				}
			}
		}
		return true
	})
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
