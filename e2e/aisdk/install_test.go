//go:build e2e

package aisdk

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

// install installs the packages of a major version, as its lock file names them,
// into .tools and returns the directory, which has node_modules and sdk.mjs. An
// existing directory is used as it is: its name contains the hash of the lock
// file.
func install(ctx context.Context, major int) (string, error) {
	tools, err := filepath.Abs(filepath.Join("..", "..", ".tools"))
	if err != nil {
		return "", err
	}
	sources := []string{
		filepath.Join("packages", fmt.Sprint(major), "package.json"),
		filepath.Join("packages", fmt.Sprint(major), "package-lock.json"),
		"sdk.mjs",
	}
	sum := sha256.New()
	for _, path := range sources {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	home := filepath.Join(tools, fmt.Sprintf("aisdk-%d-%x", major, sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	// An incomplete installation never has this name, so that a concurrent or
	// killed installation leaves nothing that the next test uses.
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, "aisdk-half-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	for _, path := range sources {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(half, filepath.Base(path)), data, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, npmTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--prefix", half, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci of the AI SDK %d (it needs the npm registry): %w\n%s", major, err, out)
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
	script := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "node.sh"))
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/node.sh: %w", err)
	}
	return string(out[:len(out)-1]), nil
}
