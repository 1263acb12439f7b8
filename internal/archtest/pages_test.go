package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	llms       = "docs/llms.txt"
	limitsPage = "docs/limits.txt"
)

// pageDirs are the directories of the documents for users. The records in docs/adr and docs/protocol are cited by their ids.
var pageDirs = []string{"docs", "docs/start", "docs/guides", "docs/reference", "docs/why", "docs/frameworks"}

// documents returns the documents for users, by path from the root.
func documents(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(sources(t, ".md"), func(page string) bool { return !slices.Contains(pageDirs, path.Dir(page)) })
}

// TestPages checks that docs/README.md leads to each document, and that docs/llms.txt has each with its title and its first sentence.
func TestPages(t *testing.T) {
	var want strings.Builder
	want.WriteString("# Tailrace\n\n> What an AI agent streams is stored in NATS JetStream, and each reader continues at the exact event.\n\nAn edge serves this list at /llms.txt, and the pages of its version below /docs/.\n\n## Documents\n\n")
	existing := sources(t, ".md")
	var listed []string
	for _, m := range link.FindAllStringSubmatch(read(t, "docs/README.md"), -1) {
		page := path.Join("docs", m[1])
		if slices.Contains(listed, page) || page == "README.md" || !slices.Contains(existing, page) { // TestDocsLinks reports a page that does not exist
			continue
		}
		listed = append(listed, page)
		title, first := opening(read(t, page))
		if title == "" || first == "" {
			t.Errorf("%s has no title, or no sentence below it", page)
		}
		if !strings.HasPrefix(page, "docs/") { // an edge does not serve it
			page = "https://" + module + "/blob/main/" + page
		}
		want.WriteString("- [" + title + "](" + page + "): " + first + "\n")
	}
	for _, page := range documents(t) {
		if path.Dir(page) != "docs" && !slices.Contains(listed, page) {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, llms), []byte(want.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if read(t, llms) != want.String() {
		t.Errorf("%s is out of date: go test ./internal/archtest -update", llms)
	}
}

var (
	sentence  = regexp.MustCompile(`^.+?\.(\s|$)`)
	fence     = regexp.MustCompile("(?m)^ *```.*$") // with the mark of a box of code
	generated = regexp.MustCompile(`(?s)<!-- (\w+): written by .*?<!-- end of (\w+) -->`)
	written   = []string{"docs/reference/metrics.md", "docs/reference/settings.md", "docs/reference/sink.md", "docs/reference/tables.md"} // by tests
)

// TestPageSizes compares the words of each document with its row in docs/limits.txt, and the sum of the rows with the first one. The words are those of wc -w, without the parts
// that a test writes, and without the lines that begin and end a box of code. A row may be of a page that is planned. A page has at most 300 lines, unless users look things up in it.
func TestPageSizes(t *testing.T) {
	limits := map[string]int{}
	sum := 0
	for line := range strings.Lines(read(t, limitsPage)) {
		page, number, found := strings.Cut(strings.TrimSpace(line), " ")
		if page == "" || page == "#" {
			continue
		}
		limit, err := strconv.Atoi(number)
		if !found || err != nil || limits[page] != 0 {
			t.Fatalf("%s: row %q, want a page and its words, once", limitsPage, line)
		}
		limits[page] = limit
		if page != "sum" {
			sum += limit
		}
	}
	if sum > limits["sum"] {
		t.Errorf("%s: the rows have %d words together, want at most %d", limitsPage, sum, limits["sum"])
	}
	for _, page := range documents(t) {
		if path.Dir(page) == "docs" && page != "docs/README.md" {
			t.Errorf("%s is in docs, want it in one of %q", page, pageDirs[1:])
			continue
		}
		text := fence.ReplaceAllString(generated.ReplaceAllString(read(t, page), ""), "")
		if lines := strings.Count(text, "\n"); lines > 300 && path.Dir(page) != "docs/reference" {
			t.Errorf("%s has %d lines, want at most 300", page, lines)
		}
		if slices.Contains(written, page) {
			continue
		}
		name := strings.TrimPrefix(page, "docs/")
		limit, ok := limits[name]
		if words := len(strings.Fields(text)); !ok {
			t.Errorf("%s has no row in %s", page, limitsPage)
		} else if words > limit {
			t.Errorf("%s has %d words, want at most %d", page, words, limit)
		}
	}
}

// opening returns the title of a page and its first sentence, without marks.
func opening(page string) (title, first string) {
	title, rest, _ := strings.Cut(strings.TrimPrefix(page, "# "), "\n")
	for paragraph := range strings.SplitSeq(rest, "\n\n") {
		paragraph = strings.TrimSpace(strings.ReplaceAll(paragraph, "\n", " "))
		if paragraph == "" || strings.HasPrefix(paragraph, "<") || strings.HasPrefix(paragraph, "#") || strings.HasPrefix(paragraph, "!") {
			continue
		}
		first = regexp.MustCompile(`\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])`).ReplaceAllString(strings.TrimSpace(sentence.FindString(paragraph)), "$1")
		return title, strings.NewReplacer("`", "", "*", "").Replace(first)
	}
	return title, ""
}
