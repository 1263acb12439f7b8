//go:build e2e

package chat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
)

// `npm run dev` is another proxy in front of the edge. If a connection to the edge
// breaks, its connection to the page must break too: otherwise the page would treat
// an incomplete answer as complete.
func TestDevServer(t *testing.T) {
	t.Parallel()
	w, app := newEnv(t, 6), newApp(t, 7)
	s := &scenario{env: w, front: w.newFront(t, ".", ""), t: t, browser: browsertest.Start(t), chat: fmt.Sprintf("chat-dev-%d", rand.Int64())}
	port := natstest.ReservePort(t)
	dev := &process{name: "vite", path: filepath.Join(app.dir, "node_modules", ".bin", "vite"), dir: app.dir, addr: fmt.Sprintf("127.0.0.1:%d", port)}
	dev.args = []string{"--host", "127.0.0.1", "--port", fmt.Sprint(port), "--strictPort"}
	dev.env = append(slices.Clone(app.env), "EDGE_URL="+s.url)
	dev.start(t)
	natstest.Eventually(t, dev.name, func(ctx context.Context) error {
		status, err := roletest.Status(ctx, "http://"+dev.addr+"/")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	p := openPage(t, s.browser, "http://"+dev.addr, s.chat)
	p.send("tell me")
	p.awaitText(middle)
	s.cut()
	s.release(t, s.chat)
	p.awaitText("This is sentence 25.")
	s.finish(p, 1, "submit-message")
}
