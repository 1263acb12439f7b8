//go:build e2e

package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/inspector"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/subjects"
)

const inspectorSource = "../../internal/inspector/web"

// The files of the inspector that the binary embeds are those that its source makes.
func TestInspectorIsBuilt(t *testing.T) {
	b := newClient(t)
	web := b.inspectorCopy(t)
	if _, err := b.npm(t.Context(), web, "run", "build"); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(web, "dist", "*"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(inspectorSource, "dist", "*"))
	if err != nil || len(made) == 0 || len(made) != len(kept) {
		t.Fatalf("%d files are made, and %d are kept, %v", len(made), len(kept), err)
	}
	for _, path := range made {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(inspectorSource, "dist", filepath.Base(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from what its source makes, %v: run make inspector", filepath.Base(path), err)
		}
	}
}

// inspectorCopy copies the source of the page and of the client into a directory with the tools of the page, and returns its folder.
func (b *built) inspectorCopy(t *testing.T) (web string) {
	t.Helper()
	modules, err := b.install(t.Context(), inspectorSource)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	web = filepath.Join(root, "internal", "inspector", "web")
	for _, dir := range []string{web, filepath.Join(root, "clients", "ts")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-R"}
	for _, name := range []string{"src", "test", "test.mjs", "build.mjs", "package.json", "tsconfig.json"} {
		args = append(args, filepath.Join(inspectorSource, name))
	}
	for _, command := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "cp", append(args, web)...),
		exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(source, "src"), filepath.Join(root, "clients", "ts")),
		exec.CommandContext(t.Context(), "ln", "-s", modules, filepath.Join(web, "node_modules")),
	} {
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return web
}

// inspected returns the address of an edge with the inspector.
func (w *env) inspected() string {
	return w.inspectedBehind(func(edge http.Handler) http.Handler { return edge })
}

// inspectedBehind returns the address of a handler in front of an edge with the inspector and two views.
func (w *env) inspectedBehind(before func(edge http.Handler) http.Handler) string {
	w.t.Helper()
	clients := stack.NewClients(w.t, w.NewProcess(natsauth.Edge).JS)
	store, err := jssnapshots.New(clients.JS, jssnapshots.Config{})
	w.must(err)
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	views, err := view.Read(strings.NewReader(`{"views": {"public": {"preset": "public"}, "empty": {"preset": "none"}}}`))
	w.must(err)
	edge, err := httpedge.New(clients.Log, clients.Reader, httpedge.Config{Authenticator: authtest.None(w.t, tenant), Sessions: store, Views: views, RetryDelay: 10 * time.Millisecond, AttachTimeout: time.Minute, Log: log})
	w.must(err)
	respond := &httpkit.Responder{Log: log}
	agents := []inspector.Agent{{Type: hostile[1], Prompts: []inspector.Prompt{}}, {Type: "b", Prompts: []inspector.Prompt{{Title: hostile[0], Text: hostile[0]}}}}
	page, err := edge.Shared().NewSurface(inspector.Routes(agents, views, respond), httpkit.Options{OtherName: "other", Head: true, Respond: respond})
	w.must(err)
	edge.Mount(page)
	return w.Serve(before(edge), edge.Run).URL
}

// axe returns the script that finds violations of accessibility.
func (b *built) axe(t *testing.T) string {
	t.Helper()
	modules, err := b.install(t.Context(), inspectorSource)
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(modules, "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// violations returns those of accessibility on the page, in light and dark.
func violations(tab context.Context, t *testing.T, axe string) (all string) {
	t.Helper()
	browsertest.Eval[bool](tab, t, "(() => {"+axe+"; return true })()")
	for _, theme := range []string{"light", "dark"} {
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`(document.documentElement.dataset.theme = %q) !== ''`, theme))
		found := browsertest.Eval[string](tab, t, `axe.run().then((r) => r.violations.map((v) => v.id + ' ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')).join('\n'))`)
		if found != "" {
			all += theme + ": " + found + "\n"
		}
	}
	return all
}

// Hostile texts of agents, users and tools are shown as text in each tab: they run no script and request no other origin, and the browser reports no violation of the
// policy. axe reports no violation of accessibility for any screen, in light and dark, with a width of 1,280 and of 390 pixels.
func TestInspectorInChromium(t *testing.T) {
	b, w := newClient(t), newEnv(t)
	axe := b.axe(t)
	url := w.inspected()
	for _, id := range []string{"s", "t"} {
		w.writeHostile(id)
	}
	w.writeListed()

	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) {
		if !strings.Contains(line, "404") { // of the unknown session
			t.Errorf("console: %s", line)
		}
	})
	for _, screen := range []struct {
		path, until string
		act         string // of the user then
		opens       string // an element that appears
	}{
		{"/", `document.querySelector('.composer') !== null`, "", ""},
		{"/inspect", `document.querySelectorAll('a.whole').length === ` + strconv.Itoa(len(hostile)) + ` && document.querySelectorAll('.group').length > 2`, "", ""},
		{"/inspect/s/unknown", `document.querySelector('.card') !== null`, "", ""},
		{"/inspect/shared", `document.querySelector('.card') !== null`, "", ""},
		{"/#s=s", `document.body.dataset.status === 'ended' && document.querySelectorAll('.chat .part').length > 50`, "", ""},
		{"/inspect/shared#" + linkTo("s"), `document.body.dataset.status === 'ended' && document.querySelectorAll('.part').length > 50`, `document.querySelectorAll('details').forEach((part) => (part.open = true))`, "[open]"},
		{"/inspect/shared#" + linkTo("s"), `document.body.dataset.status === 'ended' && document.querySelectorAll('.part').length > 50`, `document.getElementById('tab-timeline').click()`, ".line"},
		{"/inspect/shared#" + linkTo("s"), `document.body.dataset.status === 'ended' && document.querySelectorAll('.part').length > 50`, `document.getElementById('tab-state').click()`, ".state .json"},
		{"/inspect/shared#" + linkTo("s"), `document.body.dataset.status === 'ended' && document.querySelectorAll('.part').length > 50`, `document.getElementById('tab-records').click()`, ".record"},
		{"/inspect/compare?a=s", `document.querySelectorAll('.side').length === 2`, "", ""},
		{"/inspect/compare?a=s&b=t", `document.querySelector('.compare-panes .detail') !== null`, "", ""},
		{"/inspect/s/s?tab=conversation", `document.body.dataset.status === 'ended'`, "", ""},
		{"/inspect/s/s?tab=timeline", `document.body.dataset.status === 'ended' && document.querySelectorAll('.line').length > 5`, `document.querySelector('[data-kind="call"]').click()`, ".detail"},
		{"/inspect/s/s?tab=timeline&node=5", `document.querySelector('.detail .acts') !== null`, `document.querySelector('.detail .acts button').click()`, ".dialog"},
		{"/inspect/s/s?tab=delivery&view=public", `document.querySelectorAll('.delivery tbody tr').length > 0`, `document.querySelector('[aria-label=Actions] > :nth-child(3)').click()`, ".dialog"},
		{"/inspect/s/s?tab=delivery", `document.querySelectorAll('.delivery tbody tr').length > 0`, `document.querySelector('[aria-label=Actions] > :nth-child(4)').click()`, ".dialog"},
		{"/inspect/s/s?tab=delivery", `document.querySelectorAll('.delivery tbody tr').length > 0`, `document.querySelector('[aria-label=Actions] > :nth-child(5)').click()`, ".dialog"},
		{"/inspect/s/s?tab=timeline", `document.body.dataset.status === 'ended'`, `const field = document.querySelector('.find input'); field.value = 'owned'; field.dispatchEvent(new Event('input', { bubbles: true }))`, ".hits mark"},
		{"/inspect/s/s?tab=records", `document.querySelectorAll('.record').length > 5`, "", ""},
		{"/inspect/s/s?tab=state", `document.querySelector('.state .json')?.textContent.includes('owned')`, "", ""},
		{"/inspect/s/s?tab=wire", `document.querySelector('.frames')?.textContent.includes('stream_end') || document.querySelector('.frames')?.textContent.includes('"end"')`, "", ""},
	} {
		for _, size := range []struct{ width, height int64 }{{1280, 900}, {390, 800}} {
			w.must(chromedp.Do(tab, chromedp.EmulateViewport(size.width, size.height)))
			w.must(chromedp.Do(tab, chromedp.Navigate(url+screen.path)))
			browsertest.Await(tab, t, screen.until, "document.body.innerText")
			if screen.act != "" {
				browsertest.Eval[bool](tab, t, `(() => { `+screen.act+`; return true; })()`)
				browsertest.Await(tab, t, fmt.Sprintf(`document.querySelector(%q) !== null`, screen.opens), "document.body.innerText")
			}
			if wide := browsertest.Eval[int](tab, t, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
				t.Errorf("%s at %d: the page is %d pixels wider than the screen", screen.path, size.width, wide)
			}
			if found := violations(tab, t, axe); found != "" {
				t.Errorf("%s at %d: %s", screen.path, size.width, found)
			}
			if found := unexpected(tab, t); found != "" {
				t.Errorf("%s: text made %s", screen.path, found)
			}
			if title := browsertest.Eval[string](tab, t, `document.title`); strings.Contains(title, "owned") {
				t.Errorf("%s: text of the session ran: %s", screen.path, title)
			}
			if origins := browsertest.Eval[string](tab, t, `performance.getEntriesByType('resource').map((e) => new URL(e.name).origin).filter((o) => o !== location.origin).join(' ')`); origins != "" {
				t.Errorf("%s requests %s", screen.path, origins)
			}
		}
	}
	// The tab has the bytes that another client gets; the first line is the reconnect delay, with a random part.
	for _, dialect := range []string{"native", "aisdk", "agui", "mastra", "kortyx", "records"} {
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`(() => {
			const select = document.querySelector('.wire select');
			select.value = %q;
			return select.dispatchEvent(new Event('change', { bubbles: true }));
		})()`, dialect))
		browsertest.Await(tab, t, fmt.Sprintf(`document.querySelector('.wire pre').textContent.includes('dialect=%s') && document.querySelector('.wire [role=status]').textContent.includes('ended')`, dialect), "document.body.innerText")
		shown := browsertest.Eval[string](tab, t, `document.querySelector('.frames').textContent`)
		_, want, _ := strings.Cut(w.read(url+"/v1/sessions/s/events?dialect="+dialect), "\n")
		if _, got, _ := strings.Cut(shown, "\n"); got != want || len(want) < 1000 {
			t.Errorf("%s: the page has %d bytes, and a client gets %d", dialect, len(got), len(want))
		}
	}
}

// read returns the body of a response.
func (w *env) read(url string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, http.NoBody)
	w.must(err)
	resp, err := http.DefaultClient.Do(req)
	w.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	w.must(err)
	http.DefaultClient.CloseIdleConnections()
	return string(body)
}

// A session that is deleted while it is open disappears from the page. One whose records have expired shows the messages of its snapshot, and follows what comes.
func TestInspectorWithoutRecords(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	const state = `JSON.stringify(document.body.dataset) + document.body.innerText`
	tab := browsertest.Start(t)
	write := func(id, text string) {
		run := w.start(id)
		w.emit(run, chunk.TextDelta{Delta: text})
		w.end(run)
	}
	write("deleted", "a secret")
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/deleted?tab=conversation")))
	browsertest.Await(tab, t, `document.body.innerText.includes('a secret')`, state)
	js := w.Server.JetStream(t)
	store, err := jssnapshots.New(js, jssnapshots.Config{})
	w.must(err)
	eraser, err := retention.NewEraser(js, store, retention.EraserConfig{})
	w.must(err)
	w.must(eraser.Delete(t.Context(), session("deleted")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'unknown' && !document.body.innerText.includes('a secret')`, state)

	write("old", "an old answer")
	saved := w.Snapshot(session("old"))
	_, err = store.Save(t.Context(), saved, 0)
	w.must(err)
	log, err := js.Stream(t.Context(), subjects.Layout{}.Stream(0))
	w.must(err)
	w.must(log.Purge(t.Context()))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/old?tab=conversation")))
	browsertest.Await(tab, t, `document.querySelector('.expired')?.innerText.includes('an old answer')`, state)
	write("old", "a new answer")
	browsertest.Await(tab, t, `document.body.innerText.includes('a new answer')`, state)
}
