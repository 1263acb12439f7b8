package archtest

import (
	"bytes"
	"image/gif"
	"os"
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

// TestBoxes checks that each block of code which names a file is in that file, which other tests run.
func TestBoxes(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found, named := 0, regexp.MustCompile("(?s)\n```\\w+ file=(\\S+)\n(.*?)\n```\n")
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, box := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(dedented(read(t, box[1])), dedented(box[2])) {
				t.Errorf("%s: %s does not contain\n%s", filepath.Base(page), box[1], box[2])
			}
		}
	}
	if found < 3 {
		t.Errorf("%d blocks name their file, want those of README", found)
	}
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
