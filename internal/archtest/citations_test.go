package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestCitations fails for a comment or a test case that cites a rule that docs/protocol does not have, or names a file or directory that does not exist.
func TestCitations(t *testing.T) {
	known, cited, named := anchors(t, filepath.Join(root, "docs", "protocol")), 0, 0
	for _, path := range sources(t, ".go", ".md", ".mjs", ".ts", ".tsx", ".txtar", ".sh", ".yaml", ".py") {
		for _, text := range citingTexts(t, path) {
			for _, id := range ruleIDs(text.text) {
				cited++
				if !known[id] {
					t.Errorf("%s:%d: cites %q, which has no anchor in docs/protocol", path, text.line, id)
				}
			}
			for _, name := range repositoryPaths(text.text) {
				named++
				if !exists(filepath.Dir(path), name) {
					t.Errorf("%s:%d: names %s, which does not exist", path, text.line, name)
				}
			}
		}
	}
	if cited < 100 || named < 50 {
		t.Errorf("found %d citations of rules and %d paths, want at least 100 and 50: the search is broken", cited, named)
	}
}

func TestRuleIDs(t *testing.T) {
	for text, want := range map[string]string{
		"D4; CS-22: before the message (F08, G8)": "cs-22 d4 f08 g8",
		"rows H01-H20": "h01 h20",
		"the table of docs/protocol/chat.md#cs-20":      "",
		"ED A0..BF 80, UTF-8, RFC 9110 section 12.5.1.": "",
	} {
		if got := strings.Join(ruleIDs(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestRepositoryPaths(t *testing.T) {
	for text, want := range map[string]string{
		"the rules are in docs/protocol/chat.md#helix-6.6.":                       "docs/protocol/chat.md#helix-6.6",
		"see projector/fold.Apply, ./scripts/none.sh (doc.go; none.md)":           "projector/fold ./scripts/none.sh none.md",
		"https://go.dev/doc/none.md, github.com/a/b, and/or, nats.go, Node.js 20": "",
		"internal/*/none.go and <dir>/none.go":                                    "internal/*/none.go",
	} {
		if got := strings.Join(repositoryPaths(text), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]bool{
		"docs/protocol/chat.md#helix-6.6": true, "docs/protocol/chat.md#helix-6.66": false, "internal/archtest": true, "internal/none": false,
		"words_test.go": true, "docs/*.md": true, "docs/*.none": false,
	} {
		if exists("internal/archtest", name) != want {
			t.Errorf("exists(%q) is %t", name, !want)
		}
	}
}

var (
	ruleID   = regexp.MustCompile(`\b(?:AS|CH|CS|CV|EO|ID|LB|RL|SA|SM|SN|TR|UI|WR)-\d+`)
	rowID    = regexp.MustCompile(`\b(?:B[01]\d|[CDEFHJKMPQRS]\d\d|G\d{1,2}|D[1-9])\b`)
	anchorID = regexp.MustCompile(`<a id="([^"]+)"></a>`)

	wordGaps   = regexp.MustCompile("[\\s\"'`()\\[\\]{},;|=]+")
	pathSpan   = regexp.MustCompile("`[\\w./*@-]+/[\\w./*@-]+`")
	pathText   = regexp.MustCompile(`^(?:\./)?[\w*][\w.*@/-]*(?:#[\w.-]+)?$`)
	sourceFile = regexp.MustCompile(`/.*\.(?:go|mjs|sh|svg|txtar|yaml)$|\.md(?:#.*)?$`)
	identifier = regexp.MustCompile(`(?:\.[A-Z]\w*)+$`)
)

// ruleIDs returns the anchors of the rules that text cites.
func ruleIDs(text string) (ids []string) {
	for _, pattern := range []*regexp.Regexp{ruleID, rowID} {
		for _, id := range pattern.FindAllString(text, -1) {
			ids = append(ids, strings.ToLower(id))
		}
	}
	return ids
}

// repositoryPaths returns the files and directories that text names: paths that begin with a directory in the root of the repository, paths of source files,
// and documents.
func repositoryPaths(text string) (names []string) {
	for _, word := range wordGaps.Split(text, -1) {
		word = strings.TrimRight(word, ".:")
		if pathText.MatchString(word) && (sourceFile.MatchString(word) || isInDirectory(word)) {
			names = append(names, identifier.ReplaceAllString(word, ""))
		}
	}
	return names
}

func isInDirectory(path string) bool {
	first, _, ok := strings.Cut(path, "/")
	if !ok || first == "bin" || first == "dist" || first == "data" { // make writes these
		return false
	}
	info, err := os.Stat(filepath.Join(root, first))
	return err == nil && info.IsDir() && first != "."
}

// exists reports whether a path exists, from the root or from the directory of the file that names it, and has the anchor that follows it.
func exists(dir, name string) bool {
	name, fragment, _ := strings.Cut(name, "#")
	for _, from := range []string{"", dir} {
		found, err := filepath.Glob(filepath.Join(root, from, name))
		if err != nil || len(found) == 0 {
			continue
		}
		if fragment == "" {
			return true
		}
		data, err := os.ReadFile(found[0])
		return err == nil && hasFragment(string(data), fragment)
	}
	return false
}

type citing struct {
	line int
	text string
}

// citingTexts returns the comments of a file, and of a test also the strings that begin with the id of a row. Of a file in another language it returns
// the lines that begin as a comment, of a txtar archive its first line, of a document the ids and the paths in code spans. Pages of docs/protocol, which define the ids, are left out.
func citingTexts(t *testing.T, path string) (texts []citing) {
	t.Helper()
	if !strings.HasSuffix(path, ".go") {
		return commentLines(t, path)
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		texts = append(texts, citing{fset.Position(group.Pos()).Line, strings.Join(strings.Fields(group.Text()), " ")})
	}
	if !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/archtest/") {
		return texts
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		if id := caseID.FindStringSubmatch(text); id != nil {
			texts = append(texts, citing{fset.Position(lit.Pos()).Line, id[1]})
		}
		return true
	})
	return texts
}

var caseID = regexp.MustCompile(`^((?:AS|CH|CS|CV|EO|RL|SA|SM)-\d+|[BCDEFHJKMPQRS]\d\d|D[1-9])[: ] ?\pL`)

func commentLines(t *testing.T, path string) (texts []citing) {
	t.Helper()
	if strings.HasPrefix(path, "docs/protocol/") {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		switch filepath.Ext(path) {
		case ".md":
			cited := ruleID.FindAllString(line, -1)
			if path != "CHANGELOG.md" && !strings.HasPrefix(path, "docs/adr/") { // which name what is gone
				cited = append(cited, pathSpan.FindAllString(line, -1)...)
			}
			texts = append(texts, citing{i + 1, strings.Join(cited, " ")})
		case ".txtar":
			if i == 0 {
				texts = append(texts, citing{1, line})
			}
		case ".sh", ".yaml", ".py":
			if _, comment, ok := strings.Cut(" "+line, " # "); ok {
				texts = append(texts, citing{i + 1, comment})
			}
		default:
			if strings.HasPrefix(line, "//") || strings.HasPrefix(line, "*") {
				texts = append(texts, citing{i + 1, line})
			}
		}
	}
	return texts
}

// anchors returns the explicit anchors of the pages of dir, and fails for one that two places have.
func anchors(t *testing.T, dir string) map[string]bool {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in %s: %v", dir, err)
	}
	known := map[string]bool{}
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range anchorID.FindAllStringSubmatch(string(data), -1) {
			if known[m[1]] {
				t.Errorf("%s: anchor %q exists twice", page, m[1])
			}
			known[m[1]] = true
		}
	}
	return known
}

// TestDocsLinks fails for a relative link of a document that leads nowhere.
func TestDocsLinks(t *testing.T) {
	for _, path := range sources(t, ".md") {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, broken := range brokenLinks(path, string(data), func(page string) (string, error) {
			data, err := os.ReadFile(filepath.Join(root, page))
			return string(data), err
		}) {
			t.Error(broken)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

func brokenLinks(path, text string, read func(page string) (string, error)) (broken []string) {
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		target := m[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		page, fragment, _ := strings.Cut(target, "#")
		to := text
		if page != "" {
			name := filepath.Join(filepath.Dir(path), page)
			if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.IsDir() {
				continue
			}
			var err error
			if to, err = read(name); err != nil {
				broken = append(broken, fmt.Sprintf("%s: link to %s: no such file", path, target))
				continue
			}
		}
		if fragment != "" && strings.HasSuffix(page+path, ".md") && !hasFragment(to, fragment) {
			broken = append(broken, fmt.Sprintf("%s: link to %s: no such heading or anchor", path, target))
		}
	}
	return broken
}

func hasFragment(text, fragment string) bool {
	for _, m := range anchorID.FindAllStringSubmatch(text, -1) {
		if m[1] == fragment {
			return true
		}
	}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if slug(m[1]) == fragment {
			return true
		}
	}
	return false
}

// slug returns the fragment that GitHub gives a heading.
func slug(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(anchorID.ReplaceAllString(heading, "")))
	var b strings.Builder
	for _, r := range heading {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestBrokenLinks(t *testing.T) {
	text := "# A b, c\n[x](#a-b-c) [y](#nothing) `[z](#code)`\n"
	if got := brokenLinks("docs/page.md", text, nil); len(got) != 1 || !strings.Contains(got[0], "#nothing") {
		t.Errorf("got %q", got)
	}
}

// TestDecisions fails for a decision that the index of docs/adr lacks, or has under another title.
func TestDecisions(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs", "adr", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.ToLower(string(index))
	for _, path := range sources(t, ".md") {
		if !strings.HasPrefix(path, "docs/adr/0") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		heading, text, _ := strings.Cut(string(data), "\n")
		number, title, _ := strings.Cut(strings.TrimPrefix(heading, "# "), " ")
		if strings.HasPrefix(strings.TrimSpace(text), "**Status.** Withdrawn") {
			title = "Withdrawn: " + title
		}
		if row := fmt.Sprintf("| [%s](%s) | %s |\n", number, filepath.Base(path), title); !strings.Contains(rows, strings.ToLower(row)) {
			t.Errorf("docs/adr/README.md lacks the row %s", row)
		}
	}
}
