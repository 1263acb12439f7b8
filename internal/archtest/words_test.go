package archtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	wordsFile  = "internal/archtest/testdata/words.txt"
	budgetFile = "internal/archtest/testdata/words_budget.txt"
)

// wordException is a text that contains a private word and has to: a name on the wire, or text that the project did not write.
type wordException struct {
	path   string // of a file, or of a directory with everything below it
	text   string // regular expression; what it matches is not searched
	reason string
}

var wordExceptions = []wordException{
	{"CHANGELOG.md", `TAILRACE_PATIENCE|TAILRACE_MODEL_SILENCE|buried`, "names that were renamed"},
	{"docs/frameworks", `Strands`, "name of a product"},
	{"chunk", `bytes that are none`, "stored error text"},
	{"internal/structured", `bytes that are none`, "stored error text"},
	{"internal/projector/catchup.go", `it takes back more than`, "stored reason of a skip"},
	{"internal/topology/stream.go", `what people say to runs`, "stored description of a stream"},
	{"internal/conversation", `the person said something else`, "stored text of failed calls"},
	{"internal/agentserver/problem.go", `a run is at work; wait`, "text of a problem on the wire"},
	{"e2e/aisdk/scenes_test.go", `"told"|Twice told`, "text of a model"},
	{"internal/testkit/natstest/process_test.go", `or a zombie`, "term of the operating system"},
	{"scripts/benchcompare/main.go", `\\tOLD`, "a tab and a heading"},
	{"e2e/compat", `(?i)buried|"nobody[" ]|Where the person is`, "recorded answers, sessions and tools"},
	{"internal/inspector", `http\.NoBody`, "name of the standard library"},
	{"e2e/clients", `http\.NoBody`, "name of the standard library"},
	{"internal/demo/script", `"people"|a little patience|a good end|bus go on Sundays`, "conversations of the demo"},
	{"internal/testkit/chunktest/samples.go", `plot\.png`, "file name in golden files"},
}

// hit is a line with a private word.
type hit struct {
	path string
	line int
	text string
}

// TestWords counts the lines with private words in each directory. A directory may have as many as its budget, and a budget is not larger than needed, so
// that the sum only shrinks: -update writes the budget anew if it is not larger than before.
func TestWords(t *testing.T) {
	words := readWords(t)
	used := map[int]bool{}
	hits := map[string][]hit{}
	for _, h := range candidates(t, scannedFiles(t)) {
		if isHit(h, words, wordExceptions, used) {
			dir := path.Dir(h.path)
			hits[dir] = append(hits[dir], h)
		}
	}
	for i, e := range wordExceptions {
		if !used[i] {
			t.Errorf("exception not needed any more: %s %s (%s)", e.path, e.text, e.reason)
		}
	}
	budget := readBudget(t)
	if *update {
		writeBudget(t, budget, hits)
		return
	}
	for _, problem := range overBudget(budget, hits) {
		t.Error(problem)
	}
}

// scannedFiles returns the files that are written by hand: Go, documents, scripts and settings of the build.
func scannedFiles(t *testing.T) []string {
	t.Helper()
	files := sources(t, ".go", ".md", ".mjs", ".ts", ".tsx", ".js", ".sh", "Makefile", ".golangci.yml", "docs/openapi.yaml")
	return slices.DeleteFunc(files, func(path string) bool {
		return strings.HasPrefix(path, "internal/archtest/words_test.go") || strings.Contains(path, "/testdata/")
	})
}

func readWords(t *testing.T) []*regexp.Regexp {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, wordsFile))
	if err != nil {
		t.Fatal(err)
	}
	var words []*regexp.Regexp
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "#") {
			words = append(words, regexp.MustCompile("(?i)"+line))
		}
	}
	if len(words) < 90 {
		t.Fatalf("%s has %d words, want at least 90", wordsFile, len(words))
	}
	return words
}

// candidates returns the lines that match a word. It runs grep, which needs a second for all files where package regexp needs half a minute.
func candidates(t *testing.T, files []string) (lines []hit) {
	t.Helper()
	for part := range slices.Chunk(files, 400) {
		cmd := exec.CommandContext(t.Context(), "grep", append([]string{"-nHEi", "-f", wordsFile, "--"}, part...)...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "LC_ALL=C.UTF-8")
		out, err := cmd.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			t.Fatalf("grep: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			name, rest, _ := strings.Cut(line, ":")
			number, text, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(number)
			if err != nil {
				t.Fatalf("grep: %q", line)
			}
			lines = append(lines, hit{name, n, strings.TrimSpace(text)})
		}
	}
	return lines
}

// isHit reports whether a line has a private word outside of the exceptions of its file, and notes in used the exceptions that matched.
func isHit(h hit, words []*regexp.Regexp, exceptions []wordException, used map[int]bool) bool {
	text := h.text
	for i, e := range exceptions {
		if h.path != e.path && !strings.HasPrefix(h.path, e.path+"/") {
			continue
		}
		if without := regexp.MustCompile(e.text).ReplaceAllString(text, ""); without != text {
			text, used[i] = without, true
		}
	}
	return slices.ContainsFunc(words, func(word *regexp.Regexp) bool { return word.MatchString(text) })
}

// overBudget returns a line for each directory that has more hits than its budget, with the first ones, or fewer.
func overBudget(budget map[string]int, hits map[string][]hit) (problems []string) {
	dirs := maps.Clone(budget)
	for dir := range hits {
		dirs[dir] = 0
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		found, allowed := hits[dir], budget[dir]
		switch {
		case len(found) > allowed:
			problem := fmt.Sprintf("%s: %d lines with private words, at most %d allowed, such as", dir, len(found), allowed)
			for _, h := range found[:min(len(found), 5)] {
				problem += fmt.Sprintf("\n\t%s:%d: %.140s", path.Base(h.path), h.line, h.text)
			}
			problems = append(problems, problem)
		case len(found) < allowed:
			problems = append(problems, fmt.Sprintf("%s: %d lines with private words, the budget is %d: lower it with go test ./internal/archtest -run TestWords -update", dir, len(found), allowed))
		}
	}
	return problems
}

func readBudget(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, budgetFile))
	if err != nil {
		t.Fatal(err)
	}
	budget := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		dir, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%s: %q, want a directory and a number", budgetFile, line)
		}
		budget[dir] = n
	}
	return budget
}

func writeBudget(t *testing.T, old map[string]int, hits map[string][]hit) {
	t.Helper()
	before, after := 0, 0
	for _, n := range old {
		before += n
	}
	var b strings.Builder
	b.WriteString("# Lines with private words that a directory may have, see words.txt. Written by go test ./internal/archtest -run TestWords -update, which refuses a larger sum.\n")
	for _, dir := range slices.Sorted(maps.Keys(hits)) {
		after += len(hits[dir])
		fmt.Fprintf(&b, "%s %d\n", dir, len(hits[dir]))
	}
	if after > before {
		t.Fatalf("%d lines with private words, the budget is %d: rephrase the new ones\n%s", after, before, strings.Join(overBudget(old, hits), "\n"))
	}
	if err := os.WriteFile(filepath.Join(root, budgetFile), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestIsHit(t *testing.T) {
	words := []*regexp.Regexp{regexp.MustCompile(`(?i)\bnobody\b`), regexp.MustCompile(`(?i)grave`)}
	exceptions := []wordException{{"a", `gravel`, "stone"}, {"b", `x`, "unused"}, {"a/f.go", `Nobody\(\)`, "a name"}}
	used := map[int]bool{}
	for text, want := range map[string]bool{"// nobody": true, "// gravel": false, "// gravel on a grave": true, "func Nobody() {}": false} {
		if isHit(hit{"a/f.go", 1, text}, words, exceptions, used) != want {
			t.Errorf("%q: want %t", text, want)
		}
		if !isHit(hit{"c/f.go", 1, text}, words, exceptions, used) {
			t.Errorf("%q is excepted in another directory", text)
		}
	}
	if !used[0] || used[1] || !used[2] {
		t.Errorf("used %v", used)
	}
}

func TestOverBudget(t *testing.T) {
	hits := map[string][]hit{"a": {{"a/f.go", 1, "x"}, {"a/f.go", 2, "y"}}, "b": {{"b/f.go", 1, "z"}}, "d": {{"d/f.go", 1, "z"}}}
	problems := overBudget(map[string]int{"a": 1, "b": 1, "c": 1}, hits)
	if len(problems) != 3 || !strings.HasPrefix(problems[0], "a: 2 lines") || !strings.HasPrefix(problems[1], "c: 0 lines") || !strings.HasPrefix(problems[2], "d: 1 lines") {
		t.Errorf("got %q", problems)
	}
}
