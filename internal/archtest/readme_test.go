package archtest

import (
	"bytes"
	"encoding/json"
	"image/gif"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReadme checks that README stays one screen and a half, has no table of settings, and says how to get Tailrace as long as nothing is published.
func TestReadme(t *testing.T) {
	text := read(t, "README.md")
	if n := strings.Count(text, "\n"); n > 120 {
		t.Errorf("README.md has %d lines, want at most 120", n)
	}
	if strings.Contains(text, "| `TAILRACE_") {
		t.Error("README.md has a table of settings: docs/reference/settings.md has them")
	}
	released := regexp.MustCompile(`(?m)^## v?\d`).MatchString(read(t, "CHANGELOG.md"))
	if has := strings.Contains(text, "not released yet"); has == released {
		t.Errorf("README.md says that Tailrace is not released yet: %t, and CHANGELOG.md has a release: %t", has, released)
	}
}

// TestPictures checks the sizes of the pictures of README, which `make picture` films.
func TestPictures(t *testing.T) {
	for _, name := range []string{"resume.gif", "resume-dark.gif"} {
		data, err := os.ReadFile(filepath.Join(root, "docs", "images", name))
		if err != nil {
			t.Fatal(err)
		}
		film, err := gif.DecodeAll(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		seconds := 0
		for _, delay := range film.Delay {
			seconds += delay
		}
		seconds /= 100
		if film.Config.Width != 880 || film.Config.Height != 495 || len(film.Image) > 110 || seconds < 10 || seconds > 25 || len(data) > 900_000 {
			t.Errorf("%s: %d x %d, %d frames, %d s, %d bytes; want 880 x 495, at most 110 frames, 10 to 25 s, at most 900 kB", name, film.Config.Width, film.Config.Height, len(film.Image), seconds, len(data))
		}
	}
}

// TestBoxes checks that each block of code of a document which names a file is in that file, which other tests run. A block that names a region of it, as
// file=path#name, is that region: the lines between "#region name" and "#endregion". -update writes it.
func TestBoxes(t *testing.T) {
	found := 0
	for _, page := range boxPages(t) {
		before := read(t, page)
		after := namedBox.ReplaceAllStringFunc(before, func(box string) string {
			found++
			m := namedBox.FindStringSubmatch(box)
			file, region, isRegion := strings.Cut(m[2], "#")
			source := read(t, file)
			if isRegion {
				if source, isRegion = regionOf(source, region); !isRegion {
					t.Errorf("%s: %s has no region %s", page, file, region)
					return box
				}
				if *update {
					return m[1] + source + "```\n"
				}
			}
			if isRegion && dedented(source) != dedented(m[3]) || !strings.Contains(dedented(source), dedented(m[3])) {
				t.Errorf("%s: %s does not contain\n%s", page, m[2], m[3])
			}
			return box
		})
		if after != before {
			if err := os.WriteFile(filepath.Join(root, page), []byte(after), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d blocks name their file, want those of README and docs", found)
	}
}

// TestBoxMarks checks that each block of code of README, the documents and the packages is checked. Its mark is file= (TestBoxes compares it), `run` if TestDocs of e2e runs it, run=TestName if
// another test reads or does what it says, or plain= with the reason why none does: it needs several servers (cluster), a key of a model (key) or a release (published), or is a fragment of
// at most six lines. JSON is parsed, and needs no mark; text, which is what a program prints or a message, has none.
func TestBoxMarks(t *testing.T) {
	tests, fragments := map[string]bool{}, 0
	for _, file := range sources(t, "_test.go") {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, file), -1) {
			tests[m[1]] = true
		}
	}
	for _, page := range boxPages(t) {
		for _, m := range markedBox.FindAllStringSubmatch(read(t, page), -1) {
			language, mark, text := m[1], m[2], m[3]
			name, isNamed := strings.CutPrefix(mark, "run=")
			switch {
			case isNamed:
				if !tests[name] {
					t.Errorf("%s: there is no test %s", page, name)
				}
			case mark == "plain=fragment":
				if fragments++; strings.Count(text, "\n") > 6 {
					t.Errorf("%s: a fragment has at most 6 lines:\n%s", page, text)
				}
			case strings.HasPrefix(mark, "file="), slices.Contains([]string{"plain=cluster", "plain=key", "plain=published"}, mark), language == "sh" && mark == "run", language == "text":
			case mark == "" && (language == "json" || language == "jsonl"):
				if problem := notJSON(language, text); problem != nil {
					t.Errorf("%s: %v in\n%s", page, problem, text)
				}
			default:
				t.Errorf("%s: a box of %q has the mark %q, want file=, run, run=TestName, or plain= with cluster, key, published or fragment:\n%s", page, language, mark, text)
			}
		}
	}
	if fragments > 10 {
		t.Errorf("%d boxes are fragments, want at most 10", fragments)
	}
}

// notJSON returns why a text is not one value of JSON, or, for "jsonl", not one in each line.
func notJSON(language, text string) error {
	values := []string{text}
	if language == "jsonl" {
		values = slices.Collect(strings.Lines(text))
	}
	for _, value := range values {
		var parsed any
		if err := json.Unmarshal([]byte(value), &parsed); err != nil {
			return err
		}
	}
	return nil
}

// boxPages returns the pages whose blocks of code are checked.
func boxPages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(sources(t, ".md"), func(page string) bool {
		return page != "README.md" && !slices.Contains(pageDirs, path.Dir(page)) && !strings.HasPrefix(page, "clients/") && !strings.HasPrefix(page, "examples/")
	})
}

// markedBox is a block with its language and mark.
var markedBox = regexp.MustCompile("(?s)\n *```(\\w*) *([^\n]*)\n(.*?) *```\n")

var namedBox = regexp.MustCompile("(?s)( *```\\w+ file=(\\S+)\n)(.*?) *```\n")

// regionOf returns the lines of a region.
func regionOf(source, name string) (region string, found bool) {
	_, rest, found := strings.Cut(source, "#region "+name+"\n")
	region, _, closed := strings.Cut(rest, "#endregion")
	end := strings.LastIndex(region, "\n") // the comment that ends it
	return region[:end+1], found && closed
}

// dedented returns the lines of a text without the white space at their beginning.
func dedented(text string) string {
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, " \t")
	}
	return strings.Join(lines, "")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
