//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// A user forks a session at a call, with another result of it and a message. The page shows the fork, which the agent answers, and compares it with its origin.
func TestInspectorForks(t *testing.T) {
	u := newUp(t, "--demo", "0", "--allow-delete")
	u.start(t)
	origin := startDemo(t, u.url, "parallel")
	tab := openTab(t, browsertest.Start(t), u.url+"/inspect/s/"+origin)
	const state = `JSON.stringify(document.body.dataset) + document.body.innerText`
	click := func(selector string) {
		t.Helper()
		browsertest.Await(tab, t, `document.querySelector('`+selector+`') !== null`, state)
		browsertest.Eval[bool](tab, t, `document.querySelector('`+selector+`').click() === undefined`)
	}
	enter := func(selector, text string) {
		t.Helper()
		browsertest.Await(tab, t, `document.querySelector('`+selector+`') !== null`, state)
		browsertest.Eval[bool](tab, t, `(() => {
			const field = document.querySelector('`+selector+`');
			field.value = '`+text+`';
			return field.dispatchEvent(new Event('input', { bubbles: true }));
		})()`)
	}
	run(t, tab, chromedp.EmulateViewport(1280, 2000))
	browsertest.Await(tab, t, `document.body.dataset.status === 'ended'`, state)
	click(`[data-kind="call"]`)
	click(`.detail .acts button:nth-child(2)`)
	click(`.dialog [type=checkbox]`)
	enter(`.dialog textarea`, `{"edited": `)
	click(`.dialog fieldset label:nth-of-type(2) input`)
	enter(`.dialog label:last-of-type textarea`, `plain`)
	click(`.dialog .main`)
	browsertest.Await(tab, t, `document.querySelector('.dialog .failure')?.textContent === 'The result is not JSON.'`, state)
	enter(`.dialog textarea`, `{"edited": 12345678901234567890}`)
	click(`.dialog .main`)
	browsertest.Await(tab, t, `location.pathname.startsWith('/inspect/s/fork-') && document.body.dataset.status === 'ended' && document.querySelector('[data-kind="forked"]') !== null`, state)
	snapshot := browsertest.Eval[string](tab, t, `fetch(location.pathname.replace('/inspect/s/', '/v1/sessions/') + '/snapshot').then((r) => r.text())`)
	for _, want := range []string{`{"edited":12345678901234567890}`, `"` + origin + `"`} {
		if !strings.Contains(strings.ReplaceAll(snapshot, ": ", ":"), want) {
			t.Errorf("the fork lacks %s: %.2000s", want, snapshot)
		}
	}
	click(`.above a[href*="/inspect/compare"]`)
	browsertest.Await(tab, t, `document.querySelectorAll('.side .badge').length === 2 && document.querySelector('.options [role=status]')?.textContent.startsWith('Difference 1 of') && document.querySelector('.options').innerText.includes('in common, up to #')`, state)

	// A fork without a message has no run, and is not shown as one that runs.
	open(t, tab, u.url+"/inspect/s/"+origin)
	browsertest.Await(tab, t, `location.pathname.endsWith('`+origin+`') && document.querySelectorAll('[data-kind="call"]').length > 0`, state)
	click(`[aria-label=Actions] button`)
	click(`.dialog .main`)
	browsertest.Await(tab, t, `location.pathname.startsWith('/inspect/s/fork-') && document.querySelectorAll('.line').length === 1 && document.body.dataset.status === 'ended'`, state)

	// The list has the forks of a session.
	open(t, tab, u.url+"/inspect?origin="+origin)
	browsertest.Await(tab, t, `document.querySelectorAll('a.whole').length === 2 && document.querySelector('.under').innerText.includes('fork of')`, state)

	// The deletion of the session takes them along.
	fork := browsertest.Eval[string](tab, t, `document.querySelector('a.whole').getAttribute('href').split('/').pop()`)
	open(t, tab, u.url+"/inspect/s/"+origin)
	click(`[aria-label=Actions] button:last-of-type`)
	browsertest.Await(tab, t, `document.querySelector('.dialog [type=checkbox]')?.checked === true`, state)
	enter(`.dialog input`, origin)
	click(`.dialog .danger:enabled`)
	browsertest.Await(tab, t, `location.pathname === '/inspect' && location.search === ''`, state)
	if got := browsertest.Eval[int](tab, t, `fetch('/v1/sessions/`+fork+`/snapshot').then((r) => r.status)`); got != 404 {
		t.Errorf("the fork: %d", got)
	}
}
