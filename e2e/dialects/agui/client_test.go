//go:build e2e

package agui

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

// thread is a request to client.mjs.
type thread struct {
	ID       int             `json:"id"`
	URL      string          `json:"url,omitempty"`
	Messages json.RawMessage `json:"messages,omitempty"`
	State    json.RawMessage `json:"state,omitempty"`
	Calls    []call          `json:"calls"`
	Input    json.RawMessage `json:"input,omitempty"` // a RunAgentInput to check
}

// call is a call of runAgent.
type call struct {
	Body    *string           `json:"body,omitempty"` // the response; nil: that of the URL
	Cut     bool              `json:"cut,omitempty"`  // the connection breaks after the body
	Say     *string           `json:"say,omitempty"`
	Tools   []json.RawMessage `json:"tools,omitempty"`
	Results []json.RawMessage `json:"results,omitempty"`
	Resume  []json.RawMessage `json:"resume,omitempty"`
	Props   json.RawMessage   `json:"props,omitempty"`
	Clear   bool              `json:"clear,omitempty"` // forget the interrupts: the page was loaded again
}

// result is what the client has after the calls.
type result struct {
	ID       int              `json:"id"`
	Error    string           `json:"error"`
	Messages []map[string]any `json:"messages"`
	State    any              `json:"state"`
	Calls    []outcome        `json:"calls"`
	Logged   []string         `json:"logged"`
}

// outcome is that of one call.
type outcome struct {
	Error      *string          `json:"error"`
	Outcome    *runOutcome      `json:"outcome"`
	Failed     *string          `json:"failed"`
	Result     any              `json:"result"`
	Interrupts []map[string]any `json:"interrupts"`
	Sent       request          `json:"sent"`
}

// runOutcome is that of RUN_FINISHED.
type runOutcome struct {
	Type               string   `json:"type"`
	PendingToolCallIDs []string `json:"pendingToolCallIds"`
}

// request is what the client sent.
type request struct {
	Body   json.RawMessage `json:"body"`
	Accept string          `json:"accept"`
	Method string          `json:"method"`
}

// clientProcess is the process with the client.
type clientProcess struct {
	once sync.Once
	err  error
	cmd  *exec.Cmd
	in   *json.Encoder
	out  *bufio.Reader
	stop func()

	mu   sync.Mutex // guards the fields above after the start, and last
	last int
}

var theClient clientProcess

// ask runs a thread.
func ask(t *testing.T, r thread) result {
	t.Helper()
	j := &theClient
	j.once.Do(func() { j.err = j.start() })
	if j.err != nil {
		t.Fatal(j.err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	r.ID = j.last
	if err := j.in.Encode(r); err != nil {
		t.Fatal(err)
	}
	line, err := j.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var v result
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if v.ID != r.ID || v.Error != "" {
		t.Fatalf("answer %d of %d: %s", v.ID, r.ID, v.Error)
	}
	return v
}

func (j *clientProcess) start() error {
	ctx := context.Background()
	program, err := node(ctx)
	if err != nil {
		return err
	}
	home, err := install(ctx)
	if err != nil {
		return err
	}
	j.cmd = exec.CommandContext(ctx, program, "client.mjs", home)
	j.cmd.Stderr = os.Stderr
	in, err := j.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	j.in, j.out = json.NewEncoder(in), bufio.NewReaderSize(out, 1<<20)
	if err := j.cmd.Start(); err != nil {
		return err
	}
	j.stop = func() {
		if err := in.Close(); err == nil {
			_ = j.cmd.Wait() // it ends with its input
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
	home := filepath.Join(tools, fmt.Sprintf("agui-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	// An incomplete installation never has this name, so that a concurrent or killed installation leaves nothing that the next test uses.
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, "agui-half-")
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
		return "", fmt.Errorf("npm ci of the client of AG-UI (it needs the npm registry): %w\n%s", err, out)
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
