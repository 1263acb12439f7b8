package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const sizesFile = "internal/archtest/testdata/budget.txt"

// notProduct are directories whose code does not count: kits and tests, benchmarks, deployment, scripts, examples, and the sink, a module of its own.
var notProduct = []string{"e2e", "internal/testkit", "internal/archtest", "internal/bench", "cmd/tailrace-bench", "deploy", "scripts", "examples", "sink"}

// TestBudget compares sizes of the code with a file: lines of each package, and of each directory of TypeScript and styles, exported types, functions and methods of each public package, their sums, settings and
// commands. No size is above its row. A lower size passes, so that removals do not have to change the file, and -update lowers the rows to the sizes:
//
//	go test ./internal/archtest -run TestBudget -update
//
// Rows of a new package, and higher ones for code that has moved, are written by hand. A sum is raised by a feature alone, in the commit that adds it and says by how
// much; otherwise what a package gains, others lose.
func TestBudget(t *testing.T) {
	sizes := sizesOf(t)
	budget := readSizes(t)
	if *update {
		budget = lowered(budget, sizes)
		writeSizes(t, budget)
	}
	for _, problem := range aboveBudget(budget, sizes) {
		t.Error(problem)
	}
}

// sizesOf returns the size of each row of the budget.
func sizesOf(t *testing.T) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for dir, lines := range linesOfPackages(t, sources(t, ".ts", ".tsx", ".css")) {
		sizes["lines of the web, "+dir] = lines
		sizes["lines of the web, sum"] += lines
	}
	packages := linesOfPackages(t, sources(t, ".go"))
	for name, lines := range packages {
		sizes["lines "+titleOf(name)] = lines
		sizes["lines, sum"] += lines
	}
	for _, pkg := range list(t) {
		name, _ := nameOf(pkg.ImportPath)
		if !isPublic(name, pkg) {
			continue
		}
		for kind, n := range exportedOf(parseDir(t, name)) {
			sizes[kind+" "+titleOf(name)] = n
			sizes[kind+", sum"] += n
		}
	}
	files := parseDir(t, "cmd/tailrace")
	sizes["settings"], sizes["commands"] = settingsOf(files), commandsOf(files)
	return sizes
}

// linesOfPackages returns the lines of the files of the product by package.
func linesOfPackages(t *testing.T, files []string) map[string]int {
	t.Helper()
	packages := map[string]int{}
	for _, file := range files {
		if !isProduct(file) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		packages[path.Dir(file)] += bytes.Count(data, []byte("\n"))
	}
	return packages
}

func isProduct(file string) bool {
	return !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/") &&
		!slices.ContainsFunc(notProduct, func(dir string) bool { return strings.HasPrefix(file, dir+"/") })
}

// exportedOf returns the numbers of exported types, functions, and methods of exported types. Variants of a declaration for several platforms count once.
func exportedOf(files []*ast.File) map[string]int {
	names := map[string]map[string]bool{"types": {}, "functions": {}, "methods": {}}
	for _, file := range files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if typ, ok := spec.(*ast.TypeSpec); ok && typ.Name.IsExported() {
						names["types"][typ.Name.Name] = true
					}
				}
			case *ast.FuncDecl:
				switch receiver := receiverOf(decl); {
				case !decl.Name.IsExported():
				case receiver == "":
					names["functions"][decl.Name.Name] = true
				case ast.IsExported(receiver):
					names["methods"][receiver+"."+decl.Name.Name] = true
				}
			}
		}
	}
	return map[string]int{"types": len(names["types"]), "functions": len(names["functions"]), "methods": len(names["methods"])}
}

// receiverOf returns the name of the type of a method, "" for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// settingsOf returns the number of exported fields of the type config.
func settingsOf(files []*ast.File) (n int) {
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "config" {
				return true
			}
			if typ, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range typ.Fields.List {
					for _, name := range field.Names {
						if name.IsExported() {
							n++
						}
					}
				}
			}
			return false
		})
	}
	return n
}

// commandsOf returns the number of commands that the function subcommands lists.
func commandsOf(files []*ast.File) (n int) {
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Name.Name != "subcommands" {
				continue
			}
			ast.Inspect(f, func(node ast.Node) bool {
				if list, ok := node.(*ast.CompositeLit); ok {
					n += len(list.Elts)
					return false
				}
				return true
			})
		}
	}
	return n
}

// aboveBudget returns a line for each size above its row, each size without a row, and each row of something that is gone.
func aboveBudget(budget, sizes map[string]int) (problems []string) {
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		switch most, ok := budget[key]; {
		case !ok:
			problems = append(problems, fmt.Sprintf("%s has no row %q: add it", sizesFile, fmt.Sprintf("%s %d", key, sizes[key])))
		case sizes[key] > most:
			problems = append(problems, fmt.Sprintf("%s: %d, at most %d in %s; code that has moved from another package may raise the row, but no sum", key, sizes[key], most, sizesFile))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(budget)) {
		if _, ok := sizes[key]; !ok {
			problems = append(problems, fmt.Sprintf("%s has the row %q of a package that is gone: remove it", sizesFile, key))
		}
	}
	return problems
}

// lowered returns the rows of what exists, none higher than before.
func lowered(budget, sizes map[string]int) map[string]int {
	now := map[string]int{}
	for key, most := range budget {
		if size, ok := sizes[key]; ok {
			now[key] = min(most, size)
		}
	}
	return now
}

func readSizes(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, sizesFile))
	if err != nil {
		t.Fatal(err)
	}
	budget := map[string]int{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		i := max(strings.LastIndexByte(line, ' '), 0)
		n, err := strconv.Atoi(strings.TrimSpace(line[i:]))
		if err != nil {
			t.Fatalf("%s: %q, want a name and a number", sizesFile, line)
		}
		budget[line[:i]] = n
	}
	return budget
}

func writeSizes(t *testing.T, budget map[string]int) {
	t.Helper()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(budget)) {
		fmt.Fprintf(&b, "%s %d\n", key, budget[key])
	}
	if err := os.WriteFile(filepath.Join(root, sizesFile), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAboveBudget fails if a budget accepts one more of anything that it counts.
func TestAboveBudget(t *testing.T) {
	sizes := sizesOf(t)
	if problems := aboveBudget(sizes, sizes); len(problems) > 0 {
		t.Fatalf("a budget of today's sizes: %q", problems)
	}
	for key := range sizes {
		more, fewer := maps.Clone(sizes), maps.Clone(sizes)
		more[key]++
		fewer[key]--
		if problems := aboveBudget(sizes, more); len(problems) != 1 || !strings.HasPrefix(problems[0], key+": ") {
			t.Errorf("%s: one more: %q", key, problems)
		}
		if problems := aboveBudget(sizes, fewer); len(problems) > 0 {
			t.Errorf("%s: one fewer: %q", key, problems)
		}
		gone := maps.Clone(sizes)
		delete(gone, key)
		if problems := aboveBudget(sizes, gone); len(problems) != 1 || !strings.Contains(problems[0], "is gone") {
			t.Errorf("%s: gone: %q", key, problems)
		}
		if problems := aboveBudget(gone, sizes); len(problems) != 1 || !strings.Contains(problems[0], "has no row") {
			t.Errorf("%s: new: %q", key, problems)
		}
	}
	if got := lowered(map[string]int{"a": 2, "b": 2, "gone": 1}, map[string]int{"a": 1, "b": 3, "new": 1}); !maps.Equal(got, map[string]int{"a": 1, "b": 2}) {
		t.Errorf("lowered: %v", got)
	}
}

// TestSizes counts in a package of its own, so that a wrong count does not pass as a small one.
func TestSizes(t *testing.T) {
	files := []*ast.File{parse(t, `package p
type config struct {
	A, B string `+"`env:\"A\"`"+`
	C int
	d int
}
type Public[T any] struct{}
type hidden int
func (Public[T]) M() {}
func (p *Public[T]) N() {}
func (p *Public[T]) n() {}
func (hidden) M() {}
func F() {}
func g() {}
func subcommands() []command { return []command{{"a", "", run}, {"b", "", func() { _ = []int{1} }}} }
`), parse(t, "package p\nfunc F() {}\ntype ( Other = int; Third interface{ M() } )\n")}
	if got := exportedOf(files); !maps.Equal(got, map[string]int{"types": 3, "functions": 1, "methods": 2}) {
		t.Errorf("exported: %v", got)
	}
	if n := settingsOf(files); n != 3 {
		t.Errorf("%d settings, want 3", n)
	}
	if n := commandsOf(files); n != 2 {
		t.Errorf("%d commands, want 2", n)
	}
	for file, want := range map[string]bool{
		"chunk/record.go": true, "chunk/record_test.go": false, "internal/testkit/natstest/doc.go": false, "internal/benchmark/x.go": true, "deploy/image/main.go": false,
	} {
		if isProduct(file) != want {
			t.Errorf("%s: want %t", file, want)
		}
	}
	if lines := linesOfPackages(t, []string{"internal/archtest/archtest.go", "chunk/doc.go"}); len(lines) != 1 || lines["chunk"] == 0 {
		t.Errorf("lines: %v", lines)
	}
}

func parse(t *testing.T, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
