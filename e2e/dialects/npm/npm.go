// Package npm runs the clients of dialects, packages of npm, for end-to-end tests: a program in Node.js answers a line of JSON with a line of JSON. The packages
// are those of a lock file, installed once into .tools of the repository; scripts/node.sh provides Node.js.
//
//	var clients = npm.Program{Name: "mastra", Script: "clients.mjs", Packages: "packages"}
//
//	clients.Ask(t, map[string]any{"op": "stream", …}, &answer)
package npm

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// installTimeout is the timeout of an installation.
const installTimeout = 5 * time.Minute

// Program is a program that the first Ask starts. TestMain stops it.
type Program struct {
	Name     string // of the installation
	Script   string // path of the program. Its argument is the directory of the installation
	Packages string // directory with package.json and package-lock.json
	Omit     string // a kind of packages that is not installed, such as "optional"; "" for none

	once sync.Once
	err  error // of the start
	cmd  *exec.Cmd

	mu  sync.Mutex // guards in and out: one request at a time
	in  io.WriteCloser
	out *bufio.Reader
}

// Ask sends a request and decodes the answer.
func (p *Program) Ask(tb testing.TB, request, answer any) {
	tb.Helper()
	p.once.Do(func() { p.err = p.start() })
	if p.err != nil {
		tb.Fatal(p.err)
	}
	line, err := p.exchange(request)
	if err == nil {
		err = json.Unmarshal(line, answer)
	}
	if err != nil {
		tb.Fatalf("%s: %v: %s", p.Name, err, line)
	}
}

func (p *Program) exchange(request any) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := json.NewEncoder(p.in).Encode(request); err != nil {
		return nil, err
	}
	return p.out.ReadBytes('\n')
}

func (p *Program) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	root, err := findRoot()
	if err != nil {
		return err
	}
	node, err := findNode(ctx, root)
	if err != nil {
		return err
	}
	home, err := p.install(ctx, filepath.Join(root, ".tools"))
	if err != nil {
		return err
	}
	p.cmd = exec.CommandContext(context.Background(), node, p.Script, home) //nolint:gosec // of the test; it ends with its input
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	return p.cmd.Start()
}

// Install installs the packages, if they are not installed, and returns the directory that has node_modules. It does not start the program.
func (p *Program) Install(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), installTimeout)
	defer cancel()
	root, err := findRoot()
	if err == nil {
		if root, err = p.install(ctx, filepath.Join(root, ".tools")); err == nil {
			return root
		}
	}
	tb.Fatal(err)
	return ""
}

// Page returns an HTML page with a script, which may import the packages. One of them must be esbuild. direct are modules, each with its directory below node_modules: all packages
// use that version, and not one of their own.
func (p *Program) Page(tb testing.TB, script string, direct map[string]string) string {
	tb.Helper()
	modules := filepath.Join(p.Install(tb), "node_modules")
	args := []string{script, "--bundle", "--format=esm", `--define:process.env.NODE_ENV="production"`, "--log-level=error"}
	for module, dir := range direct {
		args = append(args, "--alias:"+module+"="+filepath.Join(modules, dir))
	}
	bundle := exec.CommandContext(tb.Context(), filepath.Join(modules, ".bin", "esbuild"), args...) //nolint:gosec // of the test
	bundle.Env, bundle.Stderr = append(os.Environ(), "NODE_PATH="+modules), os.Stderr
	code, err := bundle.Output()
	if err != nil {
		tb.Fatal(err)
	}
	return "<!doctype html><meta charset=utf-8><body><script type=module>" + strings.ReplaceAll(string(code), "</script", `<\/script`) + "</script>"
}

// Stop ends the program, if it was started, and waits for that.
func (p *Program) Stop() error {
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	return errors.Join(p.in.Close(), p.cmd.Wait()) // it ends with its input
}

// install installs the packages into a directory of tools, and returns the directory of the installation. An existing one is used as it is: its name contains the
// hash of the lock file.
func (p *Program) install(ctx context.Context, tools string) (string, error) {
	sum := sha256.New()
	files := map[string][]byte{}
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(p.Packages, name)) //nolint:gosec // of the test
		if err != nil {
			return "", err
		}
		files[name] = data
		sum.Write(data)
	}
	home := filepath.Join(tools, fmt.Sprintf("%s-%x", p.Name, sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	// An incomplete installation never has this name, so that a concurrent or killed installation leaves nothing that the next test uses.
	if err := os.MkdirAll(tools, 0o750); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, p.Name+"-half-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(half) }() // renamed, or left over in .tools
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(half, name), data, 0o600); err != nil {
			return "", err
		}
	}
	args := []string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}
	if p.Omit != "" {
		args = append(args, "--omit="+p.Omit)
	}
	command := exec.CommandContext(ctx, "npm", args...)
	command.Dir = half
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci of %s (it needs the npm registry): %w\n%s", p.Packages, err, out)
	}
	if err := os.Rename(half, home); err != nil {
		if _, statErr := os.Stat(home); statErr != nil {
			return "", err
		}
	}
	return home, nil
}

// findRoot returns the directory of the repository.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// findNode returns the path of a Node.js that the packages accept.
func findNode(ctx context.Context, root string) (string, error) {
	script := exec.CommandContext(ctx, filepath.Join(root, "scripts", "node.sh")) //nolint:gosec // of the repository
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node.sh: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
