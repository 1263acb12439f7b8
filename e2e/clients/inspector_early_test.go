//go:build e2e

package clients

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// early evaluates steps on the page, each before the next frame and before the next response: between two steps there are only microtasks, in which the page renders.
func early[T any](tab context.Context, t *testing.T, result string, steps ...string) T {
	t.Helper()
	code := `(async () => {
		const key = (key, at = document.body) => at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
		const enter = (field, value) => (field.value = value, field.dispatchEvent(new Event(field.matches('select') ? 'change' : 'input', { bubbles: true })));
		const pause = async () => { for (let i = 0; i < 50; i++) await null; };
	`
	for _, step := range steps {
		code += step + "; await pause();\n"
	}
	return browsertest.Eval[T](tab, t, code+"return "+result+"; })()")
}

// What a user does before the next frame is drawn, or before a response has arrived, is not lost and not undone.
func TestInspectorBeforeTheNextFrame(t *testing.T) {
	w := newEnv(t)
	known := make(chan struct{}) // the edge says then what it offers
	var asked atomic.Int32
	url := w.inspectedBehind(func(edge http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/agents" {
				if asked.Add(1) == 1 {
					http.Error(rw, "the edge starts", http.StatusServiceUnavailable)
					return
				}
				select {
				case <-known:
				case <-r.Context().Done():
				}
			}
			edge.ServeHTTP(rw, r)
		})
	})
	run := w.start("s")
	w.writeRounds(run, 0, 60)
	tab := browsertest.Start(t)
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	open := func(path, until string) {
		t.Helper()
		w.must(chromedp.Do(tab, chromedp.Navigate(url+path)))
		browsertest.Await(tab, t, until, shown)
	}

	// A link is offered with the view "public" first, also if the dialog is opened before the views are known, and the first request for them has failed.
	open("/inspect/s/s?tab=conversation", `document.body.innerText.includes('text 59.')`)
	early[bool](tab, t, `true`, `key('s')`)
	close(known)
	browsertest.Await(tab, t, `document.querySelector('dialog[open] select')?.value === 'public'`, shown)
	press(tab, t, "Close")
	browsertest.WatchConsole(tab, t, func(line string) { t.Errorf("console: %s", line) })

	// The list of a run that continues is at its end, until a row is selected: rows that come then do not move it.
	if top := early[int](tab, t, `document.querySelector('.virtual').scrollTop`, `key('2')`); top < 1000 {
		t.Errorf("the timeline of a run begins at %d", top)
	}
	if top := early[int](tab, t, `document.querySelector('.virtual').scrollTop`, `key('k')`, `key('ArrowLeft')`, `key('ArrowRight')`); top != 0 {
		t.Errorf("the selected first row is not shown: the timeline is at %d", top)
	}

	// Enter goes to the first hit, also before it was found: each look at the clock takes 5 ms here, and a slice of the search 8 ms.
	early[bool](tab, t, `true`,
		`window.clock = performance.now.bind(performance); let now = clock(); performance.now = () => (now += 5)`,
		`key('/')`, `enter(document.activeElement, 'TEXT 58.')`, `key('Enter', document.activeElement)`)
	browsertest.Await(tab, t, `document.querySelector('.find [role=status]').textContent === '1 of 1' && document.querySelector('.detail').innerText.includes('text 58.')`, shown)
	early[bool](tab, t, `true`, `performance.now = clock`)

	// A replay moves the position alone: a tab that is chosen meanwhile stays.
	early[bool](tab, t, `true`, `document.activeElement.blur()`, `key(',')`, `key(' ')`, `key('1')`, `key('4')`)
	browsertest.Await(tab, t, `!location.search.includes('at=') && location.search.includes('tab=records') && [...document.querySelectorAll('.scrubber button')].some((b) => b.textContent === 'Play')`, shown)

	// The id of the other session stays in its field.
	if id := early[string](tab, t, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelectorAll('.side input')[1].value))))`,
		`document.querySelector('[aria-label=Actions] a').click()`, `enter(document.querySelectorAll('.side input')[1], 's')`); id != "s" {
		t.Errorf("the field of the second session has %q", id)
	}

	// A text that is not sent yet and a filter are both in the address.
	open("/inspect", `document.querySelector('#search') !== null`)
	early[bool](tab, t, `true`, `enter(document.querySelector('#search'), 'parcel')`, `enter(document.querySelector('.filters select'), 'failed')`)
	browsertest.Await(tab, t, `location.search === '?q=parcel&status=failed'`, fmt.Sprintf(`location.search + %s`, shown))

	// The chat of a session that is opened is at its end, and the record of an address is selected.
	w.emit(run, chunk.TextDelta{Delta: "the last words"})
	open("/#s=s", `document.querySelector('.chat').innerText.includes('the last words') && ((box) => box.scrollTop > 1000 && box.scrollHeight - box.scrollTop - box.clientHeight < 2)(document.querySelector('.chat > .scroll'))`)
	open("/inspect/s/s?tab=records&node=4", `document.querySelector('.record.selected .number')?.textContent === '#4'`)
	w.end(run)
}
