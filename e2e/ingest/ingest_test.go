//go:build e2e

package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/ingest"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// npmTimeout is the timeout of an installation.
const npmTimeout = 5 * time.Minute

// install installs the packages of the lock file into .tools, unless they are there, and returns the directory.
func install(ctx context.Context) (home string, err error) {
	tools, err := filepath.Abs(filepath.Join("..", "..", ".tools"))
	if err != nil {
		return "", err
	}
	sources := []string{filepath.Join("packages", "package.json"), filepath.Join("packages", "package-lock.json"), "sdk.mjs"}
	files := make([][]byte, len(sources))
	sum := sha256.New()
	for i, path := range sources {
		if files[i], err = os.ReadFile(path); err != nil {
			return "", err
		}
		sum.Write(files[i])
	}
	home = filepath.Join(tools, fmt.Sprintf("cloudevents-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	// An incomplete installation never has this name.
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(tools, "cloudevents-half-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(half)) }()
	for i, path := range sources {
		if err := os.WriteFile(filepath.Join(half, filepath.Base(path)), files[i], 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, npmTimeout)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "ci", "--prefix", half, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci of cloudevents (it needs the npm registry): %w\n%s", err, out)
	}
	return home, os.Rename(half, home)
}

// newEdge starts an edge with a connection of its own, and returns its URL.
func newEdge(t *testing.T, s *stack.Stack) string {
	t.Helper()
	producer, err := producers.New(s.NewProcess(natsauth.Edge).JS, producers.Config{Positions: producers.NoPositions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := producer.Close(); err != nil {
			t.Error(err)
		}
	})
	edge, err := httpedge.New(s.Log, s.Reader, httpedge.Config{Authenticator: authtest.None(t, tenant)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.New(edge, jsingest.New(producer, dialects.NewTranslator), ingest.Config{}); err != nil {
		t.Fatal(err)
	}
	return s.Serve(edge, edge.Run).URL
}

func TestCloudEventsOfJavaScript(t *testing.T) {
	home, err := install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.CommandContext(t.Context(), filepath.Join("..", "..", "scripts", "node.sh")).Output()
	if err != nil {
		t.Fatal(err)
	}
	s := stack.Start(t, stack.Options{})
	edges := []string{newEdge(t, s), newEdge(t, s)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, edges[0]+"/v1/sessions/s1/runs", strings.NewReader(`{"runId":"r1"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status)
	}
	const events = 30
	args := []string{"sdk.mjs", fmt.Sprint(events)}
	for _, url := range edges {
		args = append(args, url+"/v1/sessions/s1/runs/r1/events?epoch=1")
	}
	script := exec.CommandContext(t.Context(), string(bytes.TrimSpace(node)), args...)
	script.Dir = home
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var state struct {
		Stored int `json:"stored"`
	}
	if err := json.Unmarshal(out, &state); err != nil || state.Stored != events+1 {
		t.Errorf("the SDK got %s", out)
	}
	all := s.Chunks(chunk.RootSession(tenant, "s1"))
	if len(all) != events+2 {
		t.Fatalf("%d records, want %d", len(all), events+2)
	}
	for i, c := range all[1 : events+1] {
		custom, ok := chunk.As[chunk.Custom](c)
		if !ok || custom.EventName != fmt.Sprintf("n%d", i) || string(custom.Data) != `{"text":"é 😀"}` || c.Timestamp != 1_700_000_000_000 {
			t.Errorf("record %d is %+v", i+1, c)
		}
	}
}
