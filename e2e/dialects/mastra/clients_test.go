//go:build e2e

package mastra

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

// reply is an answer of clients.mjs.
type reply struct {
	ID     int      `json:"id"`
	Fault  string   `json:"fault"`
	Logged []string `json:"logged"`

	Chunks   []json.RawMessage `json:"chunks"`
	Executed []struct {
		Name  string         `json:"name"`
		Input map[string]any `json:"input"`
	} `json:"executed"`
	Requests []struct {
		URL  string         `json:"url"`
		Body map[string]any `json:"body"`
	} `json:"requests"`
	Message map[string]any `json:"message"`
	Finish  string         `json:"finish"`
	Errors  []string       `json:"errors"`

	Stored   []map[string]any `json:"stored"`
	Wanted   []map[string]any `json:"wanted"`
	Messages []map[string]any `json:"messages"`
}

// clients is the process with the packages.
type clients struct {
	once sync.Once
	err  error
	in   *json.Encoder
	out  *bufio.Reader
	stop func()

	mu   sync.Mutex // guards in and out, and last
	last int
}

var theClients clients

// ask returns the answer to a request.
func ask(t *testing.T, op string, request map[string]any) reply {
	t.Helper()
	j := &theClients
	j.once.Do(func() { j.err = j.start() })
	if j.err != nil {
		t.Fatal(j.err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	whole := map[string]any{"id": j.last, "op": op}
	maps.Copy(whole, request)
	if err := j.in.Encode(whole); err != nil {
		t.Fatal(err)
	}
	line, err := j.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var v reply
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if v.ID != j.last || v.Fault != "" {
		t.Fatalf("answer %d to request %d: %s", v.ID, j.last, v.Fault)
	}
	return v
}

func (j *clients) start() error {
	ctx := context.Background()
	program, err := node(ctx)
	if err != nil {
		return err
	}
	home, err := install(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "clients.mjs", home)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	j.in, j.out = json.NewEncoder(in), bufio.NewReaderSize(out, 1<<20)
	if err := cmd.Start(); err != nil {
		return err
	}
	j.stop = func() {
		if err := in.Close(); err == nil {
			_ = cmd.Wait() // it ends with its input
		}
	}
	return nil
}

// install installs the packages that the lock file names into .tools, and returns the directory. An existing directory is used as it is: its name contains the
// hash of the lock file.
func install(ctx context.Context) (string, error) {
	tools, err := filepath.Abs(filepath.Join("..", "..", "..", ".tools"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		if files[name], err = os.ReadFile(filepath.Join("packages", name)); err != nil {
			return "", err
		}
		sum.Write(files[name])
	}
	home := filepath.Join(tools, fmt.Sprintf("mastra-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	// An incomplete installation never has this name, so that a concurrent or killed installation leaves nothing that the next test uses.
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, "mastra-half-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(half, name), data, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, npmTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = half
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci of Mastra's clients (it needs the npm registry): %w\n%s", err, out)
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			return "", err
		}
	}
	return home, nil
}

// node returns the path of a Node.js that the packages accept.
func node(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, npmTimeout)
	defer cancel()
	script := exec.CommandContext(ctx, filepath.Join("..", "..", "..", "scripts", "node.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node.sh: %w", err)
	}
	return string(out[:len(out)-1]), nil
}
