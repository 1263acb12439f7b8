//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/e2e/dialects/npm"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// A page of another site with useStream of @langchain/react sends a message. The whole binary is killed in the middle of the answer and starts again: the page shows
// the whole answer, and so does a page that is opened afterwards. The SDK is newer than the one of @langchain/react 1.1.0, which keeps the text of the attempt that was
// removed until the page is loaded again.
func TestLangChainPageAfterKill(t *testing.T) {
	packages := npm.Program{Name: "langchain", Packages: "dialects/langchain/packages"}
	html := packages.Page(t, "dialects/langchain/page.mjs", map[string]string{"@langchain/langgraph-sdk": "@langchain/langgraph-sdk/dist"})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, html) // to a browser of the test
	}))
	t.Cleanup(site.Close)
	u := newUp(t, "--demo", "0.3", "--cors-origins", site.URL)
	u.start(t)
	browser := browsertest.Start(t)
	page := site.URL + "/?" + u.url + "#killed"
	const state = `JSON.stringify(window.shown ?? null)`
	tab := openTab(t, browser, page)
	browsertest.Await(tab, t, `window.shown !== undefined && !window.shown.thread`, state)
	run(t, tab, chromedp.Evaluate[bool](`(window.stream.submit({ messages: [{ type: 'human', content: 'What is an event log?' }] }), true)`))
	browsertest.Await(tab, t, `window.shown.messages.at(-1)?.type === 'ai' && window.shown.messages.at(-1).text.length > 60`, state)
	u.kill(t)
	cut := run(t, tab, chromedp.Evaluate[int](`window.shown.messages.at(-1).text.length`))
	u.start(t)
	browsertest.Await(tab, t, `!window.shown.loading && window.shown.error === '' && window.shown.messages.length === 2`, state)
	want := awaitLog(t, u, "killed")["killed"]
	if len(want) <= cut {
		t.Errorf("the process was killed after the answer: %d of %d bytes", cut, len(want))
	}
	later := openTab(t, browser, page)
	for _, tab := range []context.Context{tab, later} {
		browsertest.Await(tab, t, fmt.Sprintf(`window.shown?.messages.at(-1)?.text === %q`, want), state)
	}
}
