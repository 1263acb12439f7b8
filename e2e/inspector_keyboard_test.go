//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// A user without a pointer writes to an agent, allows a call, finds the session in the list, sees it in each tab, goes back in it, and opens and leaves its dialogs. What
// has the focus can be seen at each step.
func TestInspectorByKeyboard(t *testing.T) {
	u := newUp(t, "--demo", "0")
	u.start(t)
	tab := browsertest.Start(t)
	run(t, tab, chromedp.EmulateViewport(1280, 900))
	open(t, tab, u.url+"/")
	const state = `location.href + JSON.stringify(document.body.dataset) + ' focus: ' + document.activeElement?.outerHTML.slice(0, 200) + document.activeElement?.value + document.body.innerText`
	await := func(until string) {
		t.Helper()
		browsertest.Await(tab, t, until, state)
	}
	press := func(keys string) {
		t.Helper()
		run(t, tab, chromedp.KeyEvent(keys))
	}
	// reach presses the tabulator until the element has the focus.
	reach := func(name string) {
		t.Helper()
		const most = 80
		focused := fmt.Sprintf(`((e) => (e.getAttribute('aria-label') ?? e.innerText ?? '').trim() === %q)(document.activeElement)`, name)
		for range most {
			press("\t")
			if !browsertest.Eval[bool](tab, t, `((e) => e === document.body || getComputedStyle(e).outlineStyle !== 'none')(document.activeElement)`) {
				t.Errorf("the focus cannot be seen: %s", browsertest.Eval[string](tab, t, `document.activeElement.outerHTML.slice(0, 200)`))
			}
			if browsertest.Eval[bool](tab, t, focused) {
				return
			}
		}
		t.Fatalf("%q is not reached in %d steps: %s", name, most, browsertest.Eval[string](tab, t, state))
	}

	await(`document.querySelector('textarea') !== null`)
	reach("Your message")
	press("asking")
	press("\r")
	await(`[...document.querySelectorAll('button')].some((b) => b.textContent.trim() === 'Allow')`)
	reach("Allow")
	press("\r")
	await(`document.body.dataset.connection === 'complete' && document.body.dataset.status === 'ended'`)

	reach("Sessions")
	press("\r")
	await(`location.pathname === '/inspect' && document.querySelectorAll('a.whole').length === 1`)
	press("j")
	await(`document.activeElement.matches('a.whole')`)
	press("\r")
	await(`location.pathname.startsWith('/inspect/s/') && document.body.dataset.connection === 'complete'`)
	for i, name := range []string{"Conversation", "Timeline", "State", "Records", "Wire", "Delivery"} {
		press(strconv.Itoa(i + 1))
		await(fmt.Sprintf(`document.querySelector('[role=tab][aria-selected=true]')?.innerText.trim() === %q`, name))
	}
	// A key that comes before the next frame.
	browsertest.Eval[bool](tab, t, `(async () => {
		for (const key of ['2', 'j', 'j']) {
			document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
			for (let i = 0; i < 10; i++) await null;
		}
		return true;
	})()`)
	await(`document.querySelector('.detail') !== null && document.querySelectorAll('.line')[1].matches('.selected')`)
	at := browsertest.Eval[string](tab, t, `document.body.dataset.position`)
	press(",")
	await(`new URLSearchParams(location.search).get('at') !== null`)
	press("e")
	await(fmt.Sprintf(`new URLSearchParams(location.search).get('at') === null && document.body.dataset.position === %q`, at))
	press("/")
	await(`document.activeElement.getAttribute('aria-label') === 'Find in this session'`)
	press("\b") // the driver sends the letter of a key that the page has prevented
	press("permission")
	await(`document.querySelectorAll('.hits mark').length > 0`)
	reach("Fork")
	press("\r")
	await(`document.querySelector('dialog[open]') !== null && document.querySelector('dialog[open]').contains(document.activeElement)`)
	press("\x1b")
	await(`document.querySelector('dialog[open]') === null`)
	press("s")
	await(`document.querySelector('dialog[open]') !== null`)
	// Esc and a key that come before the event of the closed dialog, for the same dialog and for another one.
	for _, next := range []struct{ key, dialog string }{{"s", "Share this session"}, {"f", "Fork this session"}} {
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`(async () => {
			document.querySelector('dialog[open]').requestClose();
			for (let i = 0; i < 10; i++) await null;
			return document.body.dispatchEvent(new KeyboardEvent('keydown', { key: %q, bubbles: true }));
		})()`, next.key))
		await(fmt.Sprintf(`document.querySelector('dialog[open]')?.ariaLabel === %q`, next.dialog))
	}
	press("\x1b")
	await(`document.querySelector('dialog[open]') === null`)
}
