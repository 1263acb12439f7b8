//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// A page that was open during the run, one that was reloaded in the middle, and one that is opened afterwards show the same in each tab, and the text of the log: for
// scenarios of the demo agent, with kill -9 of the whole binary in the middle.
func TestInspectorIsExact(t *testing.T) {
	u := newUp(t, "--demo", "0.1")
	u.start(t)
	browser := browsertest.Start(t)
	type open struct {
		name, session, page string
		live                context.Context
	}
	var all []open
	for _, scenario := range []string{"tour", "subagents", "failing", "lifecycle"} { // the tour has what the others have
		session := startDemo(t, u.url, scenario)
		page := u.url + "/inspect/s/" + session
		all = append(all, open{scenario, session, page, openTab(t, browser, page)})
	}
	awaitSequence(t, all[0].live, 60)
	u.kill(t)
	u.start(t)
	for _, scenario := range all {
		live, page := scenario.live, scenario.page
		reloaded := openTab(t, browser, page)
		awaitSequence(t, reloaded, 0)
		run(t, reloaded, chromedp.Reload())
		browsertest.Await(live, t, `document.body.dataset.connection === 'complete' && document.body.dataset.status === 'ended'`, `JSON.stringify(document.body.dataset) + document.body.innerText`)
		later := openTab(t, browser, page)
		position := run(t, live, chromedp.Evaluate[string](`document.body.dataset.position`))
		for _, tab := range []context.Context{reloaded, later} {
			browsertest.Await(tab, t, fmt.Sprintf(`document.body.dataset.connection === 'complete' && document.body.dataset.position === %q`, position), `JSON.stringify(document.body.dataset) + document.body.innerText`)
		}
		for _, name := range []string{"conversation", "timeline", "records"} {
			want := shown(t, live, name)
			for i, tab := range []context.Context{reloaded, later} {
				if got := shown(t, tab, name); got != want || want == "" {
					t.Errorf("%s, %s, %s: the page shows\n%s\nand the one that was open\n%s", scenario.name, name, []string{"reloaded", "opened later"}[i], got, want)
				}
			}
		}
		if scenario.name == "tour" || scenario.name == "subagents" {
			shown(t, later, "conversation")
			log := awaitLog(t, u, scenario.session)
			for agent, want := range log {
				if got := textOf(t, later, agent); got != want {
					t.Errorf("%s, agent %s: the page shows\n%q\nwant the text in the log\n%q", scenario.name, agent, got, want)
				}
			}
			if len(log) < 3 {
				t.Errorf("%s: %d agents in the log, want the root and two sub-agents", scenario.name, len(log))
			}
		}
		for _, tab := range []context.Context{live, reloaded, later} {
			if err := chromedp.Cancel(tab); err != nil {
				t.Error(err)
			}
		}
	}
}

// shown returns the text of a tab of the page from its beginning, on a screen that has 500 rows of the timeline.
func shown(t *testing.T, tab context.Context, name string) string {
	t.Helper()
	run(t, tab, chromedp.EmulateViewport(1400, 15_000))
	return run(t, tab, chromedp.Evaluate[string](fmt.Sprintf(`(async () => {
		document.getElementById('tab-%s').click();
		const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
		await frame();
		document.querySelector('.virtual')?.scrollTo(0, 0);
		for (let i = 0; i < 3; i++) await frame();
		return document.querySelector('main').innerText;
	})()`, name), chromedp.EvalAwaitPromise))
}

// A visitor writes to the demo agent on the start page. The agent asks for an approval, and waits while the whole binary is killed and starts again. The visitor allows
// the call in another tab; both tabs show the result.
func TestApproval(t *testing.T) {
	u := newUp(t, "--demo", "0")
	u.start(t)
	browser := browsertest.Start(t)
	first := openTab(t, browser, u.url)
	const prompt = `[...document.querySelectorAll('.prompts button')].find((b) => b.textContent === 'You decide')`
	const state = `JSON.stringify(document.body.dataset) + document.body.innerText`
	browsertest.Await(first, t, prompt+` !== undefined`, state)
	browsertest.Eval[bool](first, t, prompt+`.click() === undefined`)
	browsertest.Await(first, t, `document.querySelector('.chat .decide') !== null && document.body.dataset.status === 'paused'`, state)
	session := browsertest.Eval[string](first, t, `location.hash.slice('#s='.length)`)
	u.kill(t)
	u.start(t)
	second := openTab(t, browser, u.url+"/inspect/s/"+session+"?tab=conversation")
	const allow = `[...document.querySelectorAll('.decide button')].find((b) => b.textContent === 'Allow')`
	browsertest.Await(second, t, allow+` !== undefined`, state)
	browsertest.Eval[bool](second, t, allow+`.click() === undefined`)
	for _, tab := range []context.Context{first, second} {
		browsertest.Await(tab, t, `document.body.dataset.status === 'ended' && document.querySelector('.decide') === null`, state)
		if text := browsertest.Eval[string](tab, t, `document.querySelector('.conversation').innerText`); !strings.Contains(text, "delete_files") || !strings.Contains(text, "Thank you.") {
			t.Errorf("the page shows %q", text)
		}
	}
}

// At a record of the past the page shows what it showed when that record was the last one.
func TestInspectorGoesBack(t *testing.T) {
	u := newUp(t, "--demo", "0.5")
	u.start(t)
	browser := browsertest.Start(t)
	page := u.url + "/inspect/s/" + startDemo(t, u.url, "parallel")
	tab := openTab(t, browser, page)
	type moment struct{ At, Text string }
	const state = `JSON.stringify(document.body.dataset) + document.body.innerText`
	var seen []moment
	for n := 10; len(seen) < 5; n += 20 {
		browsertest.Await(tab, t, fmt.Sprintf(`Number(document.body.dataset.position) > %d`, n), state)
		seen = append(seen, browsertest.Eval[moment](tab, t, `({At: /#(\d+)/.exec(document.querySelector('.connection').textContent)[1], Text: document.querySelector('.virtual').innerText})`))
	}
	browsertest.Await(tab, t, `document.body.dataset.connection === 'complete'`, state)
	for _, m := range seen {
		again := openTab(t, browser, page+"?at="+m.At)
		browsertest.Await(again, t, `document.body.dataset.connection === 'complete'`, state)
		if got := browsertest.Eval[string](again, t, `document.querySelector('.virtual').innerText`); got != m.Text || !strings.Contains(got, "step 1") {
			t.Errorf("at #%s the page shows\n%s\nand it showed\n%s", m.At, got, m.Text)
		}
	}
}
