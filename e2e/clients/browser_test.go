//go:build e2e

package clients

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// shownAgent is what the page shows of an agent.
type shownAgent struct {
	Status string
	Text   string
	Tools  []string
}

// TestPageInChromium shows a tree in a page that imports the package as it is published. The connection is cut at random bytes, and the page is reloaded in the
// middle: at the end it shows what is in the log.
func TestPageInChromium(t *testing.T) {
	b, w, r := newClient(t), newEnv(t), seedtest.Rand(t)
	edge := w.edge(nil, map[string]http.Handler{
		"/client/": http.StripPrefix("/client/", http.FileServer(http.Dir(b.pkg))),
		"/page":    http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) { http.ServeFile(rw, req, "page.html") }),
	})
	proxy := newCutter(t, []string{edge}, rand.New(rand.NewPCG(r.Uint64(), 0)), 0)
	const linger = 250 * time.Millisecond // a page that reads later loses what it has not read, and must get further each time
	run := w.start("s")
	w.emit(run, chunk.ToolStart{ToolCallID: "c1", ToolName: "call_writer", Arguments: chunk.Value(`{}`)})
	child, err := run.Child(t.Context(), chunk.SubagentStart{SubAgentType: "writer", SubSessionID: "s_child", CallID: "c1"}, chunk.RunStarted{Mode: "execute"})
	w.must(err)
	texts := map[string]*strings.Builder{"s": {}, "s_child": {}}
	write := func(n int) {
		for i := range n {
			to, session := run, "s"
			if r.IntN(2) == 0 {
				to, session = child, "s_child"
			}
			piece := fmt.Sprintf("%d é🌊 ", i)
			texts[session].WriteString(piece)
			w.emit(to, chunk.TextDelta{Delta: piece}, chunk.Custom{EventName: "note"}) // so that pieces are not merged
		}
	}
	shows := func(n int) string { return fmt.Sprintf("window.shown && shown.agents.s_child.text.length > %d", n) }

	tab := browsertest.Start(t)
	w.must(chromedp.Do(tab, chromedp.Navigate(proxy.url+"/page")))
	write(300)
	browsertest.Await(tab, t, shows(0), "document.body.innerText")
	proxy.setLimit(12_000, linger)
	proxy.cutAll()
	write(300)
	browsertest.Await(tab, t, shows(1500), "document.body.innerText")
	proxy.setLimit(0, 0)
	w.must(chromedp.Do(tab, chromedp.Reload()))
	proxy.setLimit(40_000, linger)
	write(300)
	w.must(run.EndChild(t.Context(), child, chunk.Value(`"done"`)))
	w.emit(run, chunk.ToolEnd{ToolCallID: "c1", ToolName: "call_writer", Result: chunk.Value(`"done"`)})
	browsertest.Await(tab, t, `window.shown && shown.agents.s.tools[0] === "call_writer done s_child"`, "document.body.innerText")
	w.end(run)
	browsertest.Await(tab, t, `window.shown && shown.connection === "complete"`, "document.body.innerText")
	want := map[string]shownAgent{
		"s":       {"ended", texts["s"].String(), []string{"call_writer done s_child"}},
		"s_child": {"ended", texts["s_child"].String(), []string{}},
	}
	if got := browsertest.Eval[map[string]shownAgent](tab, t, "shown.agents"); !reflect.DeepEqual(got, want) {
		t.Errorf("the page shows\n%+v\nwant\n%+v", got, want)
	}
	if proxy.count() < 5 {
		t.Errorf("%d cuts, want more", proxy.count())
	}
}
