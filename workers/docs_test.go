package workers

import (
	"os"
	"strings"
	"testing"
)

// Every Go block of docs/guides/go-agents.md is part of an example, which runs.
func TestDocsUseExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/guides/go-agents.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	source := unindented(string(examples))
	blocks := strings.Split(string(page), "```go file=workers/example_test.go\n")[1:]
	if all := strings.Count(string(page), "```go"); all != len(blocks) {
		t.Errorf("%d Go blocks, %d of them name the examples", all, len(blocks))
	}
	if len(blocks) < 4 {
		t.Fatalf("%d Go blocks, want at least 4", len(blocks))
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !strings.Contains(source, unindented(code)) {
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
