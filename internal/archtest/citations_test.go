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
	"strconv"
	"strings"
	"testing"
)

// TestCitations fails for a comment or a test case that cites a rule, a section or a page that docs does not have.
func TestCitations(t *testing.T) {
	known, cited := anchors(t, filepath.Join(root, "docs", "protocol")), 0
	for _, path := range sources(t, ".go", ".md", ".mjs", ".ts", ".tsx", ".txtar") {
		for _, text := range citingTexts(t, path) {
			cited += len(missingAnchors(text.text, nil))
			for _, id := range missingAnchors(text.text, known) {
				t.Errorf("%s:%d: cites %q, which has no anchor in docs/protocol", path, text.line, id)
			}
			for _, page := range pagePath.FindAllString(text.text, -1) {
				if _, err := os.Stat(filepath.Join(root, page)); err != nil {
					t.Errorf("%s:%d: names %s, which does not exist", path, text.line, page)
				}
			}
		}
	}
	if cited < 100 {
		t.Errorf("found %d citations, want at least 100: the search is broken", cited)
	}
}

func TestMissingAnchors(t *testing.T) {
	known := map[string]bool{"cs-1": true, "helix-3.2": true, "h01": true, "design-3": true, "d4": true, "g8": true}
	for text, want := range map[string]string{
		"the table of helix.md 3.2, CS-1":                         "",
		"spec/helix.md section 3.2 and spec/helix.md section 6.6": "helix-6.6",
		"design.md, sections 3 and 8":                             "design-8",
		"helix.md, EO-7":                                          "eo-7",
		"D4; CS-22: before the message (F08, G8)":                 "cs-22 f08",
		"rows H01-H20":                                            "h20",
		"reliability.md has it":                                   "reliability.md",
		"ED A0..BF 80, UTF-8, RFC 9110 section 12.5.1":            "",
	} {
		if got := strings.Join(missingAnchors(text, known), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

var (
	ruleID   = regexp.MustCompile(`\b(?:AS|CH|CS|CV|EO|ID|LB|RL|SA|SM|SN|TR|UI|WR)-\d+`)
	rowID    = regexp.MustCompile(`\b(?:B[01]\d|[CDEFHJKMPQRS]\d\d|G\d{1,2}|D[1-9])\b`)
	document = regexp.MustCompile(`(?:\b(helix|aisdk|design|reliability|kortyx-mastra|nats)\.md,?|\bspec)(?:\s+(?:sections?\s+)?(\d+(?:\.\d+)?)(?:\s+and\s+(\d+))?)?`)
	pagePath = regexp.MustCompile(`\bdocs/[a-z0-9/_-]+\.(?:md|svg|yaml)\b`)
	anchorID = regexp.MustCompile(`<a id="([^"]+)"></a>`)
)

// missingAnchors returns the anchors that text cites and known does not have.
func missingAnchors(text string, known map[string]bool) (missing []string) {
	want := func(id string) {
		if !known[id] && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	for _, m := range document.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if name == "" {
			name = "helix" // "spec section 5.1"
		}
		for _, number := range m[2:] {
			if number != "" {
				want(name + "-" + number)
			}
		}
		if name == "reliability" || name == "kortyx-mastra" || name == "nats" {
			want(name + ".md")
		}
	}
	for _, pattern := range []*regexp.Regexp{ruleID, rowID} {
		for _, id := range pattern.FindAllString(text, -1) {
			want(strings.ToLower(id))
		}
	}
	return missing
}

type citing struct {
	line int
	text string
}

// citingTexts returns the comments of a file, and of a test also the strings that begin with the id of a row. Of a file in another language it returns
// the lines that begin as a comment, of a txtar archive its first line. Pages of docs/protocol, which define the ids, are left out.
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
		comment := strings.HasPrefix(line, "//") || strings.HasPrefix(line, "*")
		if strings.HasSuffix(path, ".txtar") && i == 0 || comment && !strings.HasSuffix(path, ".md") && !strings.HasSuffix(path, ".txtar") {
			texts = append(texts, citing{i + 1, line})
		}
		if strings.HasSuffix(path, ".md") {
			texts = append(texts, citing{i + 1, strings.Join(ruleID.FindAllString(line, -1), " ")})
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
