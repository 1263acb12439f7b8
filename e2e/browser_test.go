//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// The page of a deployment with authenticators: it asks for a token, trades it for a cookie, which Chromium stores for loopback without TLS, and keeps no
// token that a script could read.
func TestBrowserSignsIn(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	token := func(subject string, age time.Duration) string { // valid for an hour from its issue, and the leeway
		t.Helper()
		grant := auth.Grant{Tenant: "default", Subject: subject, Scopes: auth.ScopeRead | auth.ScopeChat, Sessions: auth.Sessions{Own: true}}
		return issuer.Token(grant, time.Hour, func(c *auth.MinterConfig) { c.Now = func() time.Time { return time.Now().Add(-age) } })
	}
	u := newUp(t, "--demo", "0.05", "--auth", issuer.File())
	u.start(t)
	browser := browsertest.Start(t)
	tab := openTab(t, browser, u.url)
	await := func(tab context.Context, expression string) {
		t.Helper()
		browsertest.Await(tab, t, expression, `document.body.innerText`)
	}
	signIn := func(tab context.Context, token string) {
		t.Helper()
		await(tab, `document.querySelector('[name=token]') !== null`)
		run(t, tab, chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
			const field = document.querySelector('[name=token]');
			field.value = %q;
			field.form.requestSubmit();
			return true;
		})()`, token)))
	}
	signIn(tab, "eyJ.eyJ.x")
	await(tab, `document.querySelector('form .failure')?.textContent.includes('refused')`)
	ann := token("ann", 0)
	signIn(tab, ann)
	await(tab, `document.querySelector('[name=token]') === null`)
	const prompt = `[...document.querySelectorAll('.prompts button')].find((b) => b.textContent === 'Asking colleagues')`
	await(tab, prompt+` !== undefined`)
	run(t, tab, chromedp.Evaluate[bool](prompt+`.click() === undefined`))
	awaitStatus(t, tab, "ended")
	session := run(t, tab, chromedp.Evaluate[string](`location.hash.slice('#s='.length)`))
	for agent, want := range awaitLog(t, u, session) {
		if got := textOf(t, tab, agent); got != want {
			t.Errorf("agent %s: the page shows\n%q\nwant the text in the log\n%q", agent, got, want)
		}
	}
	seen := run(t, tab, chromedp.Evaluate[string](`document.cookie + location.href + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.documentElement.outerHTML`))
	if strings.Contains(seen, "eyJ") || strings.Contains(seen, authn.CookieName) {
		t.Error("a script can read the token or the cookie")
	}
	run(t, tab, chromedp.Reload())
	await(tab, `document.body.dataset.status === "ended"`)
	if run(t, tab, chromedp.Evaluate[bool](`document.querySelector('[name=token]') !== null`)) {
		t.Error("the page asks again after a reload")
	}

	byName := openTab(t, browser, strings.Replace(u.url, "127.0.0.1", "localhost", 1))
	signIn(byName, ann)
	await(byName, `document.querySelector('[name=token]') === null && document.querySelector('.prompts') !== null`)

	signOut := func() {
		t.Helper()
		status := run(t, tab, chromedp.Evaluate[int](`fetch('/v1/session-cookie', { method: 'DELETE' }).then((r) => r.status)`, chromedp.EvalAwaitPromise))
		if status != http.StatusNoContent {
			t.Errorf("DELETE: %d", status)
		}
		run(t, tab, chromedp.Reload())
	}
	// For another user in the same browser the session is unknown.
	signOut()
	signIn(tab, token("bob", 0))
	await(tab, `document.body.dataset.connection === 'unknown' && document.querySelectorAll('.part').length === 0`)
	// When the cookie ends, after four seconds, the page shows the form in place of the session.
	signOut()
	signIn(tab, token("ann", time.Hour+25*time.Second)) // the edge accepts it for five more seconds
	awaitStatus(t, tab, "ended")
	await(tab, `document.querySelector('[name=token]') !== null && document.querySelectorAll('.part').length === 0`)
	signIn(tab, ann)
	awaitStatus(t, tab, "ended")
}

// startDemo sends a message that names a scenario of the demo agent, in a session of its own.
func startDemo(t *testing.T, url, scenario string) string {
	t.Helper()
	session := rand.Text()
	sendChat(t, url, session, scenario)
	return session
}

// sendChat sends a message in a session.
func sendChat(t *testing.T, url, session, text string) {
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"id":%q,"messages":[{"id":%q,"role":"user","parts":[{"type":"text","text":%q}]}]}`, session, rand.Text(), text))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/chat", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // the run does not depend on the response
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

// awaitLog follows the session to its end and returns the text in the log by
// agent.
func awaitLog(t *testing.T, u *up, session string) map[string]string {
	t.Helper()
	// The first tail waits for the end; the second reads the final records,
	// because a cleanup may have removed records that the first has read.
	var res result
	for range 2 {
		if res = u.tailrace(t, "", "tail", session, "--json"); res.code != 0 {
			t.Fatalf("tail: exit %d: %s", res.code, res.err)
		}
	}
	text := map[string]string{}
	for line := range bytes.Lines([]byte(res.out)) {
		var rec struct {
			Session string          `json:"session"`
			Chunk   json.RawMessage `json:"chunk"`
		}
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		c, err := chunk.Decode(rec.Chunk)
		if err != nil {
			t.Fatal(err)
		}
		if delta, ok := c.Body.(chunk.TextDelta); ok {
			text[rec.Session] = chunk.Concat(text[rec.Session], delta.Delta)
		}
	}
	if len(text) == 0 {
		t.Fatal("no text in the log")
	}
	return text
}

func openTab(t *testing.T, browser context.Context, url string) context.Context {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	open(t, tab, url)
	return tab
}

// open navigates a new tab. The context of the first action is the lifetime of
// the tab, so it has no deadline: canceling it would close the tab.
func open(t *testing.T, tab context.Context, url string) {
	t.Helper()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		t.Fatalf("chromium: %s: %v", url, err)
	}
}

// run runs one action in a tab and returns its result.
func run[T any](t *testing.T, tab context.Context, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, 90*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// awaitSequence waits until the tab has shown a record with a sequence above n.
func awaitSequence(t *testing.T, tab context.Context, n int) {
	t.Helper()
	browsertest.Await(tab, t, fmt.Sprintf(`Number(document.body.dataset.position) > %d`, n), `JSON.stringify(document.body.dataset) + document.body.innerText`)
}

func awaitStatus(t *testing.T, tab context.Context, status string) {
	t.Helper()
	run(t, tab, chromedp.Poll[bool](fmt.Sprintf(`document.body.dataset.status === %q`, status), chromedp.WithPollingTimeout(80*time.Second)))
}

func textOf(t *testing.T, tab context.Context, agent string) string {
	t.Helper()
	script := fmt.Sprintf(`[...document.querySelectorAll('.talk[data-session=%q] > .text')].map(e => e.textContent).join('')`, agent)
	return run(t, tab, chromedp.Evaluate[string](script))
}
