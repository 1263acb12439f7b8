//go:build e2e

package chat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// TestLogin has the example with its backend, which signs tokens that the edges accept for six seconds: an answer, an EventSource and a page outlive several.
func TestLogin(t *testing.T) { //nolint:tparallel // the scenes share one browser and its pages
	t.Parallel()
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", natstest.ReservePort(t))
	// With a clock that is behind, the leeway of 30 seconds is used up when a token is signed.
	login := &process{name: "login", path: buildProgram(t, "login"), args: []string{"-listen", addr, "-dir", dir, "-lifetime", "6s", "-behind", "30s"}}
	login.start(t)
	natstest.Eventually(t, "the files of the backend", func(context.Context) error {
		_, err := os.Stat(filepath.Join(dir, "auth.json"))
		return err
	})
	w := newEnv(t, 6, "--auth", filepath.Join(dir, "auth.json"))
	browser, app := browsertest.Start(t), newApp(t, 7).build(t)
	scene := func() *scenario {
		return &scenario{env: w, front: w.newFront(t, app, addr), t: t, browser: browser, chat: fmt.Sprintf("chat-login-%d", rand.Int64())}
	}

	t.Run("a token is replaced in the middle of an answer", func(t *testing.T) {
		s := scene()
		s.t = t
		p := s.signIn("ann")
		p.openLog()
		p.send("tell me")
		p.awaitText(middle)
		// Streams end before their token: the page comes back twice, with a fresh one and its cursor.
		natstest.Eventually(t, "two streams with fresh tokens", func(context.Context) error {
			if _, gets := s.requests(); gets < 3 {
				return fmt.Errorf("%d GETs", gets)
			}
			return nil
		})
		s.release(t, s.chat)
		p.awaitText("This is sentence 25.")
		p.awaitRest(s.front)
		s.shows(p, 1)
		if posts, _ := s.requests(); !slices.Equal(posts, []string{"submit-message"}) {
			t.Errorf("POSTs %v", posts)
		}
		if tokens := s.tokens(); tokens < 3 {
			t.Errorf("%d tokens", tokens)
		}
		// The EventSource with the cookie has every event once, although its stream has ended with several cookies too.
		const events = `fetch('/v1/sessions/%s/events', { headers: %s }).then((r) => r.text()).then((text) => text.match(/^id: /gm).length)`
		want := eval[int](p, fmt.Sprintf(events, s.chat, p.bearer()))
		p.await(fmt.Sprintf(`Number(document.querySelector('.log output').textContent) === %d`, want))
		if opened := eval[int](p, `Number(document.querySelector('.log output').dataset.opened)`); opened < 2 {
			t.Errorf("the EventSource was opened %d times", opened)
		}
		if seen := eval[string](p, `document.cookie + location.href + JSON.stringify({ ...localStorage, ...sessionStorage })`); strings.Contains(seen, "tailrace") || strings.Contains(seen, "eyJ") {
			t.Errorf("a script of another library can read %s", seen)
		}

		other := s.signIn("bob")
		other.awaitRest(s.front)
		if shown := other.bubbles(); len(shown) > 0 {
			t.Errorf("the second user sees %+v", shown)
		}
		const answers = `Promise.all([%q, %q].map((id) => fetch('/api/chat/' + id + '/snapshot', { headers: %s }).then(async (r) => r.status + await r.text())))
			.then(([hidden, unknown]) => hidden === unknown ? hidden : hidden + ' ' + unknown)`
		if got := eval[string](other, fmt.Sprintf(answers, s.chat, "unknown", other.bearer())); !strings.HasPrefix(got, "404{") || strings.Count(got, "404") != 1 {
			t.Errorf("hidden and unknown: %s", got)
		}
		other.send("Hello")
		other.await(`document.querySelector('.failure') !== null`)
		if turns := s.readLog(t, s.chat); len(turns) != 1 {
			t.Errorf("the second user has written: %+v", turns)
		}
	})

	t.Run("an approval needs the right to answer", func(t *testing.T) {
		s := scene()
		s.t = t
		p := s.signIn("carl")
		p.send("delete them")
		p.decide("Allow")
		p.await(`[...document.querySelectorAll('.failure')].some((e) => e.textContent.includes('does not have this right'))`)
		if turns := s.readLog(t, s.chat); turns[len(turns)-1].over != "stream_paused" {
			t.Errorf("the log has %+v", turns)
		}
		q := s.signIn("sue")
		q.decide("Allow")
		q.awaitText("The files are gone.")
		s.wantCall(q, "delete output-available")
		p.reload()
		p.awaitText("The files are gone.")
	})
}

// signIn opens the chat as a user, in a browser profile of its own.
func (s *scenario) signIn(user string) *page {
	s.t.Helper()
	p := newPage(s.t, s.browser, s.url, s.chat, chromedp.WithNewBrowserContext())
	p.await(`document.querySelector('#user') !== null`)
	eval[bool](p, fmt.Sprintf(`(() => {
		const field = document.querySelector('#user');
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, %q);
		field.dispatchEvent(new Event('input', { bubbles: true }));
		field.form.requestSubmit();
		return true;
	})()`, user))
	p.await(`document.querySelector('main')?.dataset.status !== undefined`)
	return p
}

// openLog makes the page follow the log with an EventSource.
func (p *page) openLog() {
	p.t.Helper()
	eval[bool](p, `(document.querySelector('.log').open = true)`)
}

// bearer returns a header with a token of the user of the page, as an expression.
func (p *page) bearer() string {
	p.t.Helper()
	token := eval[string](p, `fetch('/token', { method: 'POST' }).then((r) => r.json()).then((body) => body.token)`)
	return fmt.Sprintf(`{ Authorization: 'Bearer %s' }`, token)
}

// tokens returns how often the app has asked its backend for a token.
func (f *front) tokens() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, path := range f.backend {
		if path == "/token" {
			n++
		}
	}
	return n
}
