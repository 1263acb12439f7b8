package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/authn"
)

// TestCookieIsForOwnPages sends each request of the route tables with the cookie of a user who has all rights, as a page of another origin can have a
// browser send it: no route has an effect, or serves anything. The same request of a page of the edge, or of an origin of the allow-list, is served.
func TestCookieIsForOwnPages(t *testing.T) {
	const app = "https://app.example"
	m := newMatrix(t, app)
	ann := auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}}
	cookie := authn.CookieName + "=" + m.issuer.Token(ann, time.Hour, nil)
	pages := []struct {
		name, site, origin, media string
		unsafe, safe              bool // whether requests with an effect, and others, are served
	}{
		{"own page", "same-origin", "", "application/json", true, true},
		{"own page of an old browser", "", m.url, "application/json", true, true},
		{"address bar", "none", "", "application/json", true, true},
		{"page of the allow-list", "cross-site", app, "application/json", true, true},
		{"page of the allow-list in an old browser", "", app, "application/json", true, true},
		{"another page", "cross-site", "https://evil.example", "application/json", false, false},
		{"another page in an old browser", "", "https://evil.example", "application/json", false, false},
		{"another host of the same site", "same-site", "https://evil.app.example", "application/json", false, false},
		{"another port of the same host", "same-site", "http://127.0.0.1:1", "application/json", false, false},
		{"a link or an image of another page", "cross-site", "", "application/json", false, false},
		{"a sandboxed frame", "cross-site", "null", "application/json", false, false},
		{"a form of another page", "cross-site", "https://evil.example", "application/x-www-form-urlencoded", false, false},
		{"own form", "same-origin", m.url, "application/x-www-form-urlencoded", false, true},
		{"own page with text", "same-origin", m.url, "text/plain", false, true},
		{"not a browser", "", "", "application/json", false, true},
	}
	for i, p := range m.edge.edge.Policies() {
		if p.Public || p.Path == "/v1/session-cookie" {
			continue // below, and in package credentials
		}
		t.Run(p.Method+" "+p.Path, func(t *testing.T) {
			refusing := m.sessionFor(p, fmt.Sprintf("c-%d", i)) // no request that is refused changes it
			before := m.Snapshot(chunk.RootSession("acme", refusing)).Position
			for j, page := range pages {
				want := page.safe
				if p.Method != http.MethodGet {
					want = page.unsafe
				}
				if p.Method == http.MethodDelete && page.safe && page.media != "application/json" {
					want = true // without a body, its type does not matter
				}
				if page.origin == app && p.Method == http.MethodDelete {
					want = false // no page of another origin may do this, with whichever credential
				}
				id := refusing
				if want {
					id = m.sessionFor(p, fmt.Sprintf("c-%d-%d", i, j))
				}
				header := map[string]string{"Cookie": cookie}
				url, body := m.url+strings.ReplaceAll(p.Path, "{id}", id), ""
				switch {
				case p.Path == "/v1/events":
					url += "?session=" + id
				case strings.HasPrefix(p.Path, "/agents/"):
					url += "?sessionId=" + id
				}
				if p.Method == http.MethodPost {
					body = bodyOf(p.Path, id)
					header["Content-Type"] = page.media
				}
				if p.Path == "/api/agui" {
					body = fmt.Sprintf(`{"threadId":%q,"runId":"r1"}`, id) // without a message: no worker would begin the stream
				}
				if page.site != "" {
					header["Sec-Fetch-Site"] = page.site
				}
				if page.origin != "" {
					header["Origin"] = page.origin
				}
				status, h, text := sendAs(t, p.Method, url, body, header)
				refused := status == http.StatusForbidden && strings.Contains(text, "CROSS_ORIGIN")
				if refused == want {
					t.Errorf("%s: %d %s", page.name, status, text)
				}
				if allowed := h.Get("Access-Control-Allow-Origin"); allowed != "" && (allowed != app || page.origin != app) {
					t.Errorf("%s: the page may read the response: %v", page.name, h)
				}
			}
			if m.Snapshot(chunk.RootSession("acme", refusing)).Position != before {
				t.Error("the session of refused requests has changed")
			}
		})
	}
	for _, page := range pages {
		if status, _, _ := sendAs(t, http.MethodDelete, m.url+"/v1/session-cookie", "", map[string]string{"Sec-Fetch-Site": page.site, "Origin": page.origin}); (status == http.StatusNoContent) != (page.safe) {
			t.Errorf("%s: DELETE of the cookie: %d", page.name, status)
		}
	}
}

// Of many requests with one ticket, through two edges at the same time, one gets the stream.
func TestTicketIsSpentOnce(t *testing.T) {
	m := newMatrix(t)
	_, other := m.newEdge()
	m.session("s1")
	token := m.issuer.Token(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}, time.Hour, nil)
	for range 5 {
		status, _, text := sendAs(t, http.MethodPost, m.url+"/v1/tickets", `{"session":"s1"}`, bearer(token))
		var issued struct {
			Ticket string `json:"ticket"`
		}
		if err := json.Unmarshal([]byte(text), &issued); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		var (
			mu       sync.Mutex // guards statuses
			statuses []int
			all      sync.WaitGroup
			begin    = make(chan struct{})
		)
		for i := range 16 {
			url := []string{m.url, other}[i%2] + "/v1/sessions/s1/events?ticket=" + issued.Ticket
			all.Go(func() {
				<-begin
				status, _, _ := sendAs(t, http.MethodGet, url, "", nil)
				mu.Lock()
				defer mu.Unlock()
				statuses = append(statuses, status)
			})
		}
		close(begin)
		all.Wait()
		slices.Sort(statuses)
		if statuses[0] != http.StatusOK || slices.Index(statuses, http.StatusUnauthorized) != 1 || statuses[15] != http.StatusUnauthorized {
			t.Errorf("%v, want one 200 and otherwise 401", statuses)
		}
	}
}

// writeSigningKey writes a new key, as openssl does.
func writeSigningKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})))
}

// A deployment with signing keys mints tokens, and replaces a key one edge at a time: the first key signs, and all of them verify.
func TestSigningKeysAreReplaced(t *testing.T) {
	old, next := writeSigningKey(t), writeSigningKey(t)
	edge := func(keys ...string) *authenticators {
		t.Helper()
		list, err := json.Marshal(keys)
		if err != nil {
			t.Fatal(err)
		}
		file := writeFile(t, "auth.json", `{"sessionTokens":[{"issuer":"edge","audience":"tailrace","maxLifetime":"30m","signingKeys":`+string(list)+`}]}`)
		a, err := config{Auth: file}.newAuthenticators(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.close)
		a.revocations.Loaded()
		if a.routes.MaxLifetime != 30*time.Minute || !a.routes.Cookies {
			t.Errorf("%+v", a.routes)
		}
		return a
	}
	steps := []*authenticators{edge(old), edge(old, next), edge(next, old), edge(next)}
	for i, from := range steps {
		minted, err := from.routes.Minter.Mint(auth.Grant{Tenant: "acme", Subject: "ann", Scopes: auth.ScopeRead, Sessions: auth.Sessions{Own: true}}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for j, to := range steps {
			_, err := to.routes.Verify(t.Context(), minted.Token)
			if adjacent := max(i, j)-min(i, j) <= 1; adjacent && err != nil {
				t.Errorf("a token of step %d at step %d: %v", i, j, err)
			}
		}
	}
}

func TestSigningKeysAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{"sessionTokens":[{"issuer":"a","audience":"b","signingKeys":["/does/not/exist"]}]}`:                                         "no such file",
		`{"sessionTokens":[{"issuer":"a","audience":"b","signingKeys":["` + writeFile(t, "key.pem", "secret") + `"]}]}`:               "PKCS #8",
		`{"sessionTokens":[{"issuer":"a","audience":"b","signingKeys":["KEY"]},{"issuer":"c","audience":"b","signingKeys":["KEY"]}]}`: "one issuer that signs",
		`{"sessionTokens":[{"issuer":"a","audience":"b","signingKeys":["KEY","KEY"]}]}`:                                               "want different ids",
	} {
		_, err := parseAuthenticators([]byte(strings.ReplaceAll(text, "KEY", writeSigningKey(t))), nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Without authenticators there is nothing to turn into another credential.
func TestNoCredentialsWithoutAuthenticators(t *testing.T) {
	a, err := config{Tenant: "acme"}.newAuthenticators(slog.New(slog.DiscardHandler))
	if err != nil || a.routes != nil {
		t.Errorf("%+v, %v", a.routes, err)
	}
	tickets, err := (&httpServer{auth: a}).newTickets()
	if err != nil || tickets != nil {
		t.Errorf("%v, %v", tickets, err)
	}
}
