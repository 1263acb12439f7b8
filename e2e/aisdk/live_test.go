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

	"github.com/tailrace/tailrace/internal/natstest"
)

// inTowns runs a test with both judges before the built command, which speaks the
// portable dialect, and for 7.x in its own dialect too.
func inTowns(t *testing.T, test func(t *testing.T, w *town, j *judge)) {
	t.Helper()
	bothMajors(t, func(t *testing.T, j *judge) {
		t.Helper()
		t.Run("portable", func(t *testing.T) {
			w := newBinaryTown(t)
			w.worker()
			test(t, w, j)
		})
		if j.major == 7 {
			t.Run("seven", func(t *testing.T) {
				w := newTown(t, dialect.Options{Major: 7})
				w.worker()
				test(t, w, j)
			})
		}
	})
}

const plain = "reasoning + search(output-available) + data-progress + Done: "

// plays are what may happen between a page and its people.
var plays = []struct {
	name string
	play func(p *page)
}{
	{"a fresh turn, and another", func(p *page) {
		p.say("Hi")
		p.shows("? Hi / msg-1 " + plain + "Hi")
		p.say("again")
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
	{"a reload in mid-stream, and a second tab", func(p *page) {
		p.sayUntil("slow", "Hel")
		reloaded, second := p.reload(nil), p.reload(nil)
		reloaded.begin(p.t, "resume")
		second.begin(p.t, "resume")
		for _, tab := range []*page{reloaded, second} {
			tab.until(p.t, map[string]any{"text": "Hel", "status": "streaming"})
		}
		p.town.acts.give(p.id)
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
		s := p.say("where")
		if len(s.ToolCalls) != 1 {
			p.t.Errorf("the page is asked to run %v", s.ToolCalls)
		}
		p.shows("? where / msg-1 page_where(input-available)")
		p.answer(p.t, answer{ToolCallID: "c1", Output: verbatim(`{"city":"Oslo"}`)})
		p.shows("? where / msg-1 page_where(output-available) + Done: where")
		p.posts(2)
	}},
	{"a tool of the page that fails, after a reload", func(p *page) {
		p.say("where")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.answer(p.t, answer{ToolCallID: "c1", ErrorText: new("no idea")})
		later.shows("msg-0 where / msg-1 page_where(output-error) + Done: where")
		later.posts(1)
	}},
	{"an approval, granted", func(p *page) {
		s := p.say("delete")
		p.shows("? delete / msg-1 Shall I? + delete(approval-requested)")
		p.approve(s, true)
		p.shows("? delete / msg-1 Shall I? + delete(output-available) + Done: delete")
		p.posts(2)
	}},
	{"an approval, denied", func(p *page) {
		p.approve(p.say("delete"), false)
		p.shows("? delete / msg-1 Shall I? + delete(output-denied) + Done: delete")
		p.posts(2)
	}},
	{"an approval, answered in another tab", func(p *page) {
		p.say("delete")
		other := p.reload(nil)
		other.approve(other.act(p.t, "resume"), true)
		other.shows("msg-0 delete / msg-1 Shall I? + delete(output-available) + Done: delete")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 delete / msg-1 Shall I? + delete(output-available) + Done: delete")
		// The first tab still asks. What its people say now comes too late, and the
		// page does not say it again and again.
		p.approve(p.act(p.t, "rest"), false)
		p.posts(2)
	}},
	{"an approval, ignored", func(p *page) {
		p.say("delete")
		p.say("Hi")
		p.posts(2)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 delete / msg-1 Shall I? + delete(output-error) / msg-2 Hi / msg-3 " + plain + "Hi")
	}},
	{"a sub-agent", func(p *page) {
		p.say("ask Hi")
		p.shows("? ask Hi / msg-1 subagent__helper(output-available) + Done: ask Hi")
		p.posts(1)
	}},
	{"a sub-agent, and a reload while it is at work", func(p *page) {
		p.begin(p.t, "send", map[string]any{"text": "ask slow"})
		p.until(p.t, map[string]any{"data": "data-subagent-start"})
		reloaded := p.reload(nil)
		reloaded.begin(p.t, "resume")
		reloaded.until(p.t, map[string]any{"text": "subagent__helper"})
		p.town.acts.give(p.child())
		for _, tab := range []*page{p, reloaded} {
			tab.until(p.t, map[string]any{"status": "ready", "text": "Done"})
		}
		p.shows("? ask slow / msg-1 subagent__helper(output-available) + Done: ask slow")
		reloaded.shows("msg-0 ask slow / msg-1 subagent__helper(output-available) + Done: ask slow")
		p.posts(1)
		reloaded.posts(0)
	}},
	{"a sub-agent that asks", func(p *page) {
		p.approve(p.say("ask delete"), true)
		p.until(p.t, map[string]any{"status": "ready", "text": "Done"})
		p.posts(2)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 ask delete / msg-1 subagent__helper(output-available) + Done: ask delete")
	}},
	{"a sub-agent that asks, and a reload before the answer", func(p *page) {
		p.say("ask delete")
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
		p.sayUntil("slow", "Hel")
		p.request(http.MethodPost, "/stop", "{}", http.StatusAccepted)
		p.until(p.t, map[string]any{"status": "ready"})
		p.shows("? slow / msg-1 Hel")
		p.posts(1)
	}},
	{"a page that goes away", func(p *page) {
		p.sayUntil("slow", "Hel")
		p.act(p.t, "stop") // closes the connection, and nothing else
		p.town.acts.give(p.id)
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 slow / msg-1 Hello")
	}},
	{"a connection that is cut, resumed with a cursor on another edge", func(first *page) {
		p := first.another(map[string]any{"breaks": []string{"Hel"}, "cursor": 0})
		p.sayUntil("slow", "Hel")
		p.until(p.t, map[string]any{"status": "error"})
		p.act(p.t, "move", p.town.edges[1]+"/api/chat")
		p.begin(p.t, "resume")
		p.until(p.t, map[string]any{"requests": 2})
		p.town.acts.give(p.id)
		p.until(p.t, map[string]any{"status": "ready", "text": "Hello"})
		p.shows("? slow / msg-1 Hello")
		p.posts(1)
	}},
	{"a connection that is cut, resumed without a cursor by a Chat", func(first *page) {
		p := first.another(map[string]any{"breaks": []string{"Hel"}, "hook": false})
		p.sayUntil("slow", "Hel")
		p.until(p.t, map[string]any{"status": "error"})
		p.town.acts.give(p.id)
		natstest.Await(p.t, "the end of the answer", func(context.Context) error {
			if messages, _ := p.snapshot(); len(messages) < 2 {
				return errors.New("it is on its way")
			}
			return nil
		})
		// Nothing is on its way any more: without a cursor the edge cannot know
		// that anything is missing, so the app asks with one.
		p.act(p.t, "resume")
		later := p.reload(nil)
		later.act(p.t, "resume")
		later.shows("msg-0 slow / msg-1 Hello")
	}},
	{"once more", func(p *page) {
		p.say("Hi")
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
		s := p.say("fail")
		if s.Error != "Error: the model is tired" {
			p.t.Errorf("the page says %q", s.Error)
		}
		p.shows("error: ? fail / msg-1 Well")
		p.posts(1)
		p.say("Hi")
		p.shows("? fail / msg-1 Well / ? Hi / msg-3 " + plain + "Hi")
	}},
}

// The stock client, over HTTP: what its people see in the end is what the
// snapshot serves, and it asks as often as they have said something.
func TestLive(t *testing.T) {
	inTowns(t, func(t *testing.T, w *town, j *judge) {
		t.Helper()
		for _, c := range plays {
			t.Run(c.name, func(t *testing.T) { c.play(w.newPage(t, j, nil)) })
		}
	})
}

// A worker is killed in mid-answer and another one takes over: what the dead one
// said of its step is gone. A page of 7.x that is told so in its own dialect shows
// what the log says, any other is told to load itself anew.
func TestTakenOver(t *testing.T) {
	inTowns(t, func(t *testing.T, w *town, j *judge) {
		t.Helper()
		p := w.newPage(t, j, nil)
		p.sayUntil("slow", "Hel")
		w.kill()
		w.worker()
		natstest.Await(t, "another worker", func(context.Context) error {
			if n := w.acts.times(p.id); n < 2 {
				return fmt.Errorf("%d have played", n)
			}
			return nil
		})
		w.acts.give(p.id)
		s := p.until(t, map[string]any{"status": "ready", "text": "lo"})
		if w.opt.Major == 7 {
			p.shows("? slow / msg-1 Hello")
		} else if !s.told("data-truncated") {
			t.Errorf("the page is not told that it shows what is gone: %s", s)
		}
		later := p.reload(nil)
		later.act(t, "resume")
		later.shows("msg-0 slow / msg-1 Hello")
		p.posts(1)
	})
}

// An edge is killed in mid-answer. The page sees a broken connection, and another
// edge goes on where that one was.
func TestEdgeDies(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *judge) {
		t.Helper()
		w := newBinaryTown(t)
		w.worker()
		p := w.newPage(t, j, map[string]any{"api": w.edges[1] + "/api/chat", "cursor": 0})
		p.sayUntil("slow", "Hel")
		w.killEdge()
		if s := p.until(t, map[string]any{"status": "error"}); !s.Finishes[0].IsDisconnect {
			t.Errorf("the page takes it for the end: %+v", s.Finishes)
		}
		p.act(t, "move", w.edges[0]+"/api/chat")
		p.begin(t, "resume")
		p.until(t, map[string]any{"requests": 2})
		w.acts.give(p.id)
		p.until(t, map[string]any{"status": "ready", "text": "Hello"})
		p.shows("? slow / msg-1 Hello")
		p.posts(1)
	})
}

// child is the session of the sub-agent that the page was told of.
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
	p.t.Fatal("there is no sub-agent")
	return ""
}

// posts makes sure that the page has asked so many times and no more.
func (p *page) posts(want int) {
	p.t.Helper()
	if s := p.act(p.t, "rest"); s.posts() != want {
		p.t.Errorf("%d POSTs, want %d: %s", s.posts(), want, s)
	}
}

// approve decides what the page is asked.
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
	p.t.Fatalf("nothing is asked: %s", s)
}
