// Command concepts counts what the code of the module consists of: lines, types, and mechanisms of which there should be one
// each. It reads the Go files that git knows below the working directory. With -v it also prints where it found what it
// counted.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What is not production code: test kits, the benchmark, and what shows or checks the rest.
var (
	kits = regexp.MustCompile(`^(chunk/chunktest|projector/storetest|internal/(natstest|logtest|openaitest|openapitest|seedtest|chromiumtest|testkit))/`)
	rest = regexp.MustCompile(`^(internal/(bench|archtest)|cmd/tailrace-bench|e2e|examples|scripts)/|^cmd/tailrace/bench\.go$`)
)

// counts has where each thing was found, in the order of names.
type counts struct {
	lines int
	names []string
	found map[string][]string
}

// The names of what is counted.
const (
	publicPackages = "public packages"
	structs        = "structs"
	exported       = "exported types of public packages"
	chatNames      = "exported names of internal/chat"
	configs        = "types named Config"
	messages       = "types named Message"
	problems       = "structs named problem or Problem"
	prefixes       = "packages that compute the prefix of the JetStream API"
	codeTables     = "packages that name error codes of the server"
	guarded        = "packages that publish with an expected sequence"
	pulls          = "packages that pull from a consumer"
	pauses         = "pauses: selects on ctx.Done and a timer alone"
	scanners       = "packages that look for backslashes in JSON text"
	unescapers     = "packages that decode surrogate pairs"
	quoters        = "packages with a table of hexadecimal digits"
	bodies         = "packages that limit the body of a request"
	fixtures       = "test fixtures: types named env or world that are not built on testkit/stack"
)

func main() {
	verbose := flag.Bool("v", false, "print where")
	flag.Parse()
	if err := run(*verbose); err != nil {
		fmt.Fprintln(os.Stderr, "concepts:", err)
		os.Exit(1)
	}
}

func run(verbose bool) error {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go").Output() //nolint:noctx // it ends at once
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	c := &counts{found: make(map[string][]string), names: []string{
		publicPackages, structs, exported, chatNames, configs, messages, problems,
		prefixes, codeTables, guarded, pulls, pauses, scanners, unescapers, quoters, bodies, fixtures,
	}}
	for name := range strings.FieldsSeq(string(out)) {
		if err := c.file(name); err != nil && !os.IsNotExist(err) { // git may list what is deleted
			return err
		}
	}
	fmt.Printf("%6d  production lines\n", c.lines) //nolint:forbidigo // its output
	for _, name := range c.names {
		where := slices.Compact(slices.Sorted(slices.Values(c.found[name])))
		fmt.Printf("%6d  %s\n", len(where), name) //nolint:forbidigo // its output
		if verbose {
			fmt.Printf("        %s\n", strings.Join(where, " ")) //nolint:forbidigo // its output
		}
	}
	return nil
}

func (c *counts) file(name string) error {
	text, err := os.ReadFile(name) //nolint:gosec // git named it
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &scan{counts: c, fset: fset, dir: path.Dir(name)}
	switch {
	case strings.HasSuffix(name, "_test.go") || kits.MatchString(name):
		ast.Inspect(file, f.fixture)
	case !rest.MatchString(name):
		c.lines += bytes.Count(text, []byte("\n"))
		f.public = isPublic(f.dir, file.Name.Name)
		if f.public {
			f.add(publicPackages, f.dir)
		}
		for _, d := range file.Decls {
			f.decl(d)
		}
		ast.Inspect(file, f.node)
	}
	return nil
}

func isPublic(dir, pkg string) bool {
	return pkg != "main" && !slices.Contains(strings.Split(dir, "/"), "internal")
}

// scan counts in one file.
type scan struct {
	*counts

	fset   *token.FileSet
	dir    string
	public bool
}

func (f *scan) add(what, where string) { f.found[what] = append(f.found[what], where) }

func (f *scan) at(n ast.Node) string {
	p := f.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d:%d", p.Filename, p.Line, p.Column)
}

// fixture counts in tests.
func (f *scan) fixture(n ast.Node) bool {
	if t, ok := n.(*ast.TypeSpec); ok && (t.Name.Name == "env" || t.Name.Name == "world") && !embedsStack(t) {
		f.add(fixtures, f.at(t))
	}
	return true
}

// embedsStack reports whether a type embeds *stack.Stack.
func embedsStack(t *ast.TypeSpec) bool {
	s, ok := t.Type.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(field *ast.Field) bool {
		star, ok := field.Type.(*ast.StarExpr)
		if !ok || len(field.Names) > 0 {
			return false
		}
		sel, ok := star.X.(*ast.SelectorExpr)
		return ok && isNamed(sel.X, "stack")
	})
}

// decl counts what a package declares at its top.
func (f *scan) decl(d ast.Decl) {
	var names []*ast.Ident
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				names = append(names, s.Names...)
			case *ast.TypeSpec:
				names = append(names, s.Name)
				if f.public && s.Name.IsExported() {
					f.add(exported, f.dir+"."+s.Name.Name)
				}
			}
		}
	}
	for _, name := range names {
		if f.dir == "internal/chat" && name.IsExported() {
			f.add(chatNames, name.Name)
		}
	}
}

// node counts what may be anywhere.
func (f *scan) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.TypeSpec:
		f.typeSpec(n)
	case *ast.SelectorExpr:
		if strings.HasPrefix(n.Sel.Name, "JSErrCode") {
			f.add(codeTables, f.dir)
		}
		switch n.Sel.Name {
		case "WithExpectLastSequencePerSubject":
			f.add(guarded, f.dir)
		case "DecodeRune":
			if isNamed(n.X, "utf16") {
				f.add(unescapers, f.dir)
			}
		case "MaxBytesReader":
			f.add(bodies, f.dir)
		}
	case *ast.BasicLit:
		f.literal(n)
	case *ast.CallExpr:
		if pullsFrom(n) {
			f.add(pulls, f.dir)
		}
	case *ast.SelectStmt:
		if isPause(n) {
			f.add(pauses, f.at(n))
		}
	}
	return true
}

// typeSpec counts a type. An alias does not count as a struct.
func (f *scan) typeSpec(n *ast.TypeSpec) {
	name := n.Name.Name
	if _, ok := n.Type.(*ast.StructType); ok {
		f.add(structs, f.at(n))
		if name == "problem" || name == "Problem" {
			f.add(problems, f.dir+"."+name)
		}
	}
	if what := map[string]string{"Config": configs, "Message": messages}[name]; what != "" {
		f.add(what, f.dir+"."+name)
	}
}

func (f *scan) literal(n *ast.BasicLit) {
	if n.Kind == token.INT {
		if code, err := strconv.Atoi(n.Value); err == nil && code > 10000 && code < 10200 {
			f.add(codeTables, f.dir)
		}
	}
	if n.Kind == token.CHAR && n.Value == `'\\'` {
		f.add(scanners, f.dir)
	}
	if n.Kind == token.STRING && slices.Contains([]string{`"$JS."`, `"$JS.API."`, `".API."`}, n.Value) {
		f.add(prefixes, f.dir)
	}
	if n.Kind == token.STRING && strings.Contains(n.Value, "0123456789abcdef") {
		f.add(quoters, f.dir)
	}
	if n.Kind == token.STRING && strings.Contains(n.Value, "CONSUMER.MSG.NEXT") {
		f.add(pulls, f.dir)
	}
	if n.Kind == token.STRING && strings.Contains(n.Value, "Nats-Expected-Last-Subject-Sequence") && f.dir != "codec" { // codec removes it
		f.add(guarded, f.dir)
	}
}

// pullsFrom reports whether a call asks a consumer for messages, by the options of package
// jetstream among its arguments.
func pullsFrom(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Fetch", "FetchBytes", "FetchNoWait", "Messages", "Consume", "Next"}, method.Sel.Name) {
		return false
	}
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		option, ok := arg.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := option.Fun.(*ast.SelectorExpr)
		return ok && isNamed(sel.X, "jetstream")
	})
}

// isPause reports whether a select waits for the end of a context or for a timer, and for nothing else.
func isPause(s *ast.SelectStmt) bool {
	var done, timer bool
	for _, clause := range s.Body.List {
		c, ok := clause.(*ast.CommClause)
		if !ok || c.Comm == nil {
			return false
		}
		stmt, ok := c.Comm.(*ast.ExprStmt)
		if !ok {
			return false
		}
		receive, ok := stmt.X.(*ast.UnaryExpr)
		if !ok {
			return false
		}
		switch from := receive.X.(type) {
		case *ast.CallExpr:
			sel, ok := from.Fun.(*ast.SelectorExpr)
			done = done || ok && sel.Sel.Name == "Done"
			timer = timer || ok && sel.Sel.Name == "After" && isNamed(sel.X, "time")
		case *ast.SelectorExpr:
			timer = timer || from.Sel.Name == "C"
		}
	}
	return done && timer && len(s.Body.List) == 2
}

func isNamed(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
