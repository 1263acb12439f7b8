//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// manyChats is the script of a page with many chats: one EventSource for all,
// which is closed and reopened at its position every hundred events.
const manyChats = `
const ids = %s
window.texts = {}, window.ended = 0
let seen = 0, last = ''
const url = '/v1/events?' + ids.map(id => 'session=' + id).join('&')
function watch() {
  const events = new EventSource(last ? url + '&after=' + last : url)
  for (const id of ids) events.addEventListener('session:' + id, e => {
    if (events.readyState === EventSource.CLOSED) return
    last = e.lastEventId
    const { type, chunk } = JSON.parse(e.data)
    if (type === 'end') ended++
    if (chunk?.type === 'text_delta') texts[chunk.agentId] = (texts[chunk.agentId] ?? '') + chunk.delta
    if (++seen %% 100 === 0) { events.close(); setTimeout(watch) }
  })
}
watch()
`

// Eight chats use one connection of a real browser, which has six connections
// per host with HTTP/1. The text of every agent equals the log.
func TestBrowserWatchesManyChats(t *testing.T) {
	u := newUp(t, "--demo", "0.5")
	u.start(t)
	tab := openTab(t, browsertest.Start(t), u.url+"/healthz")
	var sessions, quoted []string
	for range 8 {
		sessions = append(sessions, startDemo(t, u.url, "subagents"))
		quoted = append(quoted, fmt.Sprintf("%q", sessions[len(sessions)-1]))
	}
	run(t, tab, chromedp.Evaluate[any](fmt.Sprintf("{%s}", fmt.Sprintf(manyChats, "["+strings.Join(quoted, ",")+"]"))))
	run(t, tab, chromedp.Poll[bool](fmt.Sprintf("window.ended === %d", len(sessions)), chromedp.WithPollingTimeout(80*time.Second)))
	texts := run(t, tab, chromedp.Evaluate[map[string]string]("window.texts"))
	for _, session := range sessions {
		for agent, want := range awaitLog(t, u, session) {
			if texts[agent] != want {
				t.Errorf("agent %s: the page has\n%q\nwant the text in the log\n%q", agent, texts[agent], want)
			}
		}
	}
}
