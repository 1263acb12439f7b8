package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// A program of another module can use all of Tailrace: the example builds with the modules that its go.mod and go.sum name, without a
// NATS server among them, and prints the expected output.
func TestOutside(t *testing.T) {
	server := natstest.Start(t)
	inModule(t, "vet", "./...")
	program := filepath.Join(t.TempDir(), "outside")
	inModule(t, "build", "-o", program, ".")
	for line := range strings.Lines(inModule(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
		for _, unwanted := range []string{"nats-server", "openai-go", "chromedp"} {
			if strings.Contains(line, unwanted) {
				t.Errorf("it needs %s", line)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), program, server.URL)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("outside: %v", err)
	}
	const want = `record 2 Hello, world
record 3 You said: hello
run completed
GET /v1/sessions/written/events Hello, world
GET /v1/sessions/written/snapshot ended
POST /api/chat You said: good morning
`
	if string(out) != want {
		t.Errorf("it prints\n%s\nwant\n%s", out, want)
	}
}

// inModule runs the Go command in the module of the example.
func inModule(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "outside"
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s: %v\n%s\nIf a requirement of this repository has changed, run GOWORK=off go mod tidy in examples/outside.", strings.Join(args, " "), err, errs.String())
	}
	return out.String()
}
