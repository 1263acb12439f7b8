//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
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

// signingFile returns a file of authenticators with the tokens of an issuer and those that the edge signs.
func signingFile(t *testing.T, issuer *authtest.Issuer) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(issuer.File())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pemFile, file := filepath.Join(dir, "edge.pem"), filepath.Join(dir, "auth.json")
	entry := fmt.Sprintf(`{"sessionTokens":[{"issuer":"edge","audience":"tailrace","signingKeys":[%q],"maxLifetime":"24h"},`, pemFile)
	for path, data := range map[string][]byte{
		pemFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		file:    []byte(strings.Replace(string(text), `{"sessionTokens":[`, entry, 1)),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// withSecrets returns the chunks of a run. The view "public" shows the text alone, and hides each text that begins with zzsecret.
func withSecrets(text string) string {
	chunks := []string{
		`"type":"step_start"`, `"type":"thinking","content":"zzsecret thought","isComplete":true`, fmt.Sprintf(`"type":"text_delta","delta":%q`, text),
		`"type":"tool_start","toolCallId":"c1","toolName":"look","arguments":{"zzsecret":"zzsecret input"}`, `"type":"tool_end","toolCallId":"c1","toolName":"look","result":"zzsecret result"`,
		`"type":"tool_start","toolCallId":"c2","toolName":"look","arguments":{}`, `"type":"tool_end","toolCallId":"c2","toolName":"look","result":null,"error":"zzsecret error"`,
		`"type":"custom","eventName":"zzsecret","data":"zzsecret data"`, `"type":"state_patch","patches":[{"op":"add","path":"","value":{"zzsecret":1}}]`, `"type":"error","error":"zzsecret failure","recoverable":true`,
	}
	lines := ""
	for _, members := range chunks {
		lines += `{"agentId":"a","agentType":"demo","timestamp":1700000000000,"step":1,` + members + "}\n"
	}
	return lines
}

// A user with the right admin makes a link. A browser without a credential sees the session with it, live and after a reload, and nothing that the view hides. The link is
// shown once, is in no address, opens no other session, and ends with its revocation.
func TestInspectorShares(t *testing.T) {
	issuer := authtest.NewIssuer(t)
	views := filepath.Join(t.TempDir(), "views.json")
	if err := os.WriteFile(views, []byte(`{"views":{"public":{"preset":"public"},"empty":{"preset":"none"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	u := newUp(t, "--demo", "0.3", "--auth", signingFile(t, issuer), "--views", views, "--allow-delete")
	u.start(t)
	grant := auth.Grant{Tenant: "default", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, Views: []string{auth.AnyView}}
	token := issuer.Token(grant, time.Hour, nil)
	const state = `JSON.stringify(document.body.dataset) + document.body.innerText`
	await := browsertest.Await
	ann := browsertest.Start(t)
	open(t, ann, u.url+"/inspect")
	await(ann, t, `document.querySelector('[name=token]') !== null`, state)
	signIn := fmt.Sprintf(`(() => {
		const field = document.querySelector('[name=token]');
		field.value = %q;
		field.form.requestSubmit();
		return true;
	})()`, token)
	browsertest.Eval[bool](ann, t, signIn)
	await(ann, t, `document.querySelector('[name=token]') === null`, state)
	for _, id := range []string{"shared-one", "another"} {
		if res := u.tailrace(t, withSecrets("The parcel is here."), "publish", "--session", id); res.code != 0 {
			t.Fatalf("publish: exit %d: %s", res.code, res.err)
		}
	}
	open(t, ann, u.url+"/inspect/s/shared-one?tab=timeline")
	await(ann, t, `document.body.dataset.status === 'ended' && document.body.innerText.includes('zzsecret')`, state)
	click := func(name string) {
		t.Helper()
		button := fmt.Sprintf(`[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === %q && !b.disabled)`, name)
		await(ann, t, button+` !== undefined`, state)
		browsertest.Eval[bool](ann, t, button+`.click() === undefined`)
	}
	click("Share")
	click("Make a link")
	await(ann, t, `document.querySelector('.copy input') !== null`, state)
	link := browsertest.Eval[string](ann, t, `document.querySelector('.copy input').value`)
	if !strings.HasPrefix(link, u.url+"/inspect/shared#eyJ") {
		t.Fatalf("link %s", link)
	}

	bob := browsertest.Start(t)
	browsertest.WatchConsole(bob, t, func(line string) {
		if !strings.Contains(line, "status of 40") { // of the link that has ended, and of the requests below
			t.Errorf("console: %s", line)
		}
	})
	open(t, bob, link)
	await(bob, t, `document.body.innerText.includes('The parcel is here.') && document.querySelector('.notice').innerText.includes('masked by public')`, state)
	if res := u.tailrace(t, withSecrets("It was delivered today."), "publish", "--session", "shared-one"); res.code != 0 {
		t.Fatalf("publish: exit %d: %s", res.code, res.err)
	}
	await(bob, t, `document.body.innerText.includes('It was delivered today.')`, state)
	run(t, bob, chromedp.Reload())
	await(bob, t, `document.body.innerText.includes('It was delivered today.') && document.body.dataset.status === 'ended'`, state)
	if seen := browsertest.Eval[string](bob, t, `location.href + document.cookie + document.documentElement.outerHTML + JSON.stringify(history.state)`); strings.Contains(seen, "eyJ") {
		t.Error("the token is in the page or its address")
	}
	run(t, bob, chromedp.EmulateViewport(1400, 5_000))
	for _, name := range []string{"conversation", "timeline", "records", "state"} {
		shown(t, bob, name)
		if html := browsertest.Eval[string](bob, t, `document.documentElement.outerHTML`); strings.Contains(html, "zzsecret") || !strings.Contains(html, "shared-one") {
			t.Errorf("%s shows what the view hides, or nothing", name)
		}
	}
	if acts := browsertest.Eval[string](bob, t, `[...document.querySelectorAll('nav a, [aria-label=Actions] *, .tabs button')].map((e) => e.textContent).join()`); acts != "conversation,timeline,state,records" {
		t.Errorf("the page offers %s", acts)
	}
	status := func(path string) int {
		t.Helper()
		return browsertest.Eval[int](bob, t, fmt.Sprintf(`fetch(%q, { headers: { Authorization: 'Bearer ' + sessionStorage.getItem('shared') } }).then((r) => (r.body?.cancel(), r.status))`, path))
	}
	for path, want := range map[string]int{
		"/v1/sessions/shared-one/events": http.StatusOK, "/v1/sessions/another/events": http.StatusNotFound, "/v1/sessions/shared-one/events?view=other": http.StatusBadRequest,
	} {
		if got := status(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	// The link is not shown again, and its revocation ends it.
	click("Close")
	click("Share")
	await(ann, t, `document.querySelector('.links-made') !== null`, state)
	if text := browsertest.Eval[string](ann, t, `document.body.innerText + JSON.stringify(localStorage)`); strings.Contains(text, "eyJ") {
		t.Error("the link is shown twice, or kept")
	}
	click("Revoke")
	await(ann, t, `document.querySelector('.links-made') === null`, state)
	await(bob, t, `document.body.innerText.includes('This link has ended') && document.querySelector('.tabs') === null`, state)
	if got := status("/v1/sessions/shared-one/events"); got != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d", got)
	}
	// All links to the session end together, also one that another browser has made.
	click("Make a link")
	await(ann, t, `document.querySelector('.copy input') !== null`, state)
	second := browsertest.Eval[string](ann, t, `document.querySelector('.copy input').value`)
	open(t, bob, second)
	await(bob, t, `document.body.dataset.connection === 'complete'`, state)
	click("Revoke all links to this session, also those of other users")
	await(bob, t, `document.body.innerText.includes('This link has ended')`, state)

	// A link under a view without content shows none.
	browsertest.Eval[bool](ann, t, `(() => {
		const menu = document.querySelector('.dialog select');
		menu.value = 'empty';
		return menu.dispatchEvent(new Event('change', { bubbles: true }));
	})()`)
	click("Make a link")
	await(ann, t, fmt.Sprintf(`document.querySelector('.copy input') !== null && document.querySelector('.copy input').value !== %q`, second), state)
	open(t, bob, browsertest.Eval[string](ann, t, `document.querySelector('.copy input').value`))
	await(bob, t, `document.body.dataset.connection === 'complete' && document.querySelector('.notice').innerText.includes('masked by empty')`, state)
	for _, name := range []string{"conversation", "timeline", "records", "state"} {
		shown(t, bob, name)
		if html := browsertest.Eval[string](bob, t, `document.documentElement.outerHTML`); strings.Contains(html, "zzsecret") || strings.Contains(html, "parcel") || strings.Contains(html, "look") || !strings.Contains(html, "shared-one") {
			t.Errorf("%s under a view without content shows it, or nothing", name)
		}
	}

	click("Close")
	click("Delete")
	await(ann, t, `document.querySelector('.dialog input') !== null`, state)
	browsertest.Eval[bool](ann, t, `(() => {
		const field = document.querySelector('.dialog input');
		field.value = 'shared-one';
		return field.dispatchEvent(new Event('input', { bubbles: true }));
	})()`)
	await(ann, t, `document.querySelector('.dialog .danger').disabled === false`, state)
	browsertest.Eval[bool](ann, t, `document.querySelector('.dialog .danger').click() === undefined`)
	await(ann, t, `location.pathname === '/inspect'`, state)
	open(t, ann, u.url+"/inspect/s/shared-one")
	await(ann, t, `document.body.dataset.connection === 'unknown'`, state)
}
