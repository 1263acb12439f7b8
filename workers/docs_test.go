package workers

import (
	"os"
	"strings"
	"testing"
)

// Every Go block of docs/workers.md is part of an example, which runs.
func TestDocsUseExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/workers.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	all := unindented(string(examples))
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d Go blocks, want at least 4", len(blocks))
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !strings.Contains(all, unindented(code)) {
			t.Errorf("not in any example:\n%s", code)
		}
	}
}

func unindented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
