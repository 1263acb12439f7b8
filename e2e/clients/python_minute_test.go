//go:build e2e

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// TestPythonFirstMinute is the first minute of a visitor with Python: the wheel is installed into a new environment, examples/python/agent.py runs, and a
// browser that was open before shows its text within a minute.
func TestPythonFirstMinute(t *testing.T) {
	const limit = time.Minute
	b, w, tab := newPython(t), newEnv(t), browsertest.Start(t)
	edge, pages := w.ingestEdge(), w.inspected()
	w.must(chromedp.Do(tab, chromedp.Navigate(pages+"/inspect")))
	agent, err := filepath.Abs("../../examples/python/agent.py")
	w.must(err)
	begin := time.Now()
	python, err := b.install(t.Context(), filepath.Join(t.TempDir(), "env"))
	w.must(err)
	installed := time.Since(begin)
	cmd := exec.CommandContext(t.Context(), python, agent)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "TAILRACE_URL="+edge)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Oslo") {
		t.Fatalf("%v: %s", err, out)
	}
	w.must(chromedp.Do(tab, chromedp.Navigate(pages+"/inspect/s/s1")))
	browsertest.Await(tab, t, `document.body.innerText.includes("It is in Oslo.")`, "document.body.innerText")
	took := time.Since(begin)
	t.Logf("installed after %.1f s, shown after %.1f s", installed.Seconds(), took.Seconds())
	if took > limit {
		t.Errorf("the text is shown %s after the start of the installation, want at most %s", took, limit)
	}
}
