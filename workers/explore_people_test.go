package workers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/commands"
	"github.com/tailrace/tailrace/sseedge/agentserver"
	"github.com/tailrace/tailrace/sseedge/chat"
)

// request has somebody ask the edges for something.
func (t *tale) request(what, method, path, body string) *actor {
	t.sayf("a person %s: actor %d", what, t.n+1)
	return t.actor("person", func(a *actor) {
		a.person = true
		edge, err := a.edge()
		if err != nil {
			t.x.w.t.Error(err)
			return
		}
		ctx, cancel := context.WithCancel(a.ctx)
		cancel() // nobody waits for a stream; what was asked for is done all the same
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, r)
		t.sayf("%s is told %d %s", a.name, w.Code, strings.TrimSpace(w.Body.String()))
	})
}

// answer has somebody answer a question.
func (t *tale) answer(q question) *actor {
	id := q.CallID
	if !q.s.IsRoot() {
		id = q.s.ID + "/" + id
	}
	body := fmt.Sprintf(`{"toolCallId":%q,"result":"yes"}`, id)
	if q.ApprovalID != "" {
		body = fmt.Sprintf(`{"kind":"approval-response","toolCallId":%q,"approvalId":%q,"approved":true}`, id, q.ApprovalID)
	}
	return t.request("answers "+q.CallID+" of "+t.name(q.s, q.RunID), http.MethodPost, "/api/chat/"+t.root.ID+"/answers", body)
}

// hurry has somebody who does not know better ask a run to go on that waits for an
// answer.
func (t *tale) hurry(q question) {
	agent := t.agentOf(q.s)
	c := commands.Command{Kind: commands.Resume, Session: q.s, AgentType: agent, RunID: commands.ResumeRunID(q.RunID), Resumes: q.RunID}
	t.sayf("somebody asks for %s to go on, too early", t.name(q.s, q.RunID))
	err := t.x.w.queue.Request(context.Background(), c, 0)
	if busy, ok := errors.AsType[*commands.BusyError](err); ok && busy.Command.RunID == q.RunID && busy.Command.Kind != commands.Abort {
		err = t.x.w.queue.Request(context.Background(), c, busy.Revision)
	}
	if err != nil && !errors.Is(err, commands.ErrBusy) {
		t.x.w.t.Error(err)
	}
	t.note(c)
}

func (t *tale) agentOf(s chunk.Session) string {
	for _, c := range t.sessions {
		if c.Session == s {
			return c.AgentType
		}
	}
	return "root"
}

// speak has somebody say something, instead of an answer perhaps.
func (t *tale) speak() *actor {
	t.spoken++
	body := fmt.Sprintf(`{"id":%q,"messages":[{"id":"m%d","role":"user","parts":[{"type":"text","text":"word %d"}]}]}`, t.root.ID, t.spoken, t.spoken)
	return t.request("says something else", http.MethodPost, "/api/chat/"+t.root.ID, body)
}

// look has somebody look at the conversation.
func (t *tale) look() *actor {
	return t.request("looks", http.MethodGet, "/api/chat/"+t.root.ID, "")
}

// stop has somebody stop what is at work.
func (t *tale) stop() *actor {
	t.stopped = true
	switch t.random.IntN(3) {
	case 0:
		return t.request("stops the chat", http.MethodPost, "/api/chat/"+t.root.ID+"/stop", "")
	case 1:
		return t.request("interrupts", http.MethodPost, "/agents/interrupt", fmt.Sprintf(`{"sessionId":%q}`, t.root.ID))
	}
	return t.abort()
}

func (t *tale) abort() *actor {
	return t.request("aborts", http.MethodPost, "/agents/abort", fmt.Sprintf(`{"sessionId":%q}`, t.root.ID))
}

// edge is what an edge serves to a person, all of its words under control.
func (a *actor) edge() (http.Handler, error) {
	w := a.servant(a.t.x.steady)
	queue := slowEdgeQueue{w.queue, a}
	types := []string{"root"} // the first is that of the chats
	for name := range a.t.plot {
		if name != "root" {
			types = append(types, name)
		}
	}
	const patience = time.Hour // people may be stopped for as long as it takes
	talk, err := chat.New(chat.Config{
		Snapshots: w.reader, Commands: queue, Inbox: w.inbox, Live: silent{},
		AgentTypes: types, Tenant: a.t.root.Tenant, Attach: patience,
	})
	if err != nil {
		return nil, err
	}
	tasks, err := agentserver.New(agentserver.Config{
		Snapshots: w.reader, Commands: queue, Inbox: w.inbox, Live: silent{}, Events: http.NotFoundHandler(), Answers: talk,
		AgentTypes: types, Tenant: a.t.root.Tenant, Patience: patience,
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tasks.Match(r.URL.Path) {
			tasks.ServeHTTP(w, r)
			return
		}
		talk.ServeHTTP(w, r)
	}), nil
}

type slowEdgeQueue struct {
	queue

	a *actor
}

func (q slowEdgeQueue) Pending(ctx context.Context, s chunk.Session, agentType string) (commands.Command, commands.Revision, error) {
	var at commands.Revision
	c, err := word(q.a, "look at the queue of "+q.a.t.name(s, ""), func() (c commands.Command, err error) {
		c, at, err = q.a.t.x.w.queue.Pending(ctx, s, agentType)
		return c, err
	})
	return c, at, err
}

// silent is a log that nobody waits for.
type silent struct{}

var errSilent = errors.New("nobody waits")

func (silent) Follow(context.Context, chunk.Session, chunk.Position) (chat.Tail, error) {
	return nil, errSilent
}

func (silent) Begun(context.Context, chunk.Session) error { return errSilent }
