//go:build e2e

package create

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

const (
	source = "../../clients/create"
	client = "../../clients/ts"
)

// wholeAnswer is what the model of the template answers without a key.
var wholeAnswer = func() string {
	var b strings.Builder
	for n := range 40 {
		fmt.Fprintf(&b, "This is sentence %d of a script. ", n+1)
	}
	return b.String() + "Put a key of a model into .env.local to get real answers."
}()

// TestCreate does what a user does with a registry that has the packages of the working tree. It prints the time from npm create to the first token.
func TestCreate(t *testing.T) {
	n, suffix := newNPM(t), "-"+hashOf(t, source, client)
	upstream := strings.TrimSpace(n.run(t, ".", "config", "get", "registry"))
	r := newRegistry(t, upstream, pack(t, n, source, suffix), pack(t, n, client, suffix))
	n = n.with("npm_config_registry="+r.url, "npm_config_yes=true")
	browser := browsertest.Start(t)
	home := t.TempDir()
	p := newProject(t, n, filepath.Join(home, "my-chat"))

	begin := time.Now()
	if out := n.run(t, home, "create", "tailrace-chat@latest", "my-chat", "--", "--template", "next"); !strings.Contains(out, "cd my-chat\n  npm install\n  npm run dev\n") {
		t.Errorf("it does not print the next commands: %s", out)
	}
	n.run(t, p.dir, "install", "--no-audit", "--no-fund", "--loglevel=error")
	installed := time.Since(begin)
	if own, sdk := enginesOf(t, p.dir), enginesOf(t, filepath.Join(p.dir, "node_modules", "ai")); own != sdk {
		t.Errorf("the project says that it needs Node.js %s, and ai needs %s", own, sdk)
	}
	p.start()
	tab := page{t, browser}
	tab.open(p.url())
	tab.send("Tell me something")
	tab.awaitAnswer("This is")
	t.Logf("first token %.1f s after npm create, of which npm create and npm install took %.1f s", time.Since(begin).Seconds(), installed.Seconds())

	tab.awaitAnswer("sentence 2 ")
	tab.reload()
	tab.awaitAnswer("sentence 5 ")
	tab.stop()
	stopped := tab.answer()
	if stopped == "" || stopped == wholeAnswer || !strings.HasPrefix(wholeAnswer, stopped) {
		t.Errorf("the stopped answer is not a beginning of the whole one: %q", stopped)
	}
	tab.reload()
	tab.awaitAnswer(stopped)
	if again := tab.answer(); again != stopped {
		t.Errorf("the stopped answer is %q, and after a reload %q", stopped, again)
	}

	tab.send("Once more")
	tab.awaitAnswers(2, "sentence 2 ")
	p.killTailrace()
	p.awaitEnd()
	p.start()
	tab.awaitAnswers(2, wholeAnswer)
	tab.awaitStatus("ready")
	if got := tab.answer(); got != wholeAnswer {
		t.Errorf("after kill -9 the answer is %q", got)
	}
	p.interrupt()
}

// TestCreateRefuses runs create.mjs with what it cannot do.
func TestCreateRefuses(t *testing.T) {
	n, home := newNPM(t), t.TempDir()
	full := filepath.Join(home, "full")
	if err := os.MkdirAll(full, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(filepath.Join(source, "create.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"full is not empty":                           {"full"},
		"want one folder":                             {},
		`there is no template "svelte"; want next`:    {"new", "--template", "svelte"},
		"Unknown option '--tmplate'":                  {"new", "--tmplate", "next"},
		"npm create tailrace-chat@latest FOLDER -- [": {"a", "b"},
	} {
		cmd := exec.CommandContext(t.Context(), n.node, append([]string{program}, args...)...)
		cmd.Dir = home
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, %s, want %s", args, err, out, want)
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Errorf("it wrote %v, %v", entries, err)
	}
}

// TestDevWithoutTailrace runs npm run dev of a project on a machine that has no Tailrace: it prints the four ways to get it.
func TestDevWithoutTailrace(t *testing.T) {
	n, dir := newNPM(t), filepath.Join(t.TempDir(), "project")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(source, "template", "next"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), n.node, "dev.mjs")
	cmd.Dir, cmd.Env = dir, []string{"PATH="}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("it exits without an error: %s", out)
	}
	for _, way := range []string{"TAILRACE_BIN", "put tailrace on the PATH", "start Docker", "install Go"} {
		if !strings.Contains(string(out), way) {
			t.Errorf("it does not name %q: %s", way, out)
		}
	}
}

// TestDevOptions checks what npm run dev starts Tailrace with: the address of the route, and the version of the AI SDK that the project has.
func TestDevOptions(t *testing.T) {
	n, dir := newNPM(t), filepath.Join(t.TempDir(), "project")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(source, "template", "next"))); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(dir, "node_modules", "next", "dist", "bin")
	if err := errors.Join(os.MkdirAll(next, 0o700), os.WriteFile(filepath.Join(next, "next"), []byte("setInterval(() => {}, 1000)"), 0o600)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >arguments\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), n.node, "dev.mjs")
	cmd.Dir, cmd.Env = dir, n.with("TAILRACE_BIN="+program, "PORT=0").env
	out, _ := cmd.CombinedOutput() // Tailrace ends, which is an error
	arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manifest), `"ai": "7.`) || !strings.Contains(string(arguments), "--chat-major 7 ") || !strings.HasPrefix(string(arguments), "up --agents ") {
		t.Errorf("tailrace %s for\n%s", arguments, manifest)
	}
}

// enginesOf returns the versions of Node.js that a package asks for.
func enginesOf(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Engines struct {
			Node string `json:"node"`
		} `json:"engines"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	return manifest.Engines.Node
}

// page is a tab with the page of the project.
type page struct {
	t   *testing.T
	tab context.Context
}

const answers = `[...document.querySelectorAll('p.assistant')].map((p) => p.textContent)`

func (p page) open(url string) {
	p.t.Helper()
	if err := chromedp.Do(p.tab, chromedp.Navigate(url)); err != nil {
		p.t.Fatalf("%s: %v", url, err)
	}
}

func (p page) reload() {
	p.t.Helper()
	if err := chromedp.Do(p.tab, chromedp.Reload()); err != nil {
		p.t.Fatalf("reload: %v", err)
	}
}

// send types a message and sends it. The page must have started, which takes as long as its modules are compiled.
func (p page) send(text string) {
	p.t.Helper()
	p.awaitStatus("ready")
	browsertest.Eval[bool](p.tab, p.t, fmt.Sprintf(`(() => {
		const field = document.querySelector('input[name=text]');
		field.value = %q;
		return field.form.requestSubmit() === undefined;
	})()`, text))
}

// stop clicks the button, and waits for the end of the answer.
func (p page) stop() {
	p.t.Helper()
	p.await(`document.querySelector('button[type=button]') !== null`)
	browsertest.Eval[bool](p.tab, p.t, `document.querySelector('button[type=button]').click() === undefined`)
	p.awaitStatus("ready")
}

// answer returns the text of the last answer.
func (p page) answer() string {
	p.t.Helper()
	return browsertest.Eval[string](p.tab, p.t, answers+`.at(-1) ?? ''`)
}

func (p page) awaitAnswer(part string) { p.t.Helper(); p.awaitAnswers(1, part) }

// awaitAnswers waits for a number of answers, of which the last one has a part.
func (p page) awaitAnswers(n int, part string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`(%[1]s).length === %[2]d && (%[1]s).at(-1).includes(%[3]q)`, answers, n, part))
}

func (p page) awaitStatus(status string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.querySelector('main')?.dataset.status === %q`, status))
}

func (p page) await(expression string) {
	p.t.Helper()
	browsertest.Await(p.tab, p.t, expression, `document.body.innerText + '\n' + (document.querySelector('main')?.dataset.status ?? 'no main')`)
}
