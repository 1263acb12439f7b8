//go:build e2e

package anthropic

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/e2e/dialects/npm"
)

// The programs of the platform are optional packages, which the test does not need.
var packages = npm.Program{Name: "anthropic-types", Packages: "packages", Omit: "optional"}

var (
	comment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	declared = regexp.MustCompile(`(?m)^(?:export )?(?:declare )?(?:type (\w+) = |interface (\w+) )`)
	// member is a member of the outermost level of a type that only has some strings as its value.
	member  = regexp.MustCompile(`(?m)^ {4}(type|subtype): ((?:'[^']*'(?: \| )?)+);`)
	literal = regexp.MustCompile(`'([^']*)'`)
	names   = regexp.MustCompile(`^[\w\s|]+$`)
)

// types are the declarations of a file of types by name.
type types map[string]string

func read(t *testing.T, path string) types {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, all := comment.ReplaceAllString(string(text), ""), types{}
	starts := declared.FindAllStringSubmatchIndex(file, -1)
	for i, at := range starts {
		end := len(file)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name := at[2:4]
		if name[0] < 0 {
			name = at[4:6]
		}
		all[file[name[0]:name[1]]] = strings.TrimSpace(file[at[1]:end])
	}
	return all
}

// kinds returns the types of the members of a union, with their subtypes behind a slash.
func (all types) kinds(t *testing.T, union string) (kinds []string) {
	t.Helper()
	body, ok := all[union]
	if !ok {
		t.Fatalf("there is no type %s", union)
	}
	if of := strings.TrimSuffix(body, ";"); names.MatchString(of) {
		return all.kindsOf(t, of)
	}
	found := map[string][]string{"subtype": {""}}
	for _, m := range member.FindAllStringSubmatch(body, -1) {
		var values []string
		for _, v := range literal.FindAllStringSubmatch(m[2], -1) {
			values = append(values, v[1])
		}
		found[m[1]] = values
	}
	for _, kind := range found["type"] {
		for _, subtype := range found["subtype"] {
			kinds = append(kinds, strings.TrimSuffix(kind+"/"+subtype, "/"))
		}
	}
	if kinds == nil {
		t.Fatalf("%s has no type: %.200s", union, body)
	}
	return kinds
}

// kindsOf does so for the text of a union of names.
func (all types) kindsOf(t *testing.T, union string) (kinds []string) {
	t.Helper()
	for name := range strings.SplitSeq(union, "|") {
		kinds = append(kinds, all.kinds(t, strings.TrimSpace(name))...)
	}
	return kinds
}

// valueOf returns the type of a member of a type.
func (all types) valueOf(t *testing.T, name, of string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^ {4}` + of + `: ([^;]*);`).FindStringSubmatch(all[name])
	if m == nil {
		t.Fatalf("%s has no member %s: %.200s", name, of, all[name])
	}
	return m[1]
}

// cases returns the types of all objects in the streams of codec/anthropic, with their subtypes behind a slash.
func cases(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../../codec/anthropic/testdata/streams.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		case map[string]any:
			if kind, ok := v["type"].(string); ok {
				subtype, _ := v["subtype"].(string)
				all[strings.TrimSuffix(kind+"/"+subtype, "/")] = true
			}
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		var v any
		if json.Unmarshal([]byte(line), &v) == nil {
			walk(v)
		}
	}
	return all
}

func TestUnions(t *testing.T) {
	home := filepath.Join(packages.Install(t), "node_modules", "@anthropic-ai")
	api := read(t, filepath.Join(home, "sdk", "resources", "beta", "messages", "messages.d.ts"))
	sdk := read(t, filepath.Join(home, "claude-agent-sdk", "sdk.d.ts"))
	have := cases(t)
	for name, tt := range map[string]struct {
		kinds []string
		least int // as many as there were when the cases were written
	}{
		"events":   {api.kinds(t, "BetaRawMessageStreamEvent"), 6},
		"blocks":   {api.kindsOf(t, api.valueOf(t, "BetaRawContentBlockStartEvent", "content_block")), 18},
		"deltas":   {api.kinds(t, "BetaRawContentBlockDelta"), 6},
		"messages": {sdk.kinds(t, "SDKMessage"), 44},
	} {
		var missing []string
		for _, kind := range tt.kinds {
			if !have[kind] {
				missing = append(missing, kind)
			}
		}
		slices.Sort(missing)
		if len(missing) > 0 || len(tt.kinds) < tt.least {
			t.Errorf("%s: %d members, want at least %d; without a case in codec/anthropic/testdata/streams.txt: %v", name, len(tt.kinds), tt.least, missing)
		}
	}
}
