package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	architecture = "docs/why/architecture.md"
	layersBegin  = "<!-- layers: written by `go test ./internal/archtest -update` -->\n"
	layersEnd    = "<!-- end of layers -->\n"
	domainsBegin = "<!-- domains: written by `go test ./internal/archtest -update` -->\n"
	domainsEnd   = "<!-- end of domains -->\n"
)

// group is a row of the picture of the layers.
type group struct {
	title string
	rule  string
	at    func(place) bool
}

var groups = []group{
	{"program", "Wiring, binaries, examples. Imports anything; nothing imports it.", func(p place) bool { return p.layer == program }},
	{"adapter, HTTP", "Imports net/http, not nats.go.", func(p place) bool { return p.layer == adapter && p.side == http }},
	{"adapter, JetStream", "Imports nats.go, not net/http.", func(p place) bool { return p.layer == adapter && p.side == jetstream }},
	{"adapter", "Interfaces of both sides, or files.", func(p place) bool { return p.layer == adapter && p.side == neither }},
	{"engine", "State machines over interfaces that they declare. No NATS and no HTTP below them.", func(p place) bool { return p.layer == engine }},
	{"model", "Data and pure functions. No I/O.", func(p place) bool { return p.layer == model }},
	{"test kit", "Imported by tests only.", func(p place) bool { return p.layer == testkit }},
}

// TestArchitecturePage compares the generated parts of docs/why/architecture.md with the table of the layers and the rules between domains.
func TestArchitecturePage(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, architecture))
	if err != nil {
		t.Fatal(err)
	}
	before, _, after := generatedPart(t, string(data), layersBegin, layersEnd)
	page := layersPart(layers, func(name string) string { return synopsis(t, name) })
	between, _, after := generatedPart(t, after, domainsBegin, domainsEnd)
	replaceFile(t, architecture, before+layersBegin+page+layersEnd+between+domainsBegin+domainPart(domainRules)+domainsEnd+after)
}

// generatedPart splits a document at the two lines around a generated part.
func generatedPart(t *testing.T, document, begin, end string) (before, part, after string) {
	t.Helper()
	before, rest, ok := strings.Cut(document, begin)
	part, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks %q or %q", architecture, begin, end)
	}
	return before, part, after
}

func layersPart(table map[string]place, text func(name string) string) string {
	var b strings.Builder
	b.WriteString("\n```text\n")
	for i, g := range groups {
		names := namesOf(table, g)
		if len(names) == 0 {
			continue
		}
		if i > 0 {
			b.WriteString("\n")
		}
		titles := make([]string, len(names))
		for n, name := range names {
			titles[n] = titleOf(name)
		}
		for n, line := range wrapped(titles, 100) {
			fmt.Fprintf(&b, "%-20s%s\n", map[bool]string{true: g.title}[n == 0], line)
		}
	}
	b.WriteString("```\n")
	for _, g := range groups {
		names := namesOf(table, g)
		if len(names) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### Layer: %s\n\n%s\n\n| package | responsibility |\n|---|---|\n", g.title, g.rule)
		for _, name := range names {
			fmt.Fprintf(&b, "| [`%s`](%s) | %s |\n", titleOf(name), path.Join("../..", name), text(name))
		}
	}
	return b.String() + "\n"
}

func namesOf(table map[string]place, g group) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(table)), func(name string) bool { return !g.at(table[name]) })
}

// wrapped joins words to lines of at most width characters.
func wrapped(words []string, width int) (lines []string) {
	line := ""
	for _, word := range words {
		if line != "" && len(line)+2+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line += map[bool]string{true: "  "}[line != ""] + word
	}
	return append(lines, line)
}

// synopsis returns the first sentence of the documentation of a package, without its name. A sentence that leads to a list or an example is not complete.
func synopsis(t *testing.T, name string) string {
	t.Helper()
	for _, file := range parseDir(t, name) {
		if file.Doc == nil {
			continue
		}
		text := new(doc.Package).Synopsis(file.Doc.Text())
		_, sentence, ok := strings.Cut(text, " "+path.Base(titleOf(name))+" ")
		if !ok || !strings.HasSuffix(sentence, ".") {
			t.Errorf("%s: the comment begins with %q, want the name of the package and a complete sentence", name, text)
			return ""
		}
		sentence = strings.TrimPrefix(sentence, "is ")
		return strings.ToUpper(sentence[:1]) + sentence[1:]
	}
	t.Errorf("%s has no package comment", name)
	return ""
}

func parseDir(t *testing.T, name string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, name, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

func TestLayersPart(t *testing.T) {
	table := map[string]place{"b": {layer: model}, "a": {layer: model}, "c": {adapter, http}}
	got := layersPart(table, func(name string) string { return "does " + name })
	for _, want := range []string{"model               a  b\n", "adapter, HTTP       c\n", "| [`a`](../../a) | does a |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	delete(table, "a")
	if changed := layersPart(table, func(string) string { return "does b" }); changed == got {
		t.Error("a package that is gone changes nothing")
	}
}

var (
	codeSpan = regexp.MustCompile("`([a-z][a-z0-9/]*)(?:\\.([A-Z][A-Za-z0-9]*)(?:\\.([A-Z][A-Za-z0-9]*))?)?`")
	topLevel = []string{"agents", "chunk", "cmd", "codec", "consumers", "internal", "producers", "projector", "sseedge", "subjects", "workers"}
)

// TestDocsIdentifiers fails for a package, or an identifier of one, that a document names in a code span and that does not exist.
func TestDocsIdentifiers(t *testing.T) {
	declared := map[string]map[string]bool{}
	for name := range layers {
		declared[name] = exported(parseDir(t, name))
	}
	found := 0
	for _, page := range sources(t, ".md") {
		if page != "README.md" && page != "CONTRIBUTING.md" && (!strings.HasPrefix(page, "docs/") || strings.HasPrefix(page, "docs/adr/")) {
			continue // decisions name what is gone
		}
		data, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		names, broken := checkIdentifiers(string(data), declared)
		found += names
		for _, name := range broken {
			t.Errorf("%s: no such package or identifier: %s", page, name)
		}
	}
	if found < 20 {
		t.Errorf("found %d names, want at least 20: the search is broken", found)
	}
}

// checkIdentifiers returns how many packages and identifiers text names, and those that do not exist. A package is named by its path, or, in front of an
// identifier, by its last element.
func checkIdentifiers(text string, declared map[string]map[string]bool) (found int, broken []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		name, ident := m[1], cmp.Or(m[3], m[2])
		first, _, _ := strings.Cut(name, "/")
		if ident == "" && (!strings.Contains(name, "/") || !slices.Contains(topLevel, first) || strings.Contains(name, "/testdata")) {
			continue
		}
		var packages []string
		for known := range declared {
			if known == name || ident != "" && path.Base(titleOf(known)) == name {
				packages = append(packages, known)
			}
		}
		if len(packages) == 0 && ident != "" {
			continue // a package of another module, or a receiver
		}
		found++
		if info, err := os.Stat(filepath.Join(root, name)); ident == "" && err == nil && info.IsDir() {
			continue // of another language, or data
		}
		if !slices.ContainsFunc(packages, func(known string) bool { return ident == "" || declared[known][ident] }) {
			broken = append(broken, strings.Trim(m[0], "`"))
		}
	}
	return found, broken
}

// exported returns the exported names that files declare, with those of fields and methods.
func exported(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				return false
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			case *ast.Field:
				for _, id := range n.Names {
					names[id.Name] = true
				}
			}
			return true
		})
	}
	return names
}

func TestCheckIdentifiers(t *testing.T) {
	declared := map[string]map[string]bool{"internal/hub": {"Cursor": true}, "chunk": {"Record": true}}
	found, broken := checkIdentifiers("`hub.Cursor` `internal/hub` `internal/gone` `chunk.Nothing` `http.Error` `data/x`", declared)
	if got := strings.Join(broken, " "); found != 4 || got != "internal/gone chunk.Nothing" {
		t.Errorf("found %d, broken %q", found, got)
	}
}

// TestGlossary fails for a term that has two entries.
func TestGlossary(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "reference", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]`).FindAllStringSubmatch(string(data), -1) {
		if term := m[1]; term != "term" && seen[term] {
			t.Errorf("%q is defined twice", term)
		}
		seen[m[1]] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d terms, want at least 50", len(seen))
	}
}
