//go:build e2e

package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/projector/fold"
)

// An engineer finds one failed call in three thousand sessions: from the list to the input of the call in at most four actions. The address of the filtered list is a
// link, which shows the same list to another one.
func TestFindFailure(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	store, err := jssnapshots.New(w.Server.JetStream(t), jssnapshots.Config{})
	w.must(err)
	save := func(snap fold.Snapshot) {
		_, err := store.Save(t.Context(), snap, 0)
		w.must(err)
	}
	const sessions, bad = 3000, 1700
	for n := range sessions {
		if n != bad {
			save(fold.New(session(fmt.Sprint("quiet-", n))).Snapshot())
			continue
		}
		run := w.start("bad")
		w.emit(run, chunk.StepStart{}, chunk.TextDelta{Delta: "Let me see."},
			chunk.ToolStart{ToolCallID: "c7", ToolName: "get_order", Arguments: chunk.Value(`{"order":1042}`)},
			chunk.ToolEnd{ToolCallID: "c7", ToolName: "get_order", Result: chunk.Value(`null`), Error: new(`no answer from "orders" after 900 ms`)},
			chunk.TextDelta{Delta: "I could not reach it."}, chunk.StepEnd{Model: new("m-1"), Usage: &chunk.Usage{InputTokens: "12000", OutputTokens: "100", Cost: new("0.21")}})
		w.must(run.Fail(t.Context(), "gave up", nil))
		save(w.Snapshot(session("bad")))
	}
	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) { t.Errorf("console: %s", line) })
	const state = `location.href + document.body.innerText`
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect")))
	actions := 0
	act := func(do chromedp.Action[chromedp.Void], until string) {
		t.Helper()
		actions++
		w.must(chromedp.Do(tab, do))
		browsertest.Await(tab, t, until, state)
	}
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 50 && document.querySelector('.totals')?.innerText.includes('3,000 sessions')`, state)
	if browsertest.Eval[bool](tab, t, `[...document.querySelectorAll('a.whole')].some((a) => a.href.endsWith('/bad'))`) {
		t.Error("the session is on the first page: it is to be found")
	}
	act(chromedp.Click(`.group a`), `document.querySelectorAll('a.whole').length === 1`)
	filtered := browsertest.Eval[string](tab, t, `location.href`)
	if text := browsertest.Eval[string](tab, t, `document.querySelector('.table').innerText`); !strings.Contains(text, "gave up") || !strings.Contains(text, "12.1K tokens") || !strings.Contains(text, "$0.21") {
		t.Errorf("the row is %q", text)
	}
	act(chromedp.Click(`a.whole`), `document.body.dataset.status === 'failed' && document.querySelectorAll('.line').length > 3`)
	for !browsertest.Eval[bool](tab, t, `(document.querySelector('.detail')?.innerText ?? '').includes('1042')`) && actions < 4 {
		act(chromedp.KeyEvent("]"), `document.querySelector('.detail') !== null`)
	}
	if text := browsertest.Eval[string](tab, t, `document.querySelector('.detail')?.innerText ?? ''`); !strings.Contains(text, "1042") || actions > 4 {
		t.Errorf("after %d actions the page shows %q", actions, text)
	}

	w.must(chromedp.Do(tab, chromedp.Navigate(filtered)))
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 1 && document.querySelector('a.whole').href.endsWith('/bad')`, state)
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect")))
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 50`, state)
	w.must(chromedp.Do(tab, chromedp.Click("#search")))
	w.must(chromedp.Do(tab, chromedp.KeyEvent("QUESTION")))
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 1 && location.search === '?q=QUESTION'`, state)

	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect?model=other")))
	browsertest.Await(tab, t, `document.body.innerText.includes('No session matches') && [...document.querySelectorAll('#model option')].map((o) => o.value).join() === ',m-1,other'`, state)
	browsertest.Eval[bool](tab, t, `(() => { const s = document.querySelector('#model'); s.value = 'm-1'; return s.dispatchEvent(new Event('change', {bubbles: true})); })()`)
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 1 && location.search === '?model=m-1'`, state)

	w.must(chromedp.Do(tab, chromedp.Click("#search")))
	w.must(chromedp.Do(tab, chromedp.KeyEvent("NOT reach it")))
	browsertest.Await(tab, t, `document.body.innerText.includes('No session matches')`, state)
	w.must(chromedp.Do(tab, chromedp.Click("#in-messages")))
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 1 && location.search.includes('in=messages') && location.search.includes('since=')`, state)
	if text := browsertest.Eval[string](tab, t, `document.querySelector('.filters').innerText`); !strings.Contains(text, "at most 2,000 sessions, 64 MiB and 3 seconds") {
		t.Errorf("the filters say %q", text)
	}
	w.must(chromedp.Do(tab, chromedp.Click("#in-messages")))
	browsertest.Await(tab, t, `document.body.innerText.includes('No session matches') && !location.search.includes('in=')`, state)
}

// A list and totals that the edge refuses for the moment are shown as such, and requested again after the time that it asks for.
func TestRefusedListIsRequestedAgain(t *testing.T) {
	w := newEnv(t)
	var open atomic.Bool
	url := w.inspectedBehind(func(edge http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/inspect/main.js": // before it the page begins to count the waits that it asks for
				rw.Header().Set("Content-Type", "text/javascript")
				_, _ = io.WriteString(rw, `const timer = setTimeout; globalThis.waits = []; globalThis.setTimeout = (run, ms) => (waits.push(ms), timer(run, ms));`+"\n")
				kept := httptest.NewRecorder()
				edge.ServeHTTP(kept, httptest.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Path, http.NoBody))
				_, _ = kept.Body.WriteTo(rw)
			case strings.HasPrefix(r.URL.Path, "/v1/sessions") && !open.Load():
				rw.Header().Set("Retry-After", "1")
				http.Error(rw, `{"code":"TOO_MANY_READS","title":"the memory for pages is in use"}`, http.StatusServiceUnavailable)
			default:
				edge.ServeHTTP(rw, r)
			}
		})
	})
	store, err := jssnapshots.New(w.Server.JetStream(t), jssnapshots.Config{})
	w.must(err)
	_, err = store.Save(t.Context(), fold.New(session("a")).Snapshot(), 0)
	w.must(err)
	tab := browsertest.Start(t)
	const state = `document.body.innerText + waits`
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect")))
	browsertest.Await(tab, t, `document.body.innerText.includes('the memory for pages is in use') && waits.filter((ms) => ms === 1000).length > 3`, state)
	if browsertest.Eval[bool](tab, t, `waits.some((ms) => ms > 1000)`) {
		t.Errorf("the page waits %s", browsertest.Eval[string](tab, t, `waits.join()`))
	}
	open.Store(true)
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 1 && document.querySelector('.totals') !== null && !document.body.innerText.includes('the memory')`, state)
}

// Rows keep their places while the pointer is on the list, and the title of the tab counts the sessions that wait.
func TestRowsKeepTheirPlaces(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	store, err := jssnapshots.New(w.Server.JetStream(t), jssnapshots.Config{})
	w.must(err)
	save := func(id string) {
		_, err := store.Save(t.Context(), fold.New(session(id)).Snapshot(), 0)
		w.must(err)
	}
	save("a")
	save("b")
	tab := browsertest.Start(t)
	const ids = `[...document.querySelectorAll('a.whole')].map((a) => a.innerText).join()`
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect")))
	browsertest.Await(tab, t, ids+` === 'b,a'`, ids)
	enter := func(kind string) {
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`document.querySelector('.table').dispatchEvent(new PointerEvent(%q)) !== null`, kind))
	}
	enter("pointerenter")
	save("c")
	browsertest.Await(tab, t, `document.querySelector('.fresh')?.innerText.includes('1 newer session') && `+ids+` === 'b,a'`, ids)
	enter("pointerleave")
	browsertest.Await(tab, t, ids+` === 'c,b,a'`, ids)

	run := w.start("waits")
	w.emit(run, chunk.StepStart{}, chunk.ToolApprovalRequest{ToolCallID: "c1", ToolName: "delete_files", ApprovalID: "a1", Input: chunk.Value(`{}`)})
	_, err = store.Save(t.Context(), w.Snapshot(session("waits")), 0)
	w.must(err)
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect?waiting=1")))
	browsertest.Await(tab, t, ids+` === 'question' && document.title.startsWith('(1)')`, ids+" + document.title")
	w.must(chromedp.Do(tab, chromedp.Click(`.ask`)))
	browsertest.Await(tab, t, `location.pathname === '/inspect/s/waits' && document.querySelector('.decide') !== null`, "document.body.innerText")
}
