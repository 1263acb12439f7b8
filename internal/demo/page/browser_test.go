//go:build e2e

package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tailrace/tailrace/internal/testkit/browsertest"
)

// script is a fake edge with the responses of a test.
type script struct {
	mu        sync.Mutex
	snapshots map[string][]string // session -> responses; the last one is repeated
	streams   []stream            // connections; after them 204
	asked     []string            // "after" or "Last-Event-ID" of each connection
}

// stream is one connection: a status other than 0, or the frames after the cursor and then an abort. With
// hold the connection stays open.
type stream struct {
	status int
	frames []string
	hold   bool
}

// after returns the frames after a cursor. A browser may have received all or nothing of a connection that
// was closed directly after its last byte; it reconnects.
func (s stream) after(cursor string) []string {
	from, n := 0, 0
	_, _ = fmt.Sscan(cursor, &from)
	var rest []string
	for _, frame := range s.frames {
		if _, err := fmt.Sscanf(frame, "id: %d", &n); err == nil && n > from {
			rest = append(rest, frame)
		}
	}
	return rest
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/v1/demo/scenarios":
		_, _ = w.Write([]byte(`{"scenarios":[{"name":"tour","title":"The grand tour","summary":"Everything."}]}`))
	case r.URL.Path == "/v1/demo/runs":
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"session":"s1","run":"r1"}`))
	case strings.HasSuffix(r.URL.Path, "/snapshot"):
		s.snapshot(w, strings.Split(r.URL.Path, "/")[3])
	case strings.HasSuffix(r.URL.Path, "/events"):
		s.stream(w, r)
	default:
		Handler().ServeHTTP(w, r)
	}
}

func (s *script) snapshot(w http.ResponseWriter, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.snapshots[id]
	if len(answers) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if len(answers) > 1 {
		s.snapshots[id] = answers[1:]
	}
	if status := 0; len(answers[0]) == 3 {
		_, _ = fmt.Sscan(answers[0], &status)
		w.WriteHeader(status)
		return
	}
	_, _ = w.Write([]byte(answers[0]))
}

func (s *script) stream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = r.URL.Query().Get("after")
	}
	s.asked = append(s.asked, from)
	next := stream{status: http.StatusNoContent}
	if len(s.streams) > 0 {
		next, s.streams = s.streams[0], s.streams[1:]
	}
	s.mu.Unlock()
	if next.status != 0 {
		w.WriteHeader(next.status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write([]byte("retry: 50\n\n"))
	for _, frame := range next.after(from) {
		_, _ = w.Write([]byte(frame))
		_ = http.NewResponseController(w).Flush()
	}
	if next.hold {
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

func (s *script) connections() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, " ")
}

func chunkOf(seq int, agent, typ, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf("id: %d\ndata: {\"type\":\"chunk\",\"chunk\":{\"type\":%q,\"agentId\":%q,\"agentType\":\"a-%s\",\"timestamp\":1,\"step\":1%s},\"sequence\":%d}\n\n", seq, typ, agent, agent, members, seq)
}

func text(seq int, agent, delta string) string {
	return chunkOf(seq, agent, "text_delta", `"delta":`+delta)
}

func event(seq int, data string) string { return fmt.Sprintf("id: %d\ndata: %s\n\n", seq, data) }

func snapshotOf(id string, seq int, status, parts, more string) string {
	return fmt.Sprintf(`{"state":null,"messages":[{"id":"msg-0","role":"assistant","parts":[%s]}],"streamSequence":%d,"status":%q,"checkpointId":null,"timestamp":1,"session":{"tenant":"t","root":"s1","id":%q,"agentType":"a-%s"},"children":[%s]}`, parts, seq, status, id, id, more)
}

const end = `{"type":"end"}`

// After a snapshot, the snapshot of its sub-agent, a stream with records that the snapshots contain, and a
// lost connection each agent shows the text of its log.
func TestPageResumes(t *testing.T) {
	first := []string{
		text(11, "kid", `" one"`), text(14, "kid", `" two"`), // in the sub-agent's snapshot
		text(15, "kid", `" three"`), text(16, "s1", `"lo"`),
	}
	second := append(slices.Clone(first), text(17, "s1", `"!"`), text(18, "kid", `" four"`),
		chunkOf(19, "s1", "subagent_end", `"subAgentType":"a-kid","subSessionId":"kid","callId":"c1","result":{}`), event(20, end))
	s := &script{
		snapshots: map[string][]string{
			"s1":  {snapshotOf("s1", 10, "active", `{"type":"text","text":"Hel","state":"streaming"},{"type":"dynamic-tool","toolName":"subagent__x","toolCallId":"c1","state":"input-available","input":{}}`, `{"session":"kid","type":"a-kid","callId":"c1","status":"running"}`)},
			"kid": {snapshotOf("kid", 14, "active", `{"type":"text","text":"one two","state":"streaming"}`, "")},
		},
		streams: []stream{{frames: first}, {frames: first}, {frames: second}, {frames: second}, {frames: second}},
	}
	tab := s.open(t, "#s1")
	awaitStatus(t, tab, "ended")
	wantText(t, tab, map[string]string{"s1": "Hello!", "kid": "one two three four"})
	if nested := eval[bool](t, tab, `!!document.querySelector('[data-session="s1"] > .parts > .tool [data-session="kid"]')`); !nested {
		t.Error("the sub-agent is not below its call")
	}
	if title := eval[string](t, tab, `document.title`); strings.HasPrefix(title, "●") {
		t.Errorf("title %q", title)
	}
}

// Rolled back output is removed; the page continues from a new snapshot.
func TestPageLoadsAgainWhenTruncated(t *testing.T) {
	s := &script{
		snapshots: map[string][]string{"s1": {
			snapshotOf("s1", 10, "active", `{"type":"text","text":"kept, ","state":"done"}`, ""),
			snapshotOf("s1", 14, "active", `{"type":"text","text":"kept, ","state":"done"}`, ""),
		}},
		streams: []stream{
			{hold: true, frames: []string{text(11, "s1", `"lost"`), event(14, `{"type":"truncated","truncatedAtStep":1,"atSequence":13}`), text(15, "s1", `"too early"`)}},
			{hold: true, frames: []string{text(15, "s1", `"said again"`), event(16, end)}},
		},
	}
	tab := s.open(t, "#s1")
	awaitStatus(t, tab, "ended")
	wantText(t, tab, map[string]string{"s1": "kept, said again"})
	if got := s.connections(); got != "10 14" {
		t.Errorf("connections after %s", got)
	}
}

// The page retries until a session exists, and after errors of the server and lost connections.
func TestPageRetries(t *testing.T) {
	whole := snapshotOf("s1", 5, "active", `{"type":"text","text":"a","state":"streaming"}`, "")
	s := &script{
		snapshots: map[string][]string{"s1": {"404", "404", "503", whole}},
		streams:   []stream{{status: http.StatusServiceUnavailable}, {hold: true, frames: []string{text(6, "s1", `"b"`), event(7, end)}}},
	}
	tab := s.open(t, "")
	click(t, tab, `[data-scenario="tour"]`)
	awaitStatus(t, tab, "ended")
	wantText(t, tab, map[string]string{"s1": "ab"})
	if hash := eval[string](t, tab, `location.hash`); hash != "#s1" {
		t.Errorf("address %s", hash)
	}
	if past := eval[string](t, tab, `document.querySelector('#past-list a').textContent`); !strings.HasPrefix(past, "The grand tour") {
		t.Errorf("past sessions begin with %q", past)
	}
}

// A second turn in an ended session: the page waits for it, and ignores the end of the first.
func TestPageContinuesSession(t *testing.T) {
	first := snapshotOf("s1", 10, "ended", `{"type":"text","text":"first. ","state":"done"}`, "")
	s := &script{
		snapshots: map[string][]string{"s1": {first, first, snapshotOf("s1", 12, "active", `{"type":"text","text":"first. ","state":"done"}`, "")}},
		streams: []stream{{status: http.StatusNoContent}, {hold: true, frames: []string{
			chunkOf(13, "s1", "text_delta", `"delta":"second."`), event(14, end),
		}}},
	}
	tab := s.open(t, "#s1")
	awaitConnection(t, tab, "done")
	eval[bool](t, tab, `document.querySelector('#same-session').checked = true`)
	click(t, tab, `[data-scenario="tour"]`)
	poll(t, tab, `document.body.dataset.status === 'ended' && document.body.dataset.sequence === '14'`)
	wantText(t, tab, map[string]string{"s1": "first. second."})
}

// Text is never markup; surrogates are joined, also across a snapshot; numbers keep their digits.
func TestPageShowsText(t *testing.T) {
	const markup = `<img src=x onerror="document.body.dataset.hacked=1"><script>document.body.dataset.hacked=1</script>`
	quoted, err := json.Marshal(markup)
	if err != nil {
		t.Fatal(err)
	}
	s := &script{
		snapshots: map[string][]string{"s1": {snapshotOf("s1", 1, "active", `{"type":"text","text":"wave \ud83c","state":"streaming"}`, "")}},
		streams: []stream{{hold: true, frames: []string{
			text(2, "s1", `"\udf0a\n"`), text(3, "s1", string(quoted)), text(4, "s1", `"\n\n"`),
			chunkOf(5, "s1", "source_url", `"sourceId":"x","url":"javascript:document.body.dataset.hacked=1","title":`+string(quoted)),
			chunkOf(6, "s1", "file", `"url":"javascript:document.body.dataset.hacked=1","mediaType":"image/png"`),
			chunkOf(7, "s1", "tool_start", `"toolCallId":"c1","toolName":`+string(quoted)+`,"arguments":{"n":9007199254740993,"f":1.10}`),
			chunkOf(8, "s1", "state_patch", `"patches":[{"op":"add","path":"/__proto__","value":{"hacked":1}},{"op":"add","path":"/a~1b","value":[1,2]},{"op":"move","from":"/a~1b/0","path":"/a~1b/-"}]`),
			chunkOf(9, "s1", "state_patch", `"patches":[{"op":"remove","path":"/none"}]`),
			event(10, end),
		}}},
	}
	tab := s.open(t, "#s1")
	awaitStatus(t, tab, "ended")
	wantText(t, tab, map[string]string{"s1": "wave 🌊\n" + markup + "\n\n"})
	for question, want := range map[string]string{
		`String(document.body.dataset.hacked)`:                         "undefined",
		`String(({}).hacked)`:                                          "undefined",
		`String(document.querySelectorAll('main img, main a').length)`: "0",
		`String(document.querySelectorAll('#sources a').length)`:       "0",
		`document.querySelector('.tool .args').textContent`:            `{ "n": 9007199254740993, "f": 1.10 }`,
		`document.querySelector('.state .json').textContent`:           `{ "__proto__": { "hacked": 1 }, "a/b": [ 2, 1 ] }`,
	} {
		if got := eval[string](t, tab, question); got != want {
			t.Errorf("%s is %q, want %q", question, got, want)
		}
	}
}

// Thousands of pieces are drawn in few frames without loss.
func TestPageDrawsManyPiecesInFewFrames(t *testing.T) {
	var frames []string
	want := ""
	for i := range 5000 {
		piece := fmt.Sprint(i, " ")
		want += piece
		frames = append(frames, text(i+2, "s1", fmt.Sprintf("%q", piece)))
	}
	s := &script{
		snapshots: map[string][]string{"s1": {snapshotOf("s1", 1, "active", "", "")}},
		streams:   []stream{{hold: true, frames: append(frames, event(6000, end))}},
	}
	tab := s.open(t, "#s1")
	awaitStatus(t, tab, "ended")
	wantText(t, tab, map[string]string{"s1": want})
}

// After the end and a 204 the page does not reconnect.
func TestPageIsDone(t *testing.T) {
	s := &script{
		snapshots: map[string][]string{"s1": {snapshotOf("s1", 1, "active", "", "")}},
		streams:   []stream{{frames: []string{text(2, "s1", `"a"`), event(3, end)}}},
	}
	s.streams = append(s.streams, s.streams[0], stream{status: http.StatusNoContent})
	tab := s.open(t, "#s1")
	awaitConnection(t, tab, "done")
	wantText(t, tab, map[string]string{"s1": "a"})
}

// The page shows the reason of a failed run.
func TestPageShowsFailure(t *testing.T) {
	s := &script{
		snapshots: map[string][]string{"s1": {snapshotOf("s1", 1, "active", "", "")}},
		streams:   []stream{{hold: true, frames: []string{event(2, `{"type":"fail","error":"the model is on strike"}`)}}},
	}
	tab := s.open(t, "#s1")
	awaitStatus(t, tab, "failed")
	if shown := eval[string](t, tab, `document.querySelector('.event[data-tone="bad"]').textContent`); shown != "the model is on strike" {
		t.Errorf("shows %q", shown)
	}
}

// Errors and the output are shown after a reload as in the stream; an open text continues in one piece after
// them.
func TestPageShowsErrorsAndOutputAfterReload(t *testing.T) {
	const reported = `"error":"no answer <b>yet</b>","code":"BUSY","recoverable":true`
	const members = `,"errors":[{"seq":3,"message":"no answer <b>yet</b>","code":"BUSY","recoverable":true},{"seq":4,"message":"odd"}]` +
		`,"run":{"usage":{},"output":{"cities":[1,9007199254740993]}}}`
	with := func(snapshot string) string { return strings.TrimSuffix(snapshot, "}") + members }
	s := &script{
		snapshots: map[string][]string{"s1": {
			snapshotOf("s1", 1, "active", `{"type":"text","text":"Hel","state":"streaming"}`, ""),
			with(snapshotOf("s1", 5, "active", `{"type":"text","text":"Hello","state":"done"},{"type":"text","text":"good","state":"streaming"}`, "")),
		}},
		streams: []stream{
			{hold: true, frames: []string{
				text(2, "s1", `"lo"`), chunkOf(3, "s1", "error", reported), chunkOf(4, "s1", "error", `"error":"odd"`),
				chunkOf(5, "s1", "output", `"output":{"cities":[1,9007199254740993]}`),
			}},
			{hold: true, frames: []string{text(6, "s1", `"bye"`), event(7, end)}},
		},
	}
	tab := s.open(t, "#s1")
	poll(t, tab, `document.body.dataset.sequence === '5'`)
	const shown = `JSON.stringify([...document.querySelectorAll('.event, .output .json')].map((e) => [e.dataset.tone ?? '', e.textContent]))`
	const want = `[["bad","no answer <b>yet</b> (BUSY), continues"],["bad","odd"],["","{ \"cities\": [ 1, 9007199254740993 ] }"]]`
	if got := eval[string](t, tab, shown); got != want {
		t.Errorf("in the stream %s, want %s", got, want)
	}
	click(t, tab, "#reload")
	poll(t, tab, `document.body.dataset.status === 'ended' && document.body.dataset.sequence === '7'`)
	if got := eval[string](t, tab, shown); got != want {
		t.Errorf("after a reload %s, want %s", got, want)
	}
	if got := eval[string](t, tab, `[...document.querySelectorAll('.text')].map((e) => e.textContent).join('|')`); got != "Hello|goodbye" {
		t.Errorf("the texts are %q", got)
	}
}

// An error behind a text that is open is behind it after a reload, too, and the text continues in another part.
func TestPageShowsTheLastErrorAfterTheText(t *testing.T) {
	withError := strings.TrimSuffix(snapshotOf("s1", 3, "active", `{"type":"text","text":"Hello","state":"streaming"}`, ""), "}") + `,"errors":[{"seq":3,"message":"odd"}]}`
	s := &script{
		snapshots: map[string][]string{"s1": {snapshotOf("s1", 1, "active", `{"type":"text","text":"Hel","state":"streaming"}`, ""), withError}},
		streams: []stream{
			{hold: true, frames: []string{text(2, "s1", `"lo"`), chunkOf(3, "s1", "error", `"error":"odd"`)}},
			{hold: true, frames: []string{text(4, "s1", `"bye"`)}},
		},
	}
	tab := s.open(t, "#s1")
	const shown = `[...document.querySelectorAll('.text, .event')].map((e) => e.textContent).join('|')`
	poll(t, tab, `document.body.dataset.sequence === '3'`)
	if got := eval[string](t, tab, shown); got != "Hello|odd" {
		t.Errorf("in the stream %q", got)
	}
	click(t, tab, "#reload")
	poll(t, tab, `document.body.dataset.sequence === '4'`)
	if got := eval[string](t, tab, shown); got != "Hello|odd|bye" {
		t.Errorf("after a reload %q", got)
	}
}

// open serves the script and opens its page; a script error on the page fails the test.
func (s *script) open(t *testing.T, hash string) context.Context {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	browser := startChromium(t)
	if err := chromedp.Do(browser, chromedp.Navigate(srv.URL+"/"+hash)); err != nil {
		t.Fatal(err)
	}
	return browser
}

// startChromium fails the test if a page logs an error.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	browser := browsertest.Start(t)
	browsertest.WatchConsole(browser, t, func(line string) {
		if !strings.Contains(line, "Failed to load resource") {
			t.Errorf("console: %s", line)
		}
	})
	return browser
}

func eval[T any](t *testing.T, tab context.Context, expression string) T {
	t.Helper()
	return browsertest.Eval[T](tab, t, expression)
}

// poll waits until an expression is true.
func poll(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	browsertest.Await(tab, t, expression, `JSON.stringify(document.body.dataset)`)
}

func click(t *testing.T, tab context.Context, selector string) {
	t.Helper()
	poll(t, tab, fmt.Sprintf(`document.querySelector(%q) !== null`, selector))
	eval[bool](t, tab, fmt.Sprintf(`document.querySelector(%q).click() === undefined`, selector))
}

func awaitStatus(t *testing.T, tab context.Context, status string) {
	t.Helper()
	poll(t, tab, fmt.Sprintf(`document.body.dataset.status === %q`, status))
}

func awaitConnection(t *testing.T, tab context.Context, state string) {
	t.Helper()
	poll(t, tab, fmt.Sprintf(`document.body.dataset.connection === %q`, state))
}

func wantText(t *testing.T, tab context.Context, want map[string]string) {
	t.Helper()
	for agent, text := range want {
		got := eval[string](t, tab, fmt.Sprintf(`[...document.querySelectorAll('[data-session=%q] > .parts > .text')].map((e) => e.textContent).join('')`, agent))
		if got != text {
			t.Errorf("%s says %q, want %q", agent, got, text)
		}
	}
}
