//go:build e2e

package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// The search finds texts, inputs and results; n and p select their nodes. Under a view it finds nothing that the view hides, and neither does any tab show it.
func TestInspectorFindsUnderAView(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	run := w.start("s")
	w.emit(run,
		chunk.StepStart{}, chunk.TextDelta{Delta: "The Parcel is here."}, chunk.Thinking{Content: "parcel, hidden", IsComplete: true},
		chunk.ToolStart{ToolCallID: "c1", ToolName: "look", Arguments: chunk.Value(`{"q":"parcel, hidden"}`)},
		chunk.ToolEnd{ToolCallID: "c1", ToolName: "look", Result: chunk.Value(`"hidden"`)},
	)
	w.end(run)
	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) {
		if !strings.Contains(line, "400") { // of the unknown view
			t.Errorf("console: %s", line)
		}
	})
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, shown)
	keyOf(tab, t, "/")
	browsertest.Await(tab, t, `document.activeElement?.matches('.find input')`, shown)
	enter(tab, t, ".find input", "PARCEL")
	browsertest.Await(tab, t, `document.querySelectorAll('.hits li').length === 3 && document.querySelector('.hits mark').textContent === 'Parcel'`, shown)
	for _, want := range []string{"1 of 3", "2 of 3", "3 of 3", "1 of 3"} {
		keyOf(tab, t, "n")
		browsertest.Await(tab, t, fmt.Sprintf(`document.querySelector('.find [role=status]').textContent === %q && document.querySelector('.detail') !== null`, want), shown)
	}
	keyOf(tab, t, "p")
	browsertest.Await(tab, t, `document.querySelector('.find [role=status]').textContent === '3 of 3' && document.querySelector('.detail').innerText.includes('look')`, shown)

	browsertest.Eval[bool](tab, t, `(() => {
		const menu = document.querySelector('.view-menu select');
		menu.value = 'public';
		return menu.dispatchEvent(new Event('change', { bubbles: true }));
	})()`)
	browsertest.Await(tab, t, `location.search.includes('view=public') && document.body.dataset.connection === 'complete' && document.querySelectorAll('.hits li').length === 1`, shown)
	enter(tab, t, ".find input", "")
	for _, name := range []string{"conversation", "timeline", "records", "state", "wire", "delivery"} {
		tabText(tab, t, name)
		if name == "wire" {
			browsertest.Await(tab, t, `document.querySelector('.wire [role=status]').textContent.includes('ended')`, shown)
		}
		if text := browsertest.Eval[string](tab, t, `document.getElementById('panel').innerText`); strings.Contains(text, "hidden") || text == "" {
			t.Errorf("%s shows what the view hides, or nothing: %s", name, text)
		}
	}
	browsertest.Await(tab, t, `document.querySelector('.view-menu').innerText.includes('everything') && [...document.querySelectorAll('.view-menu option')].map((o) => o.value).join() === ',empty,public'`, shown)
	// A view that does not exist is refused, and the menu offers the others.
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?view=gone")))
	browsertest.Await(tab, t, `document.querySelector('.card[role=alert]')?.innerText.includes('no such view') && document.querySelectorAll('.view-menu option').length === 4`, shown)
}

// Under a view that shows no content no tab, no search, no comparison and no file has a text of the session: neither on the screen nor in an attribute.
func TestInspectorUnderAnEmptyView(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	const secret = "zzsecret"
	for _, id := range []string{"s", "t"} {
		w.writeTexts(id, []string{secret})
	}
	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) { t.Errorf("console: %s", line) })
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 4000)))
	check := func(where, text string) {
		t.Helper()
		for _, hidden := range []string{secret, "question"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s has %q: %.2000s", where, hidden, text)
			}
		}
		if len(text) < 100 {
			t.Errorf("%s has only %q", where, text)
		}
	}
	const document = `document.title + document.documentElement.outerHTML`
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=timeline")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, shown)
	if all := browsertest.Eval[string](tab, t, document); strings.Count(all, secret) < 5 || !strings.Contains(all, "question") {
		t.Fatalf("without a view the page has the secret %d times", strings.Count(all, secret))
	}
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?view=empty&tab=timeline")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete' && document.querySelectorAll('.line').length > 0`, shown)
	for _, name := range []string{"conversation", "timeline", "state", "records", "wire", "delivery"} {
		tabText(tab, t, name)
		if name == "wire" {
			browsertest.Await(tab, t, `document.querySelector('.wire [role=status]').textContent.includes('ended')`, shown)
		}
		check(name, browsertest.Eval[string](tab, t, document))
	}
	tabText(tab, t, "timeline")
	for n := range browsertest.Eval[int](tab, t, `document.querySelectorAll('.line').length`) {
		browsertest.Eval[bool](tab, t, fmt.Sprintf(`document.querySelectorAll('.line')[%d].click() === undefined`, n))
		browsertest.Await(tab, t, fmt.Sprintf(`document.querySelectorAll('.line')[%d].classList.contains('selected') && document.querySelector('.detail') !== null`, n), shown)
		check(fmt.Sprint("row ", n), browsertest.Eval[string](tab, t, document))
	}
	enter(tab, t, ".find input", secret)
	browsertest.Await(tab, t, `document.querySelector('.find [role=status]').textContent === 'not found'`, shown)
	browsertest.Eval[bool](tab, t, `(() => {
		window.made = [];
		const make = URL.createObjectURL;
		URL.createObjectURL = (blob) => (window.made.push(blob), make.call(URL, blob));
		return true;
	})()`)
	for n, button := range []string{"One HTML file", "JSON lines"} {
		press(tab, t, "Export")
		press(tab, t, button)
		browsertest.Await(tab, t, fmt.Sprintf(`window.made.length === %d && document.querySelector('dialog') === null`, n+1), shown)
		check(button, browsertest.Eval[string](tab, t, fmt.Sprintf(`window.made[%d].text()`, n)))
	}
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/compare?a=s&b=t&view=empty")))
	browsertest.Await(tab, t, `document.querySelector('.options [role=status]')?.textContent.includes('ifference')`, shown)
	check("the comparison", browsertest.Eval[string](tab, t, document))
}
