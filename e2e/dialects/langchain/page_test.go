//go:build e2e

package langchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/demo/script"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/workers"
)

const shown = `JSON.stringify(window.shown ?? null)`

// page is a browser with the page of page.mjs, and an agent that does what the message of the user names.
type page struct {
	*edge

	browser context.Context
	release chan struct{} // continues the agent of "wait"
}

func newPage(t *testing.T) *page {
	t.Helper()
	text := client.Page(t, "page.mjs", nil)
	p := &page{release: make(chan struct{})}
	p.edge = newEdgeWith(t, nil, map[string]workers.Agent{script.AgentType: workers.AgentFunc(p.answer)}, func(front http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, text) // to a browser of the test
		})
		mux.Handle("/", front)
		return mux
	})
	p.browser = browsertest.Start(t)
	browsertest.WatchConsole(p.browser, t, func(line string) { t.Log("console:", line) })
	return p
}

// answer is the agent.
func (p *page) answer(ctx context.Context, turn *workers.Turn) error {
	in := turn.Input()
	words, first := in[len(in)-1].Content, turn.Steps() == 0
	return turn.Step(ctx, func(ctx context.Context, step *workers.Step) error {
		switch {
		case words == "wait" && first:
			if err := step.Text(ctx, "Hel"); err != nil {
				return err
			}
			select {
			case <-p.release:
			case <-ctx.Done():
				return ctx.Err()
			}
			step.MarkFinal()
			return step.Text(ctx, "lo")
		case words == "where" && first:
			return errors.Join(step.Text(ctx, "Let me look."), step.ClientTool("c1", "browser").AskClient(ctx, map[string]any{"exact": true}, time.Time{}))
		case words == "delete" && first:
			return errors.Join(step.Text(ctx, "Shall I?"), step.Tool("c1", "delete").AskApproval(ctx, map[string]any{"all": true}, time.Time{}))
		}
		for _, call := range step.ApprovedCalls() {
			if err := call.End(ctx, map[string]any{"deleted": 3}); err != nil {
				return err
			}
		}
		step.MarkFinal()
		return step.Text(ctx, "Done: "+words)
	})
}

// open opens the page of a thread in a tab.
func (p *page) open(t *testing.T, tab context.Context, thread string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(p.url+"/page#"+thread)); err != nil {
		t.Fatal(err)
	}
	browsertest.Await(tab, t, `window.shown !== undefined && !window.shown.thread`, shown)
}

// reload reloads the page in a tab. Navigation would keep the connections of the page for the way back, of which a browser has six.
func reload(t *testing.T, tab context.Context) {
	t.Helper()
	browsertest.Eval[bool](tab, t, `(window.old = true, setTimeout(() => location.reload()), true)`)
	browsertest.Await(tab, t, `window.old === undefined && window.shown !== undefined && !window.shown.thread`, shown)
}

// say sends a message when the page has noted the end of the answer before it: until then the hook may take that end for the one of the new answer.
func say(t *testing.T, tab context.Context, words string) {
	t.Helper()
	browsertest.Eval[bool](tab, t, fmt.Sprintf(`(window.sent ?? Promise.resolve()).then(() => {
		window.sent = window.stream.submit({ messages: [{ type: 'human', content: %q }] });
		return true;
	})`, words))
}

// texts waits until a tab shows messages, each as its type and its text.
func texts(t *testing.T, tab context.Context, loading bool, want ...string) {
	t.Helper()
	browsertest.Await(tab, t, fmt.Sprintf(`window.shown.loading === %t && window.shown.error === '' && window.shown.messages.map((m) => m.type + ' ' + m.text).join('|') === %q`, loading, strings.Join(want, "|")), shown)
}

func (p *page) tab(t *testing.T) context.Context {
	t.Helper()
	tab, cancel := chromedp.NewContext(p.browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil { // the tab closes when the context of its first use ends
		t.Fatal(err)
	}
	return tab
}

// A page sends messages, and another tab shows the same. Both show the same after a reload in the middle of the answer.
func TestPageReload(t *testing.T) {
	p := newPage(t)
	p.open(t, p.browser, "r")
	say(t, p.browser, "hi")
	texts(t, p.browser, false, "human hi", "ai Done: hi")
	say(t, p.browser, "wait")
	texts(t, p.browser, true, "human hi", "ai Done: hi", "human wait", "ai Hel")
	second := p.tab(t)
	p.open(t, second, "r")
	texts(t, second, true, "human hi", "ai Done: hi", "human wait", "ai Hel")
	reload(t, p.browser)
	texts(t, p.browser, true, "human hi", "ai Done: hi", "human wait", "ai Hel")
	p.release <- struct{}{}
	for _, tab := range []context.Context{p.browser, second} {
		texts(t, tab, false, "human hi", "ai Done: hi", "human wait", "ai Hello")
	}
	say(t, second, "bye")
	texts(t, second, false, "human hi", "ai Done: hi", "human wait", "ai Hello", "human bye", "ai Done: bye")
	texts(t, p.browser, false, "human hi", "ai Done: hi", "human wait", "ai Hello", "human bye", "ai Done: bye")
}

// A page stops an answer, whose text stays, and sends another message.
func TestPageStop(t *testing.T) {
	p := newPage(t)
	p.open(t, p.browser, "s")
	say(t, p.browser, "wait")
	texts(t, p.browser, true, "human wait", "ai Hel")
	browsertest.Eval[bool](p.browser, t, `window.stream.stop().then(() => true)`)
	browsertest.Await(p.browser, t, `!window.shown.loading`, shown)
	browsertest.Await(p.browser, t, `fetch('/api/langgraph/threads/s/state').then((r) => r.json()).then((s) => { window.next = s.next; }), window.next?.length === 0`, `JSON.stringify(window.next ?? null)`)
	say(t, p.browser, "hi")
	browsertest.Await(p.browser, t, `!window.shown.loading && window.shown.messages.at(-1).text === 'Done: hi'`, shown)
}

// A user approves a call after a reload, and a tool runs in the page.
func TestPageAnswers(t *testing.T) {
	p := newPage(t)
	p.open(t, p.browser, "a")
	say(t, p.browser, "delete")
	browsertest.Await(p.browser, t, `window.shown.interrupts.length === 1 && !window.shown.loading`, shown)
	reload(t, p.browser)
	browsertest.Await(p.browser, t, `window.shown.interrupts.length === 1 && !window.shown.loading`, shown)
	browsertest.Eval[bool](p.browser, t, `(window.stream.respond({ decisions: [{ type: "approve" }] }, { interruptId: window.stream.interrupts[0].id }), true)`)
	texts(t, p.browser, false, "human delete", "ai Shall I?", `tool {"deleted":3}`, "ai Done: delete")
	browsertest.Await(p.browser, t, `window.shown.interrupts.length === 0`, shown)
	say(t, p.browser, "where")
	texts(t, p.browser, false, "human delete", "ai Shall I?", `tool {"deleted":3}`, "ai Done: delete", "human where", "ai Let me look.", `tool {"zone":"Europe/Lisbon","exact":true}`, "ai Done: where")
}
