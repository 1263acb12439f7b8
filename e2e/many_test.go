//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/chromiumtest"
)

// manyChats is what a page with many chats does: one EventSource for all, closed
// and opened again where it was every hundred events.
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

// Eight chats on one connection of a real browser, where six connections are all
// that HTTP/1 gives it, and every agent's text is that of the log.
func TestBrowserWatchesManyChats(t *testing.T) {
	u := newUp(t, "--demo-pace", "0.5")
	u.start(t)
	tab := openTab(t, chromiumtest.Start(t), u.url+"/healthz")
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
				t.Errorf("agent %s: the page has\n%q\nthe log says\n%q", agent, texts[agent], want)
			}
		}
	}
}
