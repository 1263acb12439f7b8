//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/outputtest"
)

// TestCloneAndRun is the first minute of a visitor with a module cache: git clone, make run, a message that is typed into the page. The first words of the answer
// must be there a minute after the start of the clone. The browser is started before, as that of a visitor.
func TestCloneAndRun(t *testing.T) {
	const limit = time.Minute
	tab := browsertest.Start(t)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tailrace")
	listen := "127.0.0.1:" + strconv.Itoa(freePort(t))
	begin := time.Now()
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v: %s", err, out)
	}
	cloned := time.Since(begin)
	var log outputtest.Buffer
	run := exec.Command("make", "run")
	run.Dir, run.Stdout, run.Stderr = dir, &log, &log
	run.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TAILRACE_") }), // which other tests need
		"TAILRACE_LISTEN="+listen, "TAILRACE_NATS_PORT="+strconv.Itoa(freePort(t)), "TAILRACE_OPS_LISTEN=127.0.0.1:0", "GOFLAGS=", "MAKEFLAGS=")
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-run.Process.Pid, syscall.SIGKILL) // the group may have ended
		_ = run.Wait()                                      // it was killed
		if t.Failed() {
			t.Logf("output of make run:\n%s", &log)
		}
	})
	natstest.Within(t, 2*limit, "make run prints its URL", func(context.Context) error {
		if !strings.Contains(log.String(), "http://"+listen) {
			return errors.New("no URL yet")
		}
		return nil
	})
	serves := time.Since(begin)
	if err := chromedp.Do(tab, chromedp.Navigate("http://"+listen)); err != nil {
		t.Fatal(err)
	}
	const state = `document.body.innerText`
	browsertest.Await(tab, t, `document.querySelector("textarea") !== null`, state)
	browsertest.Eval[bool](tab, t, `(() => {
		const field = document.querySelector("textarea");
		field.value = "How is the weather in Lisbon?";
		return field.dispatchEvent(new Event("input", { bubbles: true }));
	})()`)
	browsertest.Eval[bool](tab, t, `document.querySelector("button[type=submit]").click() === undefined`)
	browsertest.Await(tab, t, `(document.querySelector(".chat .scroll")?.innerText ?? "").includes("the same time")`, state)
	took := time.Since(begin)
	t.Logf("cloned after %.1f s, serves after %.1f s, answers after %.1f s", cloned.Seconds(), serves.Seconds(), took.Seconds())
	if took > limit {
		t.Errorf("the answer begins %s after the start of the clone, want at most %s", took, limit)
	}
}
