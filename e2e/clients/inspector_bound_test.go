//go:build e2e

package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/producers"
)

// inspectedWithBound returns the address of an edge whose page has another bound of the records in its memory.
func (w *env) inspectedWithBound(bound string) string {
	w.t.Helper()
	return w.inspectedBehind(func(edge http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/inspect/main.js" {
				edge.ServeHTTP(rw, r)
				return
			}
			kept := httptest.NewRecorder()
			edge.ServeHTTP(kept, httptest.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Path, http.NoBody))
			script := kept.Body.String()
			if n := strings.Count(script, "2e5"); n != 1 {
				w.t.Errorf("the script has the bound %d times", n)
			}
			rw.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(rw, strings.Replace(script, "2e5", bound, 1))
		})
	})
}

// writeRounds writes calls, four records for each.
func (w *env) writeRounds(run *producers.Run, from, to int) {
	w.t.Helper()
	for n := from; n < to; n++ {
		id := fmt.Sprint("c", n)
		w.emit(run,
			chunk.StepStart{}, chunk.TextDelta{Delta: fmt.Sprintf("text %d.", n)}, chunk.ToolStart{ToolCallID: id, ToolName: "look", Arguments: chunk.Value(`{}`)},
			chunk.ToolEnd{ToolCallID: id, ToolName: "look", Result: chunk.Value(fmt.Sprint(n))},
		)
	}
}

// A page of a session with more records than its bound has the latest ones, and a sentence that says it, also in a file. A page that was open while they were written shows the same as one
// that is opened later, and follows what comes.
func TestInspectorIsBounded(t *testing.T) {
	w := newEnv(t)
	url := w.inspectedWithBound("200")
	run := w.start("s")
	early := chunk.Value(`"early"`)
	w.emit(run, chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/mark", Value: &early}}})
	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) { t.Errorf("console: %s", line) })
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 4000)))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=timeline")))
	browsertest.Await(tab, t, `document.querySelectorAll('.line').length > 0 && document.querySelector('.notice') === null`, shown)
	w.writeRounds(run, 0, 150)
	browsertest.Await(tab, t, `document.querySelector('.notice')?.textContent.includes('at most the latest 200 records') && document.body.innerText.includes('text 149.')`, shown)
	w.writeRounds(run, 150, 153)
	browsertest.Await(tab, t, `document.body.innerText.includes('text 152.')`, shown)
	w.end(run)
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, shown)

	all := w.Records(session("s"))
	left := len(all)
	for left > 200 {
		left -= 100
	}
	texts := func() map[string]string {
		texts := map[string]string{"notice": browsertest.Eval[string](tab, t, `[...document.querySelectorAll('.notice')].at(-1).textContent`)}
		for _, name := range []string{"timeline", "conversation", "records", "delivery"} {
			texts[name] = tabText(tab, t, name)
		}
		return texts
	}
	want := texts()
	if !strings.Contains(want["notice"], fmt.Sprintf("up to #%d are", all[len(all)-left-1].Seq)) || !strings.Contains(want["records"], fmt.Sprintf("%d of %d", left, left)) {
		t.Errorf("the page says %q and shows\n%.300s\nwant %d of %d records", want["notice"], want["records"], left, len(all))
	}
	if strings.Contains(want["conversation"], "text 1.") || !strings.Contains(want["conversation"], "text 152.") {
		t.Errorf("the conversation is\n%s", want["conversation"])
	}
	browsertest.Eval[bool](tab, t, `document.getElementById('tab-state').click() === undefined`)
	browsertest.Await(tab, t, `document.querySelector('.state .json')?.textContent.includes('early')`, shown) // its record is not in the page
	compare := func(what string) {
		t.Helper()
		for name, text := range texts() {
			if text != want[name] {
				t.Errorf("%s, %s:\n%.2000s\nand the page that was open\n%.2000s", what, name, text, want[name])
			}
		}
	}
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=timeline")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, shown)
	compare("opened later")

	browsertest.Eval[bool](tab, t, `(() => {
		window.made = [];
		const make = URL.createObjectURL;
		URL.createObjectURL = (blob) => (window.made.push(blob), make.call(URL, blob));
		return true;
	})()`)
	press(tab, t, "Export")
	browsertest.Await(tab, t, fmt.Sprintf(`document.querySelector('.dialog')?.innerText.includes('%d records, those after #')`, left), shown)
	press(tab, t, "One HTML file")
	browsertest.Await(tab, t, `window.made.length === 1 && document.querySelector('dialog') === null`, shown)
	file := filepath.Join(t.TempDir(), "session.html")
	w.must(os.WriteFile(file, []byte(browsertest.Eval[string](tab, t, `window.made[0].text()`)), 0o600))
	w.must(chromedp.Do(tab, chromedp.Navigate("file://"+file)))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'file'`, shown)
	compare("in a file")

	// An earlier position has no record in the page.
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/s?tab=timeline&at=5")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete' && document.querySelector('.notice') !== null && document.querySelectorAll('.line').length === 0`, shown)
}
