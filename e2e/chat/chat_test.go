//go:build e2e

package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/browsertest"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/roletest"
	"github.com/tailrace/tailrace/internal/testkit/seedtest"
)

// scenario is one chat with its environment.
type scenario struct {
	*env
	*front

	t       *testing.T
	browser context.Context
	chat    string
}

// TestChat runs user scenarios with both major versions of the AI SDK in the
// portable dialect, and with the newer one in its own dialect where that differs;
// and with an agent that is the stock route of an application with the AI SDK,
// which the same page uses.
func TestChat(t *testing.T) {
	t.Parallel()
	browser, apps, built := browsertest.Start(t), make(map[int]app), make(map[int]string)
	for major := range manifests {
		apps[major] = newApp(t, major)
		built[major] = apps[major].build(t)
	}
	for name, test := range map[string]struct {
		major, words int
		scenes       []string // nil for all
		route        bool
	}{
		"ai6 behind a route":     {major: 6, words: 6, route: true},
		"ai7 behind a route":     {major: 7, words: 7, route: true},
		"ai6":                    {major: 6, words: 6},
		"ai7":                    {major: 7, words: 6},
		"ai7 in its own dialect": {major: 7, words: 7, scenes: []string{"worker killed and taken over", "approval between snapshot and stream", "stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a separate env
			agent := exampleAgent
			if test.route {
				agent = apps[test.major].routeAgent
			}
			w := newEnvWith(t, test.words, agent)
			for _, sc := range scenes {
				if test.scenes != nil && !slices.Contains(test.scenes, sc.name) {
					continue
				}
				t.Run(sc.name, func(t *testing.T) {
					s := &scenario{env: w, front: w.newFront(t, built[test.major], ""), t: t, browser: browser, chat: fmt.Sprintf("user/%d:a@b", rand.Int64())}
					s.startEdges() // a failed scenario may have left them stopped
					sc.play(s)
				})
			}
		})
	}
}

func (s *scenario) open() *page {
	s.t.Helper()
	return openPage(s.t, s.browser, s.url, s.chat)
}

// middle is where the long answer stops until it is released.
const middle = "This is sentence 15."

var scenes = []struct {
	name string
	play func(s *scenario)
}{
	{"fresh turn", func(s *scenario) {
		p := s.open()
		p.send("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message")
		p.send("And again")
		p.awaitText("You said: And again.")
		s.finish(p, 2, "submit-message", "submit-message")
	}},
	{"reload during the stream", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		p.reload()
		p.awaitText(middle)
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
	}},
	{"connection cut and resumed", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		s.cut()
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
	}},
	{"connection cut at any byte", func(s *scenario) {
		random := seedtest.Rand(s.t)
		var cuts []int
		for range 6 {
			cuts = append(cuts, 1+random.IntN(2000))
		}
		s.t.Logf("cut after %v bytes", cuts)
		s.release(s.t, s.chat)
		s.cutAfter(cuts...)
		p := s.open()
		p.send("tell me")
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
	}},
	{"two tabs", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText("This is sentence 3.")
		q := s.open()
		q.awaitText(middle)
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
		s.same(q, p)
	}},
	{"edge killed", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		s.edges[0].kill()
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
		s.startEdges()
	}},
	{"all edges killed", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		s.killEdges()
		p.await(`document.body.textContent.includes('The connection is lost.')`)
		s.startEdges()
		s.release(s.t, s.chat)
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
	}},
	{"message lost", func(s *scenario) {
		p := s.open()
		p.awaitRest(s.front)
		s.killEdges()
		p.send("Hello")
		p.await(`document.querySelector('#again')?.textContent === 'Send again'`)
		s.startEdges()
		p.click("#again")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message", "regenerate-message")
	}},
	{"worker killed and taken over", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		s.agent.kill()
		s.agent.start(s.t)
		s.release(s.t, s.chat)
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
		if runs := s.readLog(s.t, s.chat)[0].runs; runs < 2 {
			s.t.Errorf("%d runs: no takeover", runs)
		}
	}},
	{"projector killed and taken over", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		s.projector.kill()
		s.release(s.t, s.chat)
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
		s.projector.start(s.t)
		s.awaitSaved()
		s.finish(p, 1, "submit-message")
	}},
	{"approval granted", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.decide("Allow")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "delete output-available")
	}},
	{"approval denied", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.decide("Deny")
		p.awaitText("The files stay where they are.")
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "delete output-denied")
	}},
	{"approval lost", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.awaitText("May the agent do this?")
		p.awaitRest(s.front)
		s.killEdges()
		p.decide("Allow")
		p.await(`document.querySelector('#again')?.textContent === 'Send again'`)
		p.awaitStatus("error")
		s.startEdges()
		p.click("#again")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
	}},
	{"approval after a reload", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.awaitText("May the agent do this?")
		p.reload()
		p.decide("Allow")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"approval answered in another tab", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.awaitText("May the agent do this?")
		q := s.open()
		q.decide("Allow")
		q.awaitText("The files are gone.")
		// The first tab still shows the request. Its answer is too late, and it shows
		// the decision that counts.
		p.decide("Deny")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
		s.same(q, p)
		s.wantCall(p, "delete output-available")
	}},
	{"approval granted in two tabs", func(s *scenario) {
		p, q := s.open(), s.open()
		p.send("delete them")
		p.awaitText("May the agent do this?")
		q.reload()
		q.decide("Allow")
		p.decide("Allow")
		q.awaitText("The files are gone.")
		p.awaitText("The files are gone.")
		s.same(q, p)
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
	}},
	{"approval between snapshot and stream", func(s *scenario) {
		p := s.open()
		p.send("delete them slowly")
		p.awaitText("May the agent do this?")
		releaseReconnects := s.holdReconnects()
		q := s.open()
		q.awaitText("May the agent do this?")
		p.decide("Allow")
		p.awaitText("delete_files is done")
		releaseReconnects()
		q.awaitText("delete_files is done")
		s.release(s.t, s.chat)
		p.awaitText("The files are gone.")
		s.same(q, p)
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"a message instead of a decision", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.awaitText("May the agent do this?")
		p.send("tell me")
		p.awaitText(middle)
		// The run of the question has ended: no decision can be posted any more.
		p.await(`document.querySelectorAll('.decision button').length === 0`)
		s.release(s.t, s.chat)
		p.awaitRest(s.front)
		p.reload() // the snapshot has the outcome of the call
		p.await(`document.querySelector('[data-call="delete"]')?.dataset.state === 'output-error'`)
	}},
	{"a message that is too large", func(s *scenario) {
		p := s.open()
		p.send(strings.Repeat("x", 500<<10))
		p.await(`document.body.textContent.includes('the message is too large')`)
		p.await(`document.querySelector('#draft').value.length === 500 << 10`)
		p.awaitStatus("ready")
		p.send("Hello")
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"a message during an answer", func(s *scenario) {
		p, q := s.open(), s.open()
		q.awaitRest(s.front) // otherwise its page may resume the answer and cannot send
		p.send("tell me")
		p.awaitText(middle)
		q.send("Hello")
		q.await(`document.body.textContent.includes('an answer is already running')`)
		q.await(`document.querySelector('#draft').value === 'Hello'`)
		q.awaitText(middle)
		s.release(s.t, s.chat)
		s.same(q, p)
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"a tab that is shown again", func(s *scenario) {
		p := s.open()
		p.send("delete them")
		p.awaitText("May the agent do this?")
		q := s.open()
		q.decide("Deny")
		q.awaitText("The files stay where they are.")
		eval[bool](p, `document.dispatchEvent(new Event('visibilitychange'))`)
		p.awaitText("The files stay where they are.")
		s.finish(p, 1, "submit-message", "submit-message")
		s.same(q, p)
	}},
	{"a window that gets the focus", func(s *scenario) {
		q, p := s.open(), s.open()
		p.awaitRest(s.front)
		q.awaitRest(s.front)
		eval[bool](p, `{
			window.looks = 0;
			const ask = window.fetch;
			window.fetch = (path, request) => { if (path.includes('/snapshot')) window.looks++; return ask(path, request); };
			document.dispatchEvent(new Event('visibilitychange')) && window.dispatchEvent(new Event('focus'));
		}`)
		p.await(`window.looks === 1`)
		q.send("tell me")
		q.awaitText(middle)
		eval[bool](p, `window.dispatchEvent(new Event('focus'))`)
		p.awaitText(middle)
		// One for each time, and one of the page that loads the answer in progress.
		if looks := eval[int](p, `window.looks`); looks != 3 {
			s.t.Errorf("%d requests for the snapshot, want 3", looks)
		}
		s.release(s.t, s.chat)
		s.same(q, p)
		s.finish(q, 1, "submit-message")
	}},
	{"client tool", func(s *scenario) {
		p := s.open()
		p.send("where am I?")
		zone := eval[string](p, `Intl.DateTimeFormat().resolvedOptions().timeZone`)
		p.awaitText(fmt.Sprintf("Your clock says %q.", zone))
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "where output-available")
	}},
	{"client tool that waits for a page", func(s *scenario) {
		s.post("where am I?")
		p := s.open()
		p.awaitText("Your clock says")
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "where output-available")
	}},
	{"stop", func(s *scenario) {
		p := s.open()
		p.send("tell me")
		p.awaitText(middle)
		p.click("#stop")
		s.finish(p, 1, "submit-message")
		if text := s.readLog(s.t, s.chat)[0].text; !strings.Contains(text, middle) || strings.Contains(text, "sentence 16") {
			s.t.Errorf("the log has %q", text)
		}
		p.send("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 2, "submit-message", "submit-message")
	}},
	{"regenerate", func(s *scenario) {
		p := s.open()
		p.send("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message")
		before := p.bubbles()[1]
		p.click("#again")
		p.await(fmt.Sprintf(`[...document.querySelectorAll('.message')].at(-1).textContent.includes('You said') && !document.body.textContent.includes(%q)`, before.Text))
		s.finish(p, 1, "submit-message", "regenerate-message")
	}},
	{"branches", func(s *scenario) {
		p := s.open()
		p.send("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message")
		p.click(`.message[data-role="user"] button`)
		p.send("Hello there")
		p.awaitText("You said: Hello there.")
		p.await(`document.querySelector('.switcher')?.textContent.includes('2 / 2')`)
		p.click(`[aria-label="Earlier version"]`)
		p.awaitText("You said: Hello.")
		p.await(`document.querySelector('.switcher')?.textContent.includes('1 / 2')`)
		p.send("Carry on")
		p.awaitText("You said: Carry on.")
		p.await(`!document.body.textContent.includes('Hello there')`)
		p.await(`document.querySelector('.switcher')?.textContent.includes('1 / 2')`)
		p.reload()
		p.awaitText("You said: Carry on.")
		p.await(`!document.body.textContent.includes('Hello there') && document.querySelector('.switcher').textContent.includes('1 / 2')`)
		p.click(`[aria-label="Later version"]`)
		p.awaitText("You said: Hello there.")
		p.await(`!document.body.textContent.includes('Carry on')`)
	}},
	{"edit", func(s *scenario) {
		p := s.open()
		p.send("Hello")
		p.awaitText("You said: Hello.")
		p.send("Good bye")
		p.awaitText("You said: Good bye.")
		s.finish(p, 2, "submit-message", "submit-message")
		p.click(`.message[data-role="user"] button`)
		p.send("Hello there")
		p.awaitText("You said: Hello there.")
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
	}},
	{"failure", func(s *scenario) {
		p := s.open()
		p.send("fail")
		p.await(`document.querySelector('[role=alert]')?.textContent === 'The model is on strike.'`)
		s.shows(p, 1)
		p.reload()
		p.await(`document.querySelector('[role=alert]')?.textContent === 'The model is on strike.'`)
		s.finish(p, 1, "submit-message")
		p.click("#again")
		p.await(`document.querySelector('[role=alert]')?.textContent === 'The model is on strike.'`)
		s.shows(p, 1)
		if posts, _ := s.requests(); len(posts) != 2 {
			s.t.Errorf("POSTs %v", posts)
		}
	}},
}

// post sends a message without a page and reads the answer to its end.
func (s *scenario) post(text string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":%q}]}]}`, s.chat, text)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/api/chat", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d, %v: %s", resp.StatusCode, err, answer)
	}
}

func (s *scenario) killEdges() {
	for _, e := range s.edges {
		e.kill()
	}
}

// startEdges starts the edges that are not running.
func (s *scenario) startEdges() {
	s.t.Helper()
	for _, e := range s.edges {
		if e.ended() {
			e.start(s.t)
		}
		roletest.AwaitStarted(s.t, e.ops)
	}
}

// awaitSaved waits until the stored snapshot of the chat has the last record of its log.
func (s *scenario) awaitSaved() {
	s.t.Helper()
	session := chunk.RootSession("default", s.chat)
	last, err := s.Log.Last(s.t.Context(), session)
	if err != nil {
		s.t.Fatal(err)
	}
	natstest.Eventually(s.t, "the snapshot of "+s.chat, func(ctx context.Context) error {
		saved, _, _, err := s.Reader.StoredPosition(ctx, session)
		if err == nil && saved.Seq != last.Seq {
			err = fmt.Errorf("snapshot is at record %d, log at %d", saved.Seq, last.Seq)
		}
		return err
	})
}

// finish waits until the page is idle. Then it must show the log, must have sent
// no more requests than needed, and must show the same after a reload.
func (s *scenario) finish(p *page, answers int, posts ...string) {
	s.t.Helper()
	p.awaitRest(s.front)
	s.shows(p, answers)
	if got, _ := s.requests(); !slices.Equal(got, posts) {
		s.t.Errorf("POSTs %v, want %v", got, posts)
	}
	before := p.bubbles()
	p.reload()
	p.awaitStatus("ready")
	p.awaitBubbles(before)
}

// shows compares a page with the log: the given number of answers, each in one
// bubble, equal to the last ones of the log.
func (s *scenario) shows(p *page, answers int) {
	s.t.Helper()
	turns := s.readLog(s.t, s.chat)
	if len(turns) < answers {
		s.t.Fatalf("the log has %d turns, want %d at least", len(turns), answers)
	}
	turns = turns[len(turns)-answers:]
	shown := p.bubbles()
	if len(shown) != 2*answers {
		s.t.Fatalf("%d bubbles, want %d: %+v", len(shown), 2*answers, shown)
	}
	ids := make(map[string]bool)
	for i, turn := range turns {
		question, answer := shown[2*i], shown[2*i+1]
		if question.Role != "user" || question.Text != turn.question {
			s.t.Errorf("bubble %d is %+v, want %q as in the log", 2*i, question, turn.question)
		}
		if answer.Role != "assistant" || answer.Text != turn.text {
			s.t.Errorf("bubble %d is\n%+v, want as in the log\n%q", 2*i+1, answer, turn.text)
		}
		ids[question.ID], ids[answer.ID] = true, true
	}
	if len(ids) != len(shown) {
		s.t.Errorf("two bubbles have the same id: %+v", shown)
	}
}

// same waits until a page is idle and compares it with another one.
func (s *scenario) same(p, other *page) {
	s.t.Helper()
	p.awaitRest(s.front)
	p.awaitBubbles(other.bubbles())
}

func (s *scenario) wantCall(p *page, want string) {
	s.t.Helper()
	shown := p.bubbles()
	if got := shown[len(shown)-1].Calls; !slices.Equal(got, []string{want}) {
		s.t.Errorf("calls %v, want %s", got, want)
	}
}

// equal compares bubbles except for the ids of user messages, which the page
// generates.
func equal(a, b []bubble) bool {
	return slices.EqualFunc(a, b, func(a, b bubble) bool {
		return a.Role == b.Role && a.Text == b.Text && slices.Equal(a.Calls, b.Calls) && (a.ID == b.ID || a.Role == "user")
	})
}
