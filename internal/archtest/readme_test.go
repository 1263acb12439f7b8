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

// TestBoxes checks that each block of code of a document which names a file is in that file, which other tests run. A block that names a region of it, as
// file=path#name, is that region: the lines between "#region name" and "#endregion". -update writes it.
func TestBoxes(t *testing.T) {
	found := 0
	for _, page := range sources(t, ".md") {
		if page != "README.md" && !strings.HasPrefix(page, "docs/") {
			continue
		}
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

// TestShellBoxes checks that each shell box of README and the documents has a mark: `run` if TestDocs of e2e runs it, run=TestName if another test does, or plain= with the reason
// why none does: it needs several servers (cluster), a key of a model (key) or a release (published), or is a fragment of at most six lines.
func TestShellBoxes(t *testing.T) {
	fragments := 0
	for _, page := range append(documents(t), "README.md") {
		for _, m := range shellBox.FindAllStringSubmatch(read(t, page), -1) {
			name, isNamed := strings.CutPrefix(m[1], "run=")
			switch {
			case isNamed:
				if !slices.ContainsFunc(sources(t, "_test.go"), func(file string) bool { return strings.Contains(read(t, file), "\nfunc "+name+"(") }) {
					t.Errorf("%s: there is no test %s", page, name)
				}
			case m[1] == "plain=fragment":
				if fragments++; strings.Count(m[2], "\n") > 6 {
					t.Errorf("%s: a fragment has at most 6 lines:\n%s", page, m[2])
				}
			case !slices.Contains([]string{"run", "plain=cluster", "plain=key", "plain=published"}, m[1]):
				t.Errorf("%s: the mark of a shell box is %q, want run, run=TestName, or plain= with cluster, key, published or fragment:\n%s", page, m[1], m[2])
			}
		}
	}
	if fragments > 10 {
		t.Errorf("%d shell boxes are fragments, want at most 10", fragments)
	}
}

var shellBox = regexp.MustCompile("(?s)\n *```sh *([^\n]*)\n(.*?) *```\n")

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
