//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// An engineer finds the session of a user in which an agent said something wrong, and the result of the tool that misled it; forks the session at that call with the right
// result, compares the two, and sends a masked link to the fork, which a browser without a credential opens. All of it takes less than a minute.
func TestInspectorAtNight(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	views := filepath.Join(t.TempDir(), "views.json")
	if err := os.WriteFile(views, []byte(`{"views":{"public":{"preset":"public"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUp(t, "--demo", "0", "--auth", signingFile(t, issuer), "--views", views)
	u.start(t)
	const state = `location.href + JSON.stringify(document.body.dataset) + document.body.innerText`
	token := func(subject string) string {
		grant := auth.Grant{Tenant: "default", Subject: subject, Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, Views: []string{auth.AnyView}}
		return issuer.Token(grant, time.Hour, nil)
	}
	ann := browsertest.Start(t)
	open(t, ann, u.url+"/inspect")
	await := func(until string) {
		t.Helper()
		browsertest.Await(ann, t, until, state)
	}
	click := func(element string) {
		t.Helper()
		await(`(` + element + `)?.disabled !== true && (` + element + `) !== null && (` + element + `) !== undefined`)
		browsertest.Eval[bool](ann, t, `(`+element+`).click() === undefined`)
	}
	enter := func(selector, text string) {
		t.Helper()
		await(fmt.Sprintf(`document.querySelector(%q) !== null`, selector))
		browsertest.Eval[bool](ann, t, fmt.Sprintf(`(() => {
			const field = document.querySelector(%q);
			field.value = %q;
			return field.dispatchEvent(new Event('input', { bubbles: true }));
		})()`, selector, text))
	}
	button := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === %q)`, name)
	}
	enter("[name=token]", token("ann"))
	browsertest.Eval[bool](ann, t, `document.querySelector('[name=token]').form.requestSubmit() === undefined`)
	await(`document.querySelector('[name=token]') === null`)
	for n, by := range []string{"u-1", "u-2", "u-17", "u-3"} {
		text := []string{"plain", "thinking", "parallel", "parallel"}[n]
		browsertest.Eval[int](ann, t, fmt.Sprintf(`fetch('/api/chat', {
			method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: 'Bearer %s' },
			body: JSON.stringify({ id: 'night-%d', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: %q }] }] }),
		}).then((r) => r.text()).then((text) => text.length)`, token(by), n, text))
	}

	began := time.Now()
	open(t, ann, u.url+"/inspect?owner=u-17")
	await(`document.querySelectorAll('a.whole').length === 1`)
	click(`document.querySelector('a.whole')`)
	await(`location.pathname === '/inspect/s/night-2' && document.body.dataset.status === 'ended' && document.querySelector('[data-kind="call"]') !== null`)
	click(`document.querySelector('[data-kind="call"]')`)
	click(`document.querySelector('.detail .acts button:nth-child(2)')`)
	click(`document.querySelector('.dialog [type=checkbox]')`)
	enter(".dialog textarea", `{"right": true}`)
	click(`document.querySelector('.dialog fieldset label:nth-of-type(2) input')`)
	enter(".dialog label:last-of-type textarea", "plain")
	click(`document.querySelector('.dialog .main')`)
	await(`location.pathname.startsWith('/inspect/s/fork-') && document.body.dataset.status === 'ended' && document.querySelector('[data-kind="forked"]') !== null`)
	fork := browsertest.Eval[string](ann, t, `location.pathname`)
	click(`document.querySelector('.above a[href*="/inspect/compare"]')`)
	await(`document.querySelector('.options [role=status]')?.textContent.startsWith('Difference 1 of')`)
	open(t, ann, u.url+fork)
	await(`document.body.dataset.status === 'ended'`)
	click(button("Share"))
	click(button("Make a link"))
	await(`document.querySelector('.copy input') !== null`)
	link := browsertest.Eval[string](ann, t, `document.querySelector('.copy input').value`)
	bob := browsertest.Start(t)
	open(t, bob, link)
	browsertest.Await(bob, t, `document.body.dataset.status === 'ended' && document.querySelector('.notice').innerText.includes('masked by public')`, state)
	took := time.Since(began)
	t.Logf("from the list to the open link: %s", took)
	if took > time.Minute {
		t.Errorf("it took %s, want less than a minute", took)
	}
	run(t, bob, chromedp.EmulateViewport(1400, 5_000))
	for _, name := range []string{"conversation", "timeline", "records"} {
		shown(t, bob, name)
		if html := browsertest.Eval[string](bob, t, `document.documentElement.outerHTML`); strings.Contains(html, `right`+`&quot;`) || strings.Contains(html, `"right"`) {
			t.Errorf("%s shows the result of the tool, which the view hides", name)
		}
	}
}
