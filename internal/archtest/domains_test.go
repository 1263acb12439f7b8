package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// domainRule forbids a package to import others, directly or through any package. An entry of never that ends with a slash means all packages below
// it, without those of except.
type domainRule struct {
	pkg    string
	never  []string
	except []string
	uses   []string // names of selectors that the package never has, because another one decides with them
	reason string
}

// domainRules keep each decision in one package. docs/why/architecture.md prints them.
var domainRules = []domainRule{
	{
		pkg: "projector/fold", never: []string{"codec/", "internal/dialect", "internal/dialects"},
		reason: "A snapshot is the same for all dialects.",
	},
	{
		pkg: "internal/conversation", never: []string{"codec/"},
		reason: "A decision about a chat is the same for all dialects.",
	},
	{
		pkg: "internal/conversation", never: []string{"internal/view"},
		reason: "A decision does not depend on what an audience is shown.",
	},
	{
		pkg: "internal/httpkit", never: []string{"internal/view", "internal/conversation"},
		reason: "The router knows requests and rights, not sessions and views.",
	},
	{
		pkg: "producers", never: []string{"internal/jssnapshots", "internal/projector", "projector/"},
		reason: "A writer needs a log; positions outside of it come through an interface.",
	},
	{
		pkg: "workers", uses: []string{"AwaitsMessage", "Pending", "ResumeRunID"},
		reason: "Which calls a paused run waits for, and what follows from answers and deadlines, is decided by `internal/conversation`.",
	},
}

func TestDomains(t *testing.T) {
	pkgs := list(t)
	for _, rule := range domainRules {
		i := slices.IndexFunc(pkgs, func(p listed) bool { return p.ImportPath == module+"/"+rule.pkg })
		if i < 0 {
			t.Errorf("a rule is about package %s, which does not exist", rule.pkg)
			continue
		}
		for _, dep := range rule.broken(pkgs[i].Deps) {
			t.Errorf("%s imports %s: %s", rule.pkg, dep, rule.reason)
		}
		for _, name := range selectors(parseDir(t, rule.pkg), rule.uses) {
			t.Errorf("%s uses %s: %s", rule.pkg, name, rule.reason)
		}
	}
}

// broken returns the packages among deps, all import paths below a package, that the rule forbids.
func (r domainRule) broken(deps []string) (forbidden []string) {
	for _, dep := range deps {
		name, own := nameOf(dep)
		if own && !slices.Contains(r.except, name) && slices.ContainsFunc(r.never, func(n string) bool {
			return name == n || strings.HasSuffix(n, "/") && strings.HasPrefix(name, n)
		}) {
			forbidden = append(forbidden, name)
		}
	}
	return forbidden
}

// selectors returns those of the names that files select from a package or a value.
func selectors(files []*ast.File, names []string) (found []string) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, x.Sel.Name) {
				found = append(found, x.Sel.Name)
			}
			return true
		})
	}
	return found
}

// TestBrokenDomainRule shows that a rule finds direct and nested packages, and honors its exceptions.
func TestBrokenDomainRule(t *testing.T) {
	rule := domainRule{pkg: "a", never: []string{"b", "c/"}, except: []string{"c/allowed"}}
	deps := []string{"fmt", "b", module + "/b", module + "/b/below", module + "/c", module + "/c/d", module + "/c/allowed", module + "/bc"}
	if got, want := rule.broken(deps), []string{"b", "c/d"}; !slices.Equal(got, want) {
		t.Errorf("broken = %q, want %q", got, want)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a; func f() { b.Name(c.Other); Name := d.e.Name; _ = Name }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := selectors([]*ast.File{file}, []string{"Name"}), []string{"Name", "Name"}; !slices.Equal(got, want) {
		t.Errorf("selectors = %q, want %q", got, want)
	}
}

// domainPart is the table of the rules for docs/why/architecture.md.
func domainPart(rules []domainRule) string {
	var b strings.Builder
	b.WriteString("\n| package | imports, also indirectly, never | reason |\n|---|---|---|\n")
	for _, r := range rules {
		names := make([]string, len(r.never))
		for i, n := range r.never {
			names[i] = "`" + strings.TrimSuffix(n, "/") + map[bool]string{true: "/*"}[strings.HasSuffix(n, "/")] + "`"
		}
		forbidden := strings.Join(names, ", ")
		if len(r.except) > 0 {
			forbidden += ", except `" + strings.Join(r.except, "`, `") + "`"
		}
		if len(r.uses) > 0 {
			forbidden = strings.TrimPrefix(forbidden+"; uses of `"+strings.Join(r.uses, "`, `")+"`", "; ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.pkg, forbidden, r.reason)
	}
	return b.String() + "\n"
}
