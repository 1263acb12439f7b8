package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// releaseConfig is what the test reads of .goreleaser.yaml.
type releaseConfig struct {
	Builds []struct {
		Main, Binary             string
		Env, Goos, Goarch, Flags []string
		Tags, Ldflags            []string
	}
	Archives []struct {
		NameTemplate string `json:"name_template"`
		Formats      []string
	}
	Nfpms []struct {
		FileNameTemplate string `json:"file_name_template"`
		Formats          []string
	}
	HomebrewCasks []struct {
		Name       string
		Repository struct{ Owner, Name string }
	} `json:"homebrew_casks"`
	Sboms    []struct{ Cmd string }
	Checksum struct {
		NameTemplate string `json:"name_template"`
	}
}

// TestRelease compares .goreleaser.yaml with `make build` and with the names in README. `make release-check` runs it.
func TestRelease(t *testing.T) {
	text := func(path string) string {
		data, err := os.ReadFile("../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var c releaseConfig
	if err := yaml.Unmarshal([]byte(text(".goreleaser.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Builds) != 1 || len(c.Archives) != 1 || len(c.Nfpms) != 1 || len(c.HomebrewCasks) != 1 || len(c.Sboms) != 1 || c.Checksum.NameTemplate == "" {
		t.Fatalf("%+v: want a build, archives, packages, a cask, bills of materials and checksums", c)
	}
	b := c.Builds[0]
	if !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("platforms %v, %v", b.Goos, b.Goarch)
	}
	makefile := text("Makefile")
	_, build, _ := strings.Cut(makefile, "\nbuild: ")
	build, _, _ = strings.Cut(build, "\n\n")
	ldflags := strings.Replace(strings.Join(b.Ldflags, " "), "v{{ .Version }}", "$(VERSION)", 1)
	for _, want := range slices.Concat(b.Env, []string{`-ldflags "` + ldflags + `"`, b.Main}) {
		if !strings.Contains(build, want) {
			t.Errorf("make build has no %q: %s", want, build)
		}
	}
	for _, flag := range append(b.Flags[:1], "-tags="+strings.Join(b.Tags, ",")) {
		if !strings.Contains(makefile, "export GOFLAGS := ") || !strings.Contains(makefile, flag) {
			t.Errorf("GOFLAGS of the Makefile have no %q", flag)
		}
	}
	project := strings.NewReplacer("{{ .ProjectName }}", "tailrace", "{{ .Os }}", "linux", "{{ .Arch }}", "amd64")
	tap := c.HomebrewCasks[0].Repository
	readme := text("README.md")
	for _, want := range []string{
		project.Replace(c.Archives[0].NameTemplate) + "." + c.Archives[0].Formats[0],
		"`brew install " + tap.Owner + "/" + strings.TrimPrefix(tap.Name, "homebrew-") + "/tailrace`",
		"`." + c.Nfpms[0].Formats[0] + "`", "`." + c.Nfpms[0].Formats[1] + "`",
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md has no %s", want)
		}
	}
}
