package main

import (
	"os"
	"strings"
	"testing"
)

// TestSettingsPage compares docs/reference/sink.md with the settings.
func TestSettingsPage(t *testing.T) {
	const path, begin, end = "../../../docs/reference/sink.md", "-run TestSettingsPage -update` -->\n", "\n<!-- end of settings -->"
	var text strings.Builder
	text.WriteString("\n| variable | flag | default | meaning |\n|---|---|---|---|\n")
	for _, s := range settings() {
		def := s.def
		if def != "" {
			def = "`" + def + "`"
		}
		text.WriteString("| `" + s.variable + "` | `--" + s.flag + "` | " + def + " | " + strings.ReplaceAll(s.desc, "docs/guides/analytics.md", "[analytics](../guides/analytics.md)") + " |\n")
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the marks around the settings", path)
	}
	want := before + begin + text.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is out of date: run this test with -update", path)
	}
}
