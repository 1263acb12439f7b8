//go:build e2e

package chat

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/chromiumtest"
)

var seedFlag = flag.Uint64("chat-seed", 0, "where connections are cut; 0: random")

// scene is one chat, and all that happens in it.
type scene struct {
	*world
	*front

	t       *testing.T
	browser context.Context
	chat    string
}

// TestChat is what people do, with both major versions of the AI SDK in the words
// that both understand, and with the newer one in its own where those differ.
func TestChat(t *testing.T) {
	t.Parallel()
	browser, apps := chromiumtest.Start(t), make(map[int]string)
	for major := range manifests {
		apps[major] = newApp(t, major).build(t)
	}
	for name, test := range map[string]struct {
		major, words int
		scenes       []string // nil for all
	}{
		"ai6":                     {major: 6, words: 6},
		"ai7":                     {major: 7, words: 6},
		"ai7 in words of its own": {major: 7, words: 7, scenes: []string{"worker killed and taken over", "approval between snapshot and stream", "stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a world of its own
			w := newWorld(t, test.words)
			for _, sc := range scenes {
				if test.scenes != nil && !slices.Contains(test.scenes, sc.name) {
					continue
				}
				t.Run(sc.name, func(t *testing.T) {
					s := &scene{world: w, front: w.newFront(t, apps[test.major]), t: t, browser: browser, chat: fmt.Sprintf("chat-%d", rand.Int64())}
					s.startEdges() // a scene that failed may have left them dead
					sc.play(s)
				})
			}
		})
	}
}

func (s *scene) open() *page {
	s.t.Helper()
	return openPage(s.t, s.browser, s.url, s.chat)
}

// middle is where the long answer stops until it is released.
const middle = "This is sentence 15."

var scenes = []struct {
	name string
	play func(s *scene)
}{
	{"fresh turn", func(s *scene) {
		p := s.open()
		p.say("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message")
		p.say("And again")
		p.awaitText("You said: And again.")
		s.finish(p, 2, "submit-message", "submit-message")
	}},
	{"reload in mid-stream", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText(middle)
		p.reload()
		p.awaitText(middle)
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
	}},
	{"connection cut and resumed", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText(middle)
		s.cut()
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
	}},
	{"connection cut at any byte", func(s *scene) {
		seed := cmp.Or(*seedFlag, rand.Uint64())
		random := rand.New(rand.NewPCG(seed, 0))
		var cuts []int
		for range 6 {
			cuts = append(cuts, 1+random.IntN(2000))
		}
		s.t.Logf("-chat-seed %d: cut after %v bytes", seed, cuts)
		s.release(s.t, s.chat)
		s.cutAfter(cuts...)
		p := s.open()
		p.say("tell me")
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
	}},
	{"two tabs", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText("This is sentence 3.")
		q := s.open()
		q.awaitText(middle)
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
		s.same(q, p)
	}},
	{"edge killed", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText(middle)
		s.edges[0].kill()
		s.release(s.t, s.chat)
		s.finish(p, 1, "submit-message")
		s.startEdges()
	}},
	{"all edges killed", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText(middle)
		s.killEdges()
		p.await(`document.body.textContent.includes('The connection is lost.')`)
		s.startEdges()
		s.release(s.t, s.chat)
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
	}},
	{"message that did not arrive", func(s *scene) {
		p := s.open()
		p.awaitRest(s.front)
		s.killEdges()
		p.say("Hello")
		p.await(`document.querySelector('#again')?.textContent === 'Send again'`)
		s.startEdges()
		p.click("#again")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message", "regenerate-message")
	}},
	{"worker killed and taken over", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText(middle)
		s.agent.kill()
		s.agent.start(s.t)
		s.release(s.t, s.chat)
		p.awaitText("This is sentence 25.")
		s.finish(p, 1, "submit-message")
		if runs := s.readLog(s.t, s.chat)[0].runs; runs < 2 {
			s.t.Errorf("%d runs: nobody took over", runs)
		}
	}},
	{"approval granted", func(s *scene) {
		p := s.open()
		p.say("delete them")
		p.decide("Allow")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "delete output-available")
	}},
	{"approval denied", func(s *scene) {
		p := s.open()
		p.say("delete them")
		p.decide("Deny")
		p.awaitText("The files stay where they are.")
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "delete output-denied")
	}},
	{"approval that did not arrive", func(s *scene) {
		p := s.open()
		p.say("delete them")
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
	{"approval after a reload", func(s *scene) {
		p := s.open()
		p.say("delete them")
		p.awaitText("May the agent do this?")
		p.reload()
		p.decide("Allow")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"approval answered in another tab", func(s *scene) {
		p := s.open()
		p.say("delete them")
		p.awaitText("May the agent do this?")
		q := s.open()
		q.decide("Allow")
		q.awaitText("The files are gone.")
		// The first tab still asks. Its answer comes too late, and it shows what counts.
		p.decide("Deny")
		p.awaitText("The files are gone.")
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
		s.same(q, p)
		s.wantCall(p, "delete output-available")
	}},
	{"approval granted in two tabs", func(s *scene) {
		p, q := s.open(), s.open()
		p.say("delete them")
		p.awaitText("May the agent do this?")
		q.reload()
		q.decide("Allow")
		p.decide("Allow")
		q.awaitText("The files are gone.")
		p.awaitText("The files are gone.")
		s.same(q, p)
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
	}},
	{"approval between snapshot and stream", func(s *scene) {
		p := s.open()
		p.say("delete them slowly")
		p.awaitText("May the agent do this?")
		letGo := s.holdReconnects()
		q := s.open()
		q.awaitText("May the agent do this?")
		p.decide("Allow")
		p.awaitText("delete_files is done")
		letGo()
		q.awaitText("delete_files is done")
		s.release(s.t, s.chat)
		p.awaitText("The files are gone.")
		s.same(q, p)
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"a message beside a running answer", func(s *scene) {
		p, q := s.open(), s.open()
		p.say("tell me")
		p.awaitText(middle)
		q.say("Hello")
		q.await(`document.body.textContent.includes('an answer is already running')`)
		q.await(`document.querySelector('#draft').value === 'Hello'`)
		q.awaitText(middle)
		s.release(s.t, s.chat)
		s.same(q, p)
		s.finish(p, 1, "submit-message", "submit-message")
	}},
	{"a tab that is shown again", func(s *scene) {
		p := s.open()
		p.say("delete them")
		p.awaitText("May the agent do this?")
		q := s.open()
		q.decide("Deny")
		q.awaitText("The files stay where they are.")
		eval[bool](p, `document.dispatchEvent(new Event('visibilitychange'))`)
		p.awaitText("The files stay where they are.")
		s.finish(p, 1, "submit-message", "submit-message")
		s.same(q, p)
	}},
	{"client tool", func(s *scene) {
		p := s.open()
		p.say("where am I?")
		zone := eval[string](p, `Intl.DateTimeFormat().resolvedOptions().timeZone`)
		p.awaitText(fmt.Sprintf("Your clock says %q.", zone))
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "where output-available")
	}},
	{"client tool that waits for a page", func(s *scene) {
		s.post("where am I?")
		p := s.open()
		p.awaitText("Your clock says")
		s.finish(p, 1, "submit-message", "submit-message")
		s.wantCall(p, "where output-available")
	}},
	{"stop", func(s *scene) {
		p := s.open()
		p.say("tell me")
		p.awaitText(middle)
		p.click("#stop")
		s.finish(p, 1, "submit-message")
		if text := s.readLog(s.t, s.chat)[0].text; !strings.Contains(text, middle) || strings.Contains(text, "sentence 16") {
			s.t.Errorf("the log has %q", text)
		}
		p.say("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 2, "submit-message", "submit-message")
	}},
	{"regenerate", func(s *scene) {
		p := s.open()
		p.say("Hello")
		p.awaitText("You said: Hello.")
		s.finish(p, 1, "submit-message")
		before := p.bubbles()[1]
		p.click("#again")
		p.await(fmt.Sprintf(`[...document.querySelectorAll('.message')].at(-1).textContent.includes('You said') && !document.body.textContent.includes(%q)`, before.Text))
		s.finish(p, 1, "submit-message", "regenerate-message")
	}},
	{"edit", func(s *scene) {
		p := s.open()
		p.say("Hello")
		p.awaitText("You said: Hello.")
		p.say("Good bye")
		p.awaitText("You said: Good bye.")
		s.finish(p, 2, "submit-message", "submit-message")
		p.click(`.message[data-role="user"] button`)
		p.say("Hello there")
		p.awaitText("You said: Hello there.")
		s.finish(p, 1, "submit-message", "submit-message", "submit-message")
	}},
	{"failure", func(s *scene) {
		p := s.open()
		p.say("fail")
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

// post says something without a page, and reads the answer to its end.
func (s *scene) post(text string) {
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

func (s *scene) killEdges() {
	for _, e := range s.edges {
		e.kill()
	}
}

// startEdges starts those that do not run.
func (s *scene) startEdges() {
	s.t.Helper()
	for _, e := range s.edges {
		if e.ended() {
			e.start(s.t)
		}
		e.awaitReady(s.t)
	}
}

// finish waits until the page rests. Then it must show the log, have asked no more
// than it had to, and show the same after a reload.
func (s *scene) finish(p *page, answers int, posts ...string) {
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

// shows compares a page with the log: so many answers, each in one bubble, and the
// last ones of the log.
func (s *scene) shows(p *page, answers int) {
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
		said, answer := shown[2*i], shown[2*i+1]
		if said.Role != "user" || said.Text != turn.said {
			s.t.Errorf("bubble %d is %+v, the log says %q", 2*i, said, turn.said)
		}
		if answer.Role != "assistant" || answer.Text != turn.text {
			s.t.Errorf("bubble %d is\n%+v, the log says\n%q", 2*i+1, answer, turn.text)
		}
		ids[said.ID], ids[answer.ID] = true, true
	}
	if len(ids) != len(shown) {
		s.t.Errorf("two bubbles have one id: %+v", shown)
	}
}

// same waits until a page rests, and compares it with another one.
func (s *scene) same(p, other *page) {
	s.t.Helper()
	p.awaitRest(s.front)
	p.awaitBubbles(other.bubbles())
}

func (s *scene) wantCall(p *page, want string) {
	s.t.Helper()
	shown := p.bubbles()
	if got := shown[len(shown)-1].Calls; !slices.Equal(got, []string{want}) {
		s.t.Errorf("calls %v, want %s", got, want)
	}
}

// equal compares what is shown, but for the ids of a person's messages: the page
// makes them.
func equal(a, b []bubble) bool {
	return slices.EqualFunc(a, b, func(a, b bubble) bool {
		return a.Role == b.Role && a.Text == b.Text && slices.Equal(a.Calls, b.Calls) && (a.ID == b.ID || a.Role == "user")
	})
}
