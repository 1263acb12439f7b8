//go:build e2e

package aisdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

// inEnvs runs a test with both major versions and the built command, which uses the portable dialect, and for 7.x in
// its own dialect too.
func inEnvs(t *testing.T, test func(t *testing.T, w *env, j *sdkClient)) {
	t.Helper()
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		t.Run("portable", func(t *testing.T) {
			w := newBinaryEnv(t)
			w.worker()
			test(t, w, j)
		})
		if j.major == 7 {
			t.Run("seven", func(t *testing.T) {
				w := newEnv(t, dialect.Options{Major: 7})
				w.worker()
				test(t, w, j)
			})
		}
	})
}

const plain = "reasoning + search(output-available) + data-progress + Done: "

// plays are the scenarios between a page and its user.
var plays = []struct {
	name string
	play func(p *page)
}{
	{"a fresh turn, and another", func(p *page) {
		p.send("Hi")
		p.shows("? Hi / msg-1 " + plain + "Hi")
		p.send("again")
		p.posts(2)
		p.shows("? Hi / msg-1 " + plain + "Hi / ? again / msg-3 " + plain + "again")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 Hi / msg-1 " + plain + "Hi / msg-2 again / msg-3 " + plain + "again")
		later.posts(0)
	}},
	{"nothing to resume", func(p *page) {
		if s := p.act(p.t, "resume"); s.Status != "ready" || len(s.Errors) > 0 || len(s.Messages) > 0 {
			p.t.Errorf("%+v", s)
		}
	}},
	{"a reload during the stream, and a second tab", func(p *page) {
		p.sendUntil("slow", "Hel")
		reloaded, second := p.reload(nil), p.reload(nil)
		reloaded.begin(p.t, "resume")
		second.begin(p.t, "resume")
		for _, tab := range []*page{reloaded, second} {
			tab.until(p.t, map[string]any{"text": "Hel", "status": "streaming"})
		}
		p.env.script.release(p.id)
		for _, tab := range []*page{p, reloaded, second} {
			tab.until(p.t, map[string]any{"status": "ready", "text": "Hello"})
		}
		p.shows("? slow / msg-1 Hello")
		reloaded.shows("msg-0 slow / msg-1 Hello")
		second.shows("msg-0 slow / msg-1 Hello")
		p.posts(1)
		reloaded.posts(0)
	}},
	{"a tool of the page", func(p *page) {
		s := p.send("where")
		if len(s.ToolCalls) != 1 {
			p.t.Errorf("client tool calls of the page: %v", s.ToolCalls)
		}
		p.shows("? where / msg-1 page_where(input-available)")
		p.answer(p.t, answer{ToolCallID: "c1", Output: verbatim(`{"city":"Oslo"}`)})
		p.shows("? where / msg-1 page_where(output-available) + Done: where")
		p.posts(2)
	}},
	{"a tool of the page that fails, after a reload", func(p *page) {
		p.send("where")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.answer(p.t, answer{ToolCallID: "c1", ErrorText: new("no idea")})
		later.shows("msg-0 where / msg-1 page_where(output-error) + Done: where")
		later.posts(1)
	}},
	{"an approval, granted", func(p *page) {
		s := p.send("delete")
		p.shows("? delete / msg-1 Shall I? + delete(approval-requested)")
		p.approve(s, true)
		p.shows("? delete / msg-1 Shall I? + delete(output-available) + Done: delete")
		p.posts(2)
	}},
	{"an approval, denied", func(p *page) {
		p.approve(p.send("delete"), false)
		p.shows("? delete / msg-1 Shall I? + delete(output-denied) + Done: delete")
		p.posts(2)
	}},
	{"an approval, answered in another tab", func(p *page) {
		p.send("delete")
		other := p.reload(nil)
		other.approve(other.act(p.t, "resume"), true)
		other.shows("msg-0 delete / msg-1 Shall I? + delete(output-available) + Done: delete")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 delete / msg-1 Shall I? + delete(output-available) + Done: delete")
		// The first tab still shows the request. The answer of its user is too late, and the page does not send it
		// repeatedly.
		p.approve(p.act(p.t, "rest"), false)
		p.posts(2)
	}},
	{"an approval, ignored", func(p *page) {
		p.send("delete")
		p.send("Hi")
		p.posts(2)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 delete / msg-1 Shall I? + delete(output-error) / msg-2 Hi / msg-3 " + plain + "Hi")
	}},
	{"a sub-agent", func(p *page) {
		p.send("ask Hi")
		p.shows("? ask Hi / msg-1 subagent__helper(output-available) + Done: ask Hi")
		p.posts(1)
	}},
	{"a sub-agent, and a reload while it runs", func(p *page) {
		p.begin(p.t, "send", map[string]any{"text": "ask slow"})
		p.until(p.t, map[string]any{"data": "data-subagent-start"})
		reloaded := p.reload(nil)
		reloaded.begin(p.t, "resume")
		reloaded.until(p.t, map[string]any{"text": "subagent__helper"})
		p.env.script.release(p.child())
		for _, tab := range []*page{p, reloaded} {
			tab.until(p.t, map[string]any{"status": "ready", "text": "Done"})
		}
		p.shows("? ask slow / msg-1 subagent__helper(output-available) + Done: ask slow")
		reloaded.shows("msg-0 ask slow / msg-1 subagent__helper(output-available) + Done: ask slow")
		p.posts(1)
		reloaded.posts(0)
	}},
	{"a sub-agent that asks", func(p *page) {
		p.approve(p.send("ask delete"), true)
		p.until(p.t, map[string]any{"status": "ready", "text": "Done"})
		p.posts(2)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 ask delete / msg-1 subagent__helper(output-available) + Done: ask delete")
	}},
	{"a sub-agent that asks, and a reload before the answer", func(p *page) {
		p.send("ask delete")
		reloaded := p.reload(nil)
		reloaded.approve(reloaded.act(p.t, "resume"), true)
		reloaded.until(p.t, map[string]any{"status": "ready", "text": "Done"})
		reloaded.posts(1)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 ask delete / msg-1 subagent__helper(output-available) + Done: ask delete")
		later.posts(0)
	}},
	{"a stop", func(p *page) {
		p.sendUntil("slow", "Hel")
		p.request(http.MethodPost, "/stop", "{}", http.StatusAccepted)
		p.until(p.t, map[string]any{"status": "ready"})
		p.shows("? slow / msg-1 Hel")
		p.posts(1)
	}},
	{"a page that goes away", func(p *page) {
		p.sendUntil("slow", "Hel")
		p.act(p.t, "stop") // closes the connection, and nothing else
		p.env.script.release(p.id)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 slow / msg-1 Hello")
	}},
	{"a connection that is cut, resumed with a cursor on another edge", func(first *page) {
		p := first.another(map[string]any{"breaks": []string{"Hel"}, "cursor": 0})
		p.sendUntil("slow", "Hel")
		p.until(p.t, map[string]any{"status": "error"})
		p.act(p.t, "move", p.env.edges[1]+"/api/chat")
		p.begin(p.t, "resume")
		p.until(p.t, map[string]any{"requests": 2})
		p.env.script.release(p.id)
		p.until(p.t, map[string]any{"status": "ready", "text": "Hello"})
		p.shows("? slow / msg-1 Hello")
		p.posts(1)
	}},
	{"a connection that is cut, resumed without a cursor by a Chat", func(first *page) {
		p := first.another(map[string]any{"breaks": []string{"Hel"}, "hook": false})
		p.sendUntil("slow", "Hel")
		p.until(p.t, map[string]any{"status": "error"})
		p.env.script.release(p.id)
		natstest.Eventually(p.t, "the end of the answer", func(context.Context) error {
			if messages, _ := p.snapshot(); len(messages) < 2 {
				return errors.New("the answer is incomplete")
			}
			return nil
		})
		// No response is in flight any more: without a cursor the edge cannot know that records are missing, so the
		// app resumes with one.
		p.act(p.t, "resume")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 slow / msg-1 Hello")
	}},
	{"once more", func(p *page) {
		p.send("Hi")
		p.act(p.t, "regenerate")
		p.posts(2)
		s := p.act(p.t, "rest")
		if !strings.HasSuffix(s.String(), plain+"Hi") || len(s.Messages) != 2 {
			p.t.Errorf("%s", s)
		}
		if d := p.differs(); d != "" {
			p.t.Error(d)
		}
	}},
	{"a failure", func(p *page) {
		s := p.send("fail")
		if s.Error != "Error: the model is tired" {
			p.t.Errorf("the page shows error %q", s.Error)
		}
		p.shows("error: ? fail / msg-1 Well")
		p.posts(1)
		p.send("Hi")
		p.shows("? fail / msg-1 Well / ? Hi / msg-3 " + plain + "Hi")
	}},
}

// The stock client over HTTP shows the messages of the snapshot at the end, and sends one request per user input.
func TestLive(t *testing.T) {
	inEnvs(t, func(t *testing.T, w *env, j *sdkClient) {
		t.Helper()
		for _, c := range plays {
			t.Run(c.name, func(t *testing.T) { c.play(w.newPage(t, j, nil)) })
		}
	})
}

// A worker is killed during an answer and another one takes over: the incomplete step of the first is removed. A page
// of 7.x in its own dialect shows the log, any other page is notified that it has to reload.
func TestAnswerTakenOverByAnotherWorker(t *testing.T) {
	inEnvs(t, func(t *testing.T, w *env, j *sdkClient) {
		t.Helper()
		p := w.newPage(t, j, nil)
		p.sendUntil("slow", "Hel")
		w.kill()
		w.worker()
		natstest.Eventually(t, "another worker", func(context.Context) error {
			if n := w.script.waitsOf(p.id); n < 2 {
				return fmt.Errorf("%d runs of the agent", n)
			}
			return nil
		})
		w.script.release(p.id)
		s := p.until(t, map[string]any{"status": "ready", "text": "lo"})
		if w.opt.Major == 7 {
			p.shows("? slow / msg-1 Hello")
		} else if !s.hasData("data-truncated") {
			t.Errorf("the page is not notified that it shows removed parts: %s", s)
		}
		later := p.reload(nil)
		later.act(t, "resume")
		later.shows("msg-0 slow / msg-1 Hello")
		p.posts(1)
	})
}

// An edge is killed during an answer. The page gets a connection error, and another edge continues the response.
func TestKilledEdgeDuringAnswer(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		w := newBinaryEnv(t)
		w.worker()
		p := w.newPage(t, j, map[string]any{"api": w.edges[1] + "/api/chat", "cursor": 0})
		p.sendUntil("slow", "Hel")
		w.killEdge()
		if s := p.until(t, map[string]any{"status": "error"}); !s.Finishes[0].IsDisconnect {
			t.Errorf("the page does not report a disconnect: %+v", s.Finishes)
		}
		p.act(t, "move", w.edges[0]+"/api/chat")
		p.begin(t, "resume")
		p.until(t, map[string]any{"requests": 2})
		w.script.release(p.id)
		p.until(t, map[string]any{"status": "ready", "text": "Hello"})
		p.shows("? slow / msg-1 Hello")
		p.posts(1)
	})
}

// child returns the session of the sub-agent in the data of the page.
func (p *page) child() string {
	p.t.Helper()
	for _, d := range p.act(p.t, "look").Data {
		var b struct {
			SubSessionID string `json:"subSessionId"`
		}
		if err := json.Unmarshal(d.Data, &b); err != nil {
			p.t.Fatal(err)
		}
		if d.Type == "data-subagent-start" {
			return b.SubSessionID
		}
	}
	p.t.Fatal("no data of a sub-agent")
	return ""
}

// posts checks the number of POST requests of the page.
func (p *page) posts(want int) {
	p.t.Helper()
	if s := p.act(p.t, "rest"); s.posts() != want {
		p.t.Errorf("%d POSTs, want %d: %s", s.posts(), want, s)
	}
}

// approve answers the approval request of the page.
func (p *page) approve(s chatState, yes bool) {
	p.t.Helper()
	for _, m := range s.Messages {
		for _, part := range m.Parts {
			if id := approvalOf(part); id != "" {
				p.act(p.t, "approve", map[string]any{"id": id, "approved": yes})
				return
			}
		}
	}
	p.t.Fatalf("no approval request: %s", s)
}
