//go:build e2e

package chat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// route is an example of an application's chat route, which knows nothing of Tailrace.
const route = "../../examples/route"

// routeAgent starts the route with the packages of the app, and returns the worker whose agent it is.
func (a app) routeAgent(t *testing.T, w *env) *process {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"route.mjs", "model.mjs", "server.mjs"} {
		copyFile(t, filepath.Join(route, name), dir)
	}
	if err := os.Symlink(filepath.Join(a.dir, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), npmTimeout)
	defer cancel()
	port := natstest.ReservePort(t)
	server := &process{name: "route", path: findNode(ctx, t), args: []string{"server.mjs", fmt.Sprint(port)}, dir: dir, env: []string{"PACE=2", "HOLD=" + w.holds}}
	server.start(t)
	natstest.Eventually(t, "the route", func(context.Context) error {
		if server.log.String() == "" {
			return errors.New("it has not started")
		}
		return nil
	})
	agents := filepath.Join(dir, "agents.json")
	text := fmt.Sprintf(`{"agents":{"assistant":{"http":{"url":"http://127.0.0.1:%d/api/chat","dialect":"aisdk","toolDeadline":"10m"}}}}`, port)
	if err := os.WriteFile(agents, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return w.tailrace(t, "worker", "--ops-listen", "", "--agents", agents)
}
