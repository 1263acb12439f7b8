package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const llms = "docs/llms.txt"

// TestPages checks that docs/README.md leads to each document, and that docs/llms.txt has each with its title and its first sentence.
func TestPages(t *testing.T) {
	var want strings.Builder
	want.WriteString("# Tailrace\n\n> What an AI agent streams is stored in NATS JetStream, and each reader continues at the exact event.\n\n## Documents\n\n")
	var listed []string
	for _, m := range link.FindAllStringSubmatch(read(t, "docs/README.md"), -1) {
		page := path.Join("docs", m[1])
		if slices.Contains(listed, page) || path.Ext(page) != ".md" || page == "README.md" {
			continue
		}
		listed = append(listed, page)
		title, first := opening(read(t, page))
		if title == "" || first == "" {
			t.Errorf("%s has no title, or no sentence below it", page)
		}
		want.WriteString("- [" + title + "](" + page + "): " + first + "\n")
	}
	for _, dir := range []string{"docs", "docs/reference"} {
		pages, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			if name := path.Join(dir, filepath.Base(page)); name != "docs/README.md" && !slices.Contains(listed, name) {
				t.Errorf("docs/README.md does not lead to %s", name)
			}
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

var sentence = regexp.MustCompile(`^.+?\.(\s|$)`)

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
