//go:build e2e

package clients

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// shown is what a failure of a wait reports.
const shown = `JSON.stringify(document.body.dataset) + document.body.innerText`

// Each module of the page that has no screen passes its tests.
func TestInspectorModules(t *testing.T) {
	b := newClient(t)
	web := b.inspectorCopy(t)
	run := exec.CommandContext(t.Context(), b.node, "test.mjs")
	run.Dir = web
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// press clicks the button of a text.
func press(tab context.Context, t *testing.T, name string) {
	t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === %q && !b.disabled)`, name)
	browsertest.Await(tab, t, button+` !== undefined`, shown)
	browsertest.Eval[bool](tab, t, button+`.click() === undefined`)
}

// enter sets the text of a field, as a user who types does.
func enter(tab context.Context, t *testing.T, field, text string) {
	t.Helper()
	browsertest.Eval[bool](tab, t, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %q;
		return field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`, field, text))
}

// keyOf presses a key on the page.
func keyOf(tab context.Context, t *testing.T, key string) {
	t.Helper()
	browsertest.Eval[bool](tab, t, fmt.Sprintf(`document.body.dispatchEvent(new KeyboardEvent('keydown', { key: %q, bubbles: true }))`, key))
}

// tabText returns the text of a tab of a session.
func tabText(tab context.Context, t *testing.T, name string) string {
	t.Helper()
	return browsertest.Eval[string](tab, t, fmt.Sprintf(`(async () => {
		document.getElementById('tab-%s').click();
		for (let i = 0; i < 3; i++) await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
		document.querySelector('.virtual')?.scrollTo(0, 0);
		for (let i = 0; i < 3; i++) await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
		return document.getElementById('panel').innerText;
	})()`, name))
}

// A file that the page exports, opened from a disk, shows in each tab the text that the page shows, at the same position. It requests nothing, breaks no rule of its
// policy, and runs no text of the session, which is hostile.
func TestInspectorExports(t *testing.T) {
	w := newEnv(t)
	axe := newClient(t).axe(t)
	url := w.inspected()
	w.writeHostile("s")
	tab := browsertest.Start(t)
	var blocked atomic.Int64 // scripts, which are those of the test below
	browsertest.WatchConsole(tab, t, func(line string) {
		if !strings.Contains(line, "TrustedScript") || blocked.Add(1) > 2 {
			t.Errorf("console: %s", line)
		}
	})
	for _, position := range []string{"", "&at=40"} {
		w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 4000)))
		w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=timeline"+position)))
		browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, shown)
		browsertest.Eval[bool](tab, t, `(() => {
			window.made = [];
			const make = URL.createObjectURL;
			URL.createObjectURL = (blob) => (window.made.push(blob), make.call(URL, blob));
			return true;
		})()`)
		press(tab, t, "Export")
		press(tab, t, "One HTML file")
		browsertest.Await(tab, t, `window.made.length === 1 && document.querySelector('dialog') === null`, shown)
		file := filepath.Join(t.TempDir(), "session.html")
		w.must(os.WriteFile(file, []byte(browsertest.Eval[string](tab, t, `window.made[0].text()`)), 0o600))
		want := map[string]string{}
		for _, name := range []string{"conversation", "timeline", "records", "delivery"} {
			want[name] = tabText(tab, t, name)
		}
		scrubber := browsertest.Eval[string](tab, t, `document.querySelector('.scrubber').innerText`)

		w.must(chromedp.Do(tab, chromedp.Navigate("file://"+file)))
		browsertest.Await(tab, t, `document.body.dataset.connection === 'file'`, shown)
		for name, text := range want {
			if got := tabText(tab, t, name); got != text || len(text) < 30 {
				t.Errorf("%s%s: the file shows\n%.2000s\nand the page\n%.2000s", name, position, got, text)
			}
		}
		if got := browsertest.Eval[string](tab, t, `document.querySelector('.scrubber').innerText`); got != scrubber || scrubber == "" {
			t.Errorf("position %q in the file, and %q on the page", got, scrubber)
		}
		if text := tabText(tab, t, "state"); !strings.Contains(text, "the server folds those") {
			t.Errorf("the state in the file: %s", text)
		}
		browsertest.Eval[bool](tab, t, `document.getElementById('tab-timeline').click() === undefined`)
		keyOf(tab, t, ",")
		if requests := browsertest.Eval[string](tab, t, `performance.getEntriesByType('resource').map((e) => e.name).join(' ')`); requests != "" {
			t.Errorf("the file requests %s", requests)
		}
		for _, width := range []int64{1280, 390} {
			w.must(chromedp.Do(tab, chromedp.EmulateViewport(width, 800)))
			if found := violations(tab, t, axe); found != "" {
				t.Errorf("the file at %d: %s", width, found)
			}
		}
		for _, name := range []string{"conversation", "timeline", "state", "records", "delivery"} {
			tabText(tab, t, name)
			if found := unexpected(tab, t); found != "" {
				t.Errorf("%s of the file: text made %s", name, found)
			}
		}
		if title := browsertest.Eval[string](tab, t, `document.title`); title != "s, Tailrace" {
			t.Errorf("text of the session ran: title %q", title)
		}
		// What a script of the session would do is refused by the policy, which has the hash of one script.
		if ran := browsertest.Eval[bool](tab, t, `(() => {
			const script = document.createElement('script');
			try { script.text = 'window.ran = true'; document.body.append(script); } catch { return false; }
			return window.ran === true;
		})()`); ran {
			t.Error("the policy of the file allows another script")
		}
	}
}

// Without a secure context the browser computes no hashes: the page offers no HTML file, and says why.
func TestInspectorExportsNoFileWithoutHashes(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	w.writeHostile("s")
	tab := browsertest.Start(t)
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, shown)
	browsertest.Eval[bool](tab, t, `Object.defineProperty(window, 'isSecureContext', { value: false }).isSecureContext === false`)
	press(tab, t, "Export")
	browsertest.Await(tab, t, `document.querySelector('.dialog .main')?.disabled === true && document.querySelector('.dialog .failure')?.textContent.includes('TLS')`, shown)
}

// Two runs of one agent are compared: the first difference is selected and visible, n and p go from one to the next, and equal rows are folded.
func TestInspectorCompares(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	write := func(id, status, answer string) {
		run := w.start(id)
		w.emit(run,
			chunk.StepStart{}, chunk.TextDelta{Delta: "Let me look."},
			chunk.ToolStart{ToolCallID: "c1", ToolName: "get_order", Arguments: chunk.Value(`{"order":1042}`)},
			chunk.ToolEnd{ToolCallID: "c1", ToolName: "get_order", Result: chunk.Value(`{"order":12345678901234567890,"status":"` + status + `"}`)},
			chunk.StepEnd{}, chunk.StepStart{}, chunk.TextDelta{Delta: answer},
		)
		w.end(run)
	}
	write("a", "lost", "Your parcel was lost by the carrier.")
	write("b", "delivered", "Your parcel was delivered.")
	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) { t.Errorf("console: %s", line) })
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/compare?a=a")))
	browsertest.Await(tab, t, `document.querySelectorAll('.side input').length === 2`, shown)
	enter(tab, t, ".side:nth-child(2) input", "b")
	press(tab, t, "Compare")
	browsertest.Await(tab, t, `document.querySelector('.options [role=status]')?.textContent === 'Difference 1 of 2'`, shown)
	first := browsertest.Eval[string](tab, t, `document.querySelector('.detail').innerText`)
	for _, want := range []string{"get_order", "/status", `"lost"`, `"delivered"`} {
		if !strings.Contains(first, want) {
			t.Errorf("the first difference lacks %s: %s", want, first)
		}
	}
	if strings.Contains(first, "12345678901234567") {
		t.Errorf("the first difference has what is equal: %s", first)
	}
	if list := browsertest.Eval[string](tab, t, `document.querySelector('.virtual').innerText`); !strings.Contains(list, "without a difference") || strings.Contains(list, "Let me look.") {
		t.Errorf("equal rows are not folded: %s", list)
	}
	keyOf(tab, t, "n")
	browsertest.Await(tab, t, `document.querySelector('.options [role=status]').textContent === 'Difference 2 of 2' && document.querySelector('.detail del')?.textContent.includes('lost') && document.querySelector('.detail ins')?.textContent.includes('delivered')`, shown)
	if words := browsertest.Eval[string](tab, t, `document.querySelector('.detail .said > span').textContent`); words != "Your parcel was " {
		t.Errorf("the words before the difference are %q", words)
	}
	keyOf(tab, t, "n") // there is no third one
	keyOf(tab, t, "p")
	browsertest.Await(tab, t, `document.querySelector('.options [role=status]').textContent === 'Difference 1 of 2'`, shown)
	press(tab, t, "Next (n)")
	browsertest.Eval[bool](tab, t, `document.querySelector('.options input').click() === undefined`)
	browsertest.Await(tab, t, `document.querySelector('.virtual').innerText.includes('Let me look.') && document.querySelector('.pair.selected .sign').textContent === '≠'`, shown)
	// A session compared with itself has no difference, and one that does not exist has its place.
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/compare?a=a&b=a")))
	browsertest.Await(tab, t, `document.querySelector('.options [role=status]')?.textContent.startsWith('No differences')`, shown)
}

// A server that refuses requests, or that cannot be reached, is named, with the time of the next attempt. The page shows its last position, offers no act, and continues
// by itself, also if no record follows.
func TestInspectorStates(t *testing.T) {
	w := newEnv(t)
	var refuse atomic.Int64 // status of the events; -1 aborts the request
	edge := w.inspectedBehind(func(edge http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			status := int(refuse.Load())
			switch {
			case status == 0 || !strings.HasSuffix(r.URL.Path, "/events"):
				edge.ServeHTTP(rw, r)
			case status < 0:
				panic(http.ErrAbortHandler)
			default:
				rw.Header().Set("Content-Type", "application/problem+json")
				rw.Header().Set("Retry-After", "2")
				rw.WriteHeader(status)
				_, _ = fmt.Fprintf(rw, `{"status":%d,"code":"REFUSED","title":"refused in a test"}`, status)
			}
		})
	})
	proxy := newCutter(t, []string{edge}, rand.New(rand.NewPCG(1, 1)), 0)
	page := proxy.url + "/inspect/s/s?tab=conversation"
	run := w.start("s")
	w.emit(run, chunk.StepStart{}, chunk.TextDelta{Delta: "first part"})
	tab := browsertest.Start(t)
	const live = `document.body.dataset.connection === 'live' && document.querySelector('.notice.lost') === null && document.body.innerText.includes('first part')`
	for _, state := range []struct {
		status int
		want   string
	}{
		{http.StatusForbidden, `document.querySelector('.card[role=alert]')?.innerText.includes('No right to see this')`},
		{http.StatusTooManyRequests, `document.querySelector('.notice.lost')?.innerText.includes('refused in a test') && document.querySelector('.notice.lost').innerText.includes('Next attempt in')`},
		{http.StatusServiceUnavailable, `document.querySelector('.notice.lost')?.innerText.includes('refused in a test') && document.querySelector('.connection').innerText.includes('refused for now')`},
	} {
		refuse.Store(int64(state.status))
		w.must(chromedp.Do(tab, chromedp.Navigate(page)))
		browsertest.Await(tab, t, state.want, shown)
		refuse.Store(0)
		if state.status == http.StatusForbidden {
			press(tab, t, "Try again")
		}
		browsertest.Await(tab, t, live, shown)
	}
	refuse.Store(-1)
	proxy.cutAll()
	const acts = `[...document.querySelectorAll('[aria-label=Actions] button')].filter((b) => b.disabled).map((b) => b.textContent).join()`
	browsertest.Await(tab, t, `document.body.dataset.connection === 'lost' && document.body.innerText.includes('first part') && document.querySelector('.notice.lost').innerText.includes('No connection for') && `+acts+` === 'Fork,Share,Delete'`, shown)
	browsertest.Await(tab, t, `document.querySelector('.notice.lost').innerText.includes('Check the server: curl -i')`, shown)
	refuse.Store(0)
	browsertest.Await(tab, t, live+` && `+acts+` === ''`, shown)
}

// A decision on a call of a sub-agent names the call with its session. A session is deleted only by a user who has typed its id, and an edge that has no route for a
// deletion, a link or a fork is named.
func TestInspectorActs(t *testing.T) {
	w := newEnv(t)
	answers := make(chan string, 1)
	url := w.inspectedBehind(func(edge http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/answers"):
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				answers <- r.URL.Path + " " + string(body)
				rw.WriteHeader(http.StatusNoContent)
			case strings.HasSuffix(r.URL.Path, "/fork"):
				http.Error(rw, `{"code":"NOT_FOUND"}`, http.StatusNotFound)
			default:
				edge.ServeHTTP(rw, r)
			}
		})
	})
	run := w.start("s")
	child, err := run.Child(t.Context(), chunk.SubagentStart{SubAgentType: "writer", SubSessionID: "sub", CallID: "c"}, chunk.RunStarted{Mode: "execute"})
	w.must(err)
	w.emit(child, chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "delete_files", ApprovalID: "p1", Input: chunk.Value(`{}`)})
	tab := browsertest.Start(t)
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=conversation")))
	press(tab, t, "Allow")
	if got, want := <-answers, `/api/chat/s/answers {"kind":"approval-response","toolCallId":"sub/c1","approvalId":"p1","approved":true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	press(tab, t, "Delete")
	enter(tab, t, ".dialog input", "other")
	if browsertest.Eval[bool](tab, t, `document.querySelector('.dialog .danger').disabled`) != true {
		t.Error("the session can be deleted with another id")
	}
	enter(tab, t, ".dialog input", "s")
	browsertest.Await(tab, t, `document.querySelector('.dialog .danger').disabled === false`, shown)
	browsertest.Eval[bool](tab, t, `document.querySelector('.dialog .danger').click() === undefined`)
	browsertest.Await(tab, t, `document.querySelector('.dialog .failure')?.textContent.includes('TAILRACE_ALLOW_DELETE')`, shown)
	press(tab, t, "Close")
	press(tab, t, "Share")
	press(tab, t, "Make a link")
	browsertest.Await(tab, t, `document.querySelector('.dialog')?.innerText.includes('signingKeys')`, shown)
	press(tab, t, "Export a file")
	browsertest.Await(tab, t, `document.querySelector('.dialog')?.innerText.includes('One HTML file')`, shown)
	press(tab, t, "Close")
	press(tab, t, "Fork")
	browsertest.Await(tab, t, `document.querySelector('.dialog .main') !== null`, shown)
	browsertest.Eval[bool](tab, t, `document.querySelector('.dialog .main').click() === undefined`)
	browsertest.Await(tab, t, `document.querySelector('.dialog .main')?.innerText === 'This edge has no forks'`, shown)
}
