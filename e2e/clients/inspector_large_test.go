//go:build e2e

package clients

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/producers"
)

// The page opens a step of 10,000 calls and 32 levels of sub-agents, has few elements for the rows, and shows the last of both.
func TestInspectorWideAndDeep(t *testing.T) {
	w := newEnv(t)
	url := w.inspected()
	const calls, levels = 10_000, 32
	wide := w.start("wide")
	w.emit(wide, chunk.StepStart{})
	for n := range calls {
		id := fmt.Sprint("c", n)
		w.emit(wide, chunk.ToolStart{ToolCallID: id, ToolName: fmt.Sprint("tool-", n), Arguments: chunk.Value(`{}`)}, chunk.ToolEnd{ToolCallID: id, ToolName: fmt.Sprint("tool-", n), Result: chunk.Value(`1`)})
	}
	w.end(wide)
	open := []*producers.Run{w.start("deep")}
	for n := range levels {
		parent := open[len(open)-1]
		w.emit(parent, chunk.StepStart{})
		child, err := parent.Child(t.Context(), chunk.SubagentStart{SubAgentType: "writer", SubSessionID: fmt.Sprint("level-", n+1), CallID: "c"}, chunk.RunStarted{Mode: "execute"})
		w.must(err)
		open = append(open, child)
	}
	w.emit(open[levels], chunk.TextDelta{Delta: "at the bottom"})
	for n := levels; n >= 0; n-- {
		w.end(open[n])
	}

	tab := browsertest.Start(t)
	browsertest.WatchConsole(tab, t, func(line string) { t.Errorf("console: %s", line) })
	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/wide?tab=timeline")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete' && document.querySelectorAll('.line').length > 5`, shown)
	browsertest.Eval[bool](tab, t, `(() => {
		const box = [...document.querySelectorAll('*')].find((e) => e.scrollHeight > 100000 && e.clientHeight > 0);
		box.scrollTop = box.scrollHeight;
		return true;
	})()`)
	browsertest.Await(tab, t, `document.body.innerText.includes('tool-9999')`, shown)
	if rows := browsertest.Eval[int](tab, t, `document.querySelectorAll('.line').length`); rows > 200 {
		t.Errorf("%d rows are elements of the page", rows)
	}

	w.must(chromedp.Do(tab, chromedp.EmulateViewport(1280, 4000)))
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/deep?tab=timeline")))
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete' && document.body.innerText.includes('at the bottom')`, shown)
	if levels := browsertest.Eval[int](tab, t, `document.querySelectorAll('[data-kind="subagent"]').length`); levels != 32 {
		t.Errorf("%d sub-agents are shown, want 32", levels)
	}
	w.must(chromedp.Do(tab, chromedp.Navigate(url+"/inspect/s/deep?tab=conversation")))
	// Deeper levels are closed at first.
	browsertest.Await(tab, t, `(document.querySelectorAll('details').forEach((part) => (part.open = true)), document.body.innerText.includes('at the bottom'))`, shown)
	if browsertest.Eval[bool](tab, t, `document.documentElement.scrollWidth > innerWidth`) {
		t.Error("the conversation is wider than the page")
	}
}
