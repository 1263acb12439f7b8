package archtest

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestAPI compares the exported API of each public package, with its documentation, with a file in
// docs/api, so that every change of it is part of a reviewed diff. After an intended change:
//
//	go test ./internal/archtest -run TestAPI -update
func TestAPI(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "api")
	api := publicAPI(t)
	if *update {
		writeAPI(t, dir, api)
	}
	for _, file := range slices.Sorted(maps.Keys(api)) {
		switch golden, err := os.ReadFile(filepath.Join(dir, file)); {
		case err != nil:
			t.Errorf("public package without a file: %v", err)
		case string(golden) != api[file]:
			t.Errorf("API differs from docs/api/%s at\n%s\nrun TestAPI with -update if the change is intended", file, firstChange(string(golden), api[file]))
		}
	}
	for _, file := range files(t, dir) {
		if _, ok := api[file]; !ok {
			t.Errorf("docs/api/%s has no public package", file)
		}
	}
}

// publicAPI returns the output of go doc for each package that programs outside the module can
// import, by the name of its file.
func publicAPI(t *testing.T) map[string]string {
	t.Helper()
	var (
		api   = make(map[string]string)
		mu    sync.Mutex // guards api
		all   sync.WaitGroup
		slots = make(chan struct{}, 4)
	)
	for _, pkg := range list(t) {
		name, _ := nameOf(pkg.ImportPath)
		if !isPublic(name, pkg) {
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			text, err := apiOf(t, pkg.ImportPath)
			if err != nil {
				t.Errorf("go doc %s: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			api[apiFile(name)] = text
		})
	}
	all.Wait()
	return api
}

func apiFile(name string) string { return strings.ReplaceAll(titleOf(name), "/", "-") + ".txt" }

// passedOn are types of internal packages in public declarations: programs get their values from one public package and pass them to another, or only packages of
// the module call the function.
var passedOn = []string{"control.Command", "dialect.Request", "projector.ExpiredHead"}

// TestAPINamesNoInternalType fails for a public declaration with a type of an internal package, because programs outside the module cannot name it. An alias is a
// public name.
func TestAPINamesNoInternalType(t *testing.T) {
	api, used := publicAPI(t), make(map[string]bool)
	for _, pkg := range list(t) {
		name, _ := nameOf(pkg.ImportPath)
		for _, typ := range internalTypes(api[apiFile(name)], pkg.Imports) {
			if used[typ] = true; !slices.Contains(passedOn, typ) {
				t.Errorf("%s has %s in a public declaration", name, typ)
			}
		}
	}
	for _, typ := range passedOn {
		if !used[typ] {
			t.Errorf("no public declaration has %s any more", typ)
		}
	}
}

// internalTypes returns the types of the internal packages among imports that declarations in the output of go doc name, except as the value of a declaration.
func internalTypes(doc string, imports []string) []string {
	var names []string
	for _, p := range imports {
		if strings.HasPrefix(p, module+"/internal/") {
			names = append(names, path.Base(p))
		}
	}
	if len(names) == 0 {
		return nil
	}
	internal := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\.[A-Z]\w*`)
	var found []string
	for line := range strings.Lines(doc) {
		code, _, _ := strings.Cut(line, "//")
		code, _, _ = strings.Cut(code, " = ")
		if declaration.MatchString(code) {
			found = append(found, internal.FindAllString(code, -1)...)
		}
	}
	return found
}

// declaration matches a line of a declaration in the output of go doc, where text is indented by spaces.
var declaration = regexp.MustCompile(`^(func |type |var |const |\t)`)

func TestInternalTypes(t *testing.T) {
	imports := []string{module + "/internal/dialect", module + "/chunk"}
	for line, want := range map[string]int{
		"func New(r dialect.Run) *Translator":                  1,
		"\tRun dialect.Run // of the turn":                     1,
		"\tName string // see dialect.Run":                     0,
		"    Translate implements dialect.Translator.":         0,
		"func New(r chunk.Record, dialect string) *Translator": 0,
		"type Run = dialect.Run":                               0,
	} {
		if got := internalTypes(line+"\n", imports); len(got) != want {
			t.Errorf("%q: %q, want %d", line, got, want)
		}
	}
}

func isPublic(name string, pkg listed) bool {
	switch top, _, _ := strings.Cut(name, "/"); top {
	case "cmd", "e2e", "examples", "internal", "scripts":
		return false
	}
	return pkg.Name != "main" && len(pkg.GoFiles) > 0 && !slices.Contains(strings.Split(name, "/"), "internal")
}

// apiOf asks for one platform, so that the answer is the same on all machines.
func apiOf(t *testing.T, pkg string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "doc", "-all", pkg)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)) + "\n", err
}

func writeAPI(t *testing.T, dir string, api map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range files(t, dir) {
		if _, ok := api[file]; ok {
			continue
		}
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range api {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// firstChange returns the first line in which two texts differ, from both.
func firstChange(golden, now string) string {
	before, after := strings.Split(golden, "\n"), strings.Split(now, "\n")
	for i := range max(len(before), len(after)) {
		if was, is := line(before, i), line(after, i); was != is {
			return "- " + was + "\n+ " + is
		}
	}
	return ""
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}
