package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that the Makefile runs without the race detector, and leaves out with it, are in the packages that it names: one with another name would run with the race detector, and
// one in another package not at all.
func TestNoRaceLists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for list, packages := range map[string]string{"UNIT_NO_RACE": variable(string(makefile), "UNIT_NO_RACE_IN"), "E2E_NO_RACE": "./e2e"} {
		names := strings.Split(strings.Trim(variable(string(makefile), list), "^($)"), "|")
		if len(names) < 2 || packages == "" {
			t.Fatalf("%s has %q in %q", list, names, packages)
		}
		listed, everywhere := testsOf(t, strings.Fields(packages)), testsOf(t, []string{"..."})
		for _, name := range names {
			if listed[name] == 0 || listed[name] != everywhere[name] {
				t.Errorf("%s: the packages %s have %d tests %s, all packages %d", list, packages, listed[name], name, everywhere[name])
			}
		}
	}
}

func variable(makefile, name string) string {
	if found := regexp.MustCompile(`(?m)^` + name + ` *:= *(.*)$`).FindStringSubmatch(makefile); found != nil {
		return found[1]
	}
	return ""
}

// testsOf returns how often packages of the main module have each test; "..." stands for all.
func testsOf(t *testing.T, packages []string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, path := range sources(t, "_test.go") {
		dir := filepath.ToSlash(filepath.Dir(path))
		for _, pkg := range packages {
			if pkg != "..." && strings.TrimPrefix(pkg, "./") != dir || strings.HasPrefix(dir, "sink/") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				found[test[1]]++
			}
		}
	}
	return found
}
