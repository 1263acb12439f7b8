package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// settingGroups are the headings of the reference, by the variable that they come before.
var settingGroups = map[string]string{
	"TAILRACE_NATS_URL":   "NATS",
	"TAILRACE_DATA_DIR":   "Built-in NATS server",
	"TAILRACE_PREFIX":     "Streams and buckets",
	"TAILRACE_LISTEN":     "Clients",
	"TAILRACE_FEED":       "Event streams",
	"TAILRACE_CHAT_AGENT": "Chats, agent server and ingest",
	"TAILRACE_MODEL_URL":  "Agents and runs",
	"TAILRACE_OPS_LISTEN": "Processes",
}

// settingTypes are the names of types in the reference.
var settingTypes = map[string]string{
	"bool": "true or false", "int": "number", "int64": "number", "float64": "number", "time.Duration": "duration", "string": "text", "slog.Level": "level", "main.format": "text",
	"main.redactedURL": "URL", "openai.Secret": "secret", "main.stringList": "list", "main.prefixes": "list", "main.rate": "text", "main.subAgentContent": "text",
	"main.syncSetting": "duration or text", "main.demoSetting": "number or text",
}

// fileSetting matches the meaning of a setting that names a file.
var fileSetting = regexp.MustCompile(`^(\w+ ){0,2}file `)

// TestSettingsPages compares docs/reference/settings.md with the settings.
func TestSettingsPages(t *testing.T) {
	var reference strings.Builder
	groups := 0
	for _, s := range settingsOf(&config{}) {
		if group, ok := settingGroups[s.variable]; ok {
			groups++
			reference.WriteString("\n## " + group + "\n\n| variable | type | default | meaning |\n|---|---|---|---|\n")
		}
		typ, ok := settingTypes[s.value.Type().String()]
		if !ok {
			t.Errorf("%s: the reference has no name for the type %s", s.variable, s.value.Type())
		}
		if typ == "text" && fileSetting.MatchString(s.desc) {
			typ = "file"
		}
		reference.WriteString("| `" + s.variable + "` | " + typ + " | " + code(s.def) + " | " + linked(s.desc) + " |\n")
	}
	if groups != len(settingGroups) {
		t.Errorf("%d groups exist, want %d", groups, len(settingGroups))
	}
	path := filepath.Join("..", "..", "docs", "reference", "settings.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "-run TestSettingsPages -update` -->\n", "<!-- end of settings -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the marks around its settings", path)
	}
	want := before + begin + reference.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("the settings in %s are out of date: run this test with -update", path)
	}
}

// linked makes links of the pages that a text names, which are in the directory docs.
func linked(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		before, rest, found := strings.Cut(word, "docs/")
		name, after, isPage := strings.Cut(rest, ".md")
		if found && isPage {
			words[i] = before + "[" + name + "](../" + name + ".md)" + after
		}
	}
	return strings.Join(words, " ")
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
