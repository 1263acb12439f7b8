package archtest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
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
		name := strings.TrimPrefix(pkg.ImportPath, module+"/")
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
			api[strings.ReplaceAll(name, "/", "-")+".txt"] = text
		})
	}
	all.Wait()
	return api
}

func isPublic(name string, pkg listed) bool {
	switch top, _, _ := strings.Cut(name, "/"); top {
	case "cmd", "e2e", "examples", "internal", "scripts":
		return false
	}
	return pkg.Name != "main" && len(pkg.GoFiles) > 0 && !slices.Contains(strings.Split(name, "/"), "internal")
}

// apiOf asks for one platform, so that the answer is the same on all machines.
func apiOf(t *testing.T, path string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "doc", "-all", path)
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
