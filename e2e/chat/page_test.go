//go:build e2e

package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// page is a tab with a chat.
type page struct {
	t    *testing.T
	tab  context.Context
	chat string
	url  string
}

// openPage opens a chat in a new tab. Every error on its console fails the test.
func openPage(t *testing.T, browser context.Context, url, chat string) *page {
	t.Helper()
	p := newPage(t, browser, url, chat)
	// The status is "ready" at first, and "streaming" soon after in a chat whose answer is being written.
	p.await(`document.querySelector('main')?.dataset.status !== undefined`)
	return p
}

func newPage(t *testing.T, browser context.Context, address, chat string, opts ...chromedp.ContextOption) *page {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser, opts...)
	t.Cleanup(cancel)
	p := &page{t: t, tab: tab, chat: chat, url: address + "/#" + url.PathEscape(chat)}
	// The context of the first action is the lifetime of the tab.
	if err := chromedp.Do(tab, chromedp.Navigate(p.url)); err != nil {
		t.Fatalf("chromium: %s: %v", p.url, err)
	}
	p.listen()
	return p
}

func (p *page) listen() {
	browsertest.WatchConsole(p.tab, p.t, func(line string) {
		if isComplaint(line) {
			p.t.Errorf("console error: %s", line)
		}
	})
}

// isComplaint reports whether a line of the console is an error of the page
// itself: requests fail because the tests make them fail.
func isComplaint(line string) bool {
	for _, prefix := range []string{"debug:", "info:", "log:"} {
		if strings.HasPrefix(line, prefix) {
			return false
		}
	}
	return !strings.Contains(line, "Failed to load resource") && !strings.Contains(line, "net::ERR_")
}

func (p *page) reload() {
	p.t.Helper()
	if err := chromedp.Do(p.tab, chromedp.Reload()); err != nil {
		p.t.Fatalf("reload: %v", err)
	}
}

// bubble is a message as shown.
type bubble struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Text  string   `json:"text"`
	Calls []string `json:"calls"` // "delete output-available"
}

func (p *page) bubbles() []bubble {
	p.t.Helper()
	text := eval[string](p, `JSON.stringify([...document.querySelectorAll('.message')].map((m) => ({
		id: m.dataset.message, role: m.dataset.role,
		text: [...m.querySelectorAll('.text')].map((e) => e.textContent).join(''),
		calls: [...m.querySelectorAll('.call')].map((c) => c.dataset.call + ' ' + c.dataset.state),
	})))`)
	var all []bubble
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		p.t.Fatal(err)
	}
	return all
}

// awaitBubbles waits until the page shows the wanted bubbles.
func (p *page) awaitBubbles(want []bubble) {
	p.t.Helper()
	natstest.Eventually(p.t, fmt.Sprintf("a page with %+v", want), func(context.Context) error {
		if got := p.bubbles(); !equal(got, want) {
			return fmt.Errorf("it shows %+v", got)
		}
		return nil
	})
}

// send types a message and sends it.
func (p *page) send(text string) {
	p.t.Helper()
	p.write(text)
	p.click("#send")
}

// write sets the text of the input field, as typing does.
func (p *page) write(text string) {
	p.t.Helper()
	p.await(`document.querySelector('#draft') !== null`)
	eval[bool](p, fmt.Sprintf(`(() => {
		const field = document.querySelector('#draft');
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, %q);
		return field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`, text))
}

func (p *page) click(selector string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.querySelector(%[1]q)?.disabled === false`, selector))
	eval[bool](p, fmt.Sprintf(`document.querySelector(%q).click() === undefined`, selector))
}

// decide clicks a button of the open approval request.
func (p *page) decide(label string) {
	p.t.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll('.decision button')].find((b) => b.textContent === %q)`, label)
	p.await(find + ` !== undefined`)
	eval[bool](p, find+`.click() === undefined`)
}

func (p *page) awaitStatus(status string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.querySelector('main')?.dataset.status === %q`, status))
}

// awaitText waits until the last bubble contains a text.
func (p *page) awaitText(part string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`[...document.querySelectorAll('.message')].at(-1)?.textContent.includes(%q) === true`, part))
}

// awaitRest waits until the page has been idle for fifteen frames without a new
// request. A page that sends requests in a loop never becomes idle.
func (p *page) awaitRest(f *front) {
	p.t.Helper()
	for range 20 {
		p.awaitStatus("ready")
		posts, gets := f.requests()
		eval[int](p, `new Promise((done) => { let n = 0; const next = () => ++n < 15 ? requestAnimationFrame(next) : done(n); next(); })`)
		if now, nowGets := f.requests(); len(now) == len(posts) && nowGets == gets && eval[bool](p, `document.querySelector('main').dataset.status === 'ready'`) {
			return
		}
	}
	posts, gets := f.requests()
	p.t.Fatalf("the page is not idle: %d POSTs %v, %d GETs", len(posts), posts, gets)
}

// await waits until an expression is true.
func (p *page) await(expression string) {
	p.t.Helper()
	browsertest.Await(p.tab, p.t, expression, `document.body.innerText + '\n' + (document.querySelector('main')?.dataset.status ?? 'no main')`)
}

func eval[T any](p *page, expression string) T {
	p.t.Helper()
	return browsertest.Eval[T](p.tab, p.t, expression)
}
