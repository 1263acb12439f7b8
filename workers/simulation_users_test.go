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
	"github.com/tailrace/tailrace/internal/agentserver"
	"github.com/tailrace/tailrace/internal/chat"
	"github.com/tailrace/tailrace/internal/control"
	logic "github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpedge"
	"github.com/tailrace/tailrace/internal/testkit/authtest"
	"github.com/tailrace/tailrace/internal/testkit/memlog"
	"github.com/tailrace/tailrace/projector/fold"
)

// request sends a request of a user to the edges.
func (t *schedule) request(what, method, path, body string) *simProcess {
	t.logf("user %s: process %d", what, t.n+1)
	return t.start("user", func(a *simProcess) {
		a.isRequest = true
		edge, err := a.edge()
		if err != nil {
			t.x.w.t.Error(err)
			return
		}
		ctx, cancel := context.WithCancel(a.ctx)
		cancel() // the stream is not read; the request takes effect nevertheless
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		edge.ServeHTTP(w, r)
		t.logf("%s: response %d %s", a.name, w.Code, strings.TrimSpace(w.Body.String()))
	})
}

// answer sends the answer to a pending call.
func (t *schedule) answer(q question) *simProcess {
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

// resumeEarly requests a Resume while an answer is missing.
func (t *schedule) resumeEarly(q question) {
	agent := t.agentOf(q.s)
	c := control.Command{Kind: control.Resume, Session: q.s, AgentType: agent, RunID: control.ResumeRunID(q.RunID), Resumes: q.RunID}
	t.logf("early resume of %s requested", t.name(q.s, q.RunID))
	err := t.x.w.Queue.Request(context.Background(), c, 0)
	if busy, ok := errors.AsType[*control.BusyError](err); ok && busy.Command.RunID == q.RunID && busy.Command.Kind != control.Abort {
		err = t.x.w.Queue.Request(context.Background(), c, busy.Revision)
	}
	if err != nil && !errors.Is(err, control.ErrBusy) {
		t.x.w.t.Error(err)
	}
	t.recordQueued(c)
}

func (t *schedule) agentOf(s chunk.Session) string {
	for _, c := range t.sessions {
		if c.Session == s {
			return c.AgentType
		}
	}
	return "root"
}

// sendMessage sends a user message, possibly instead of an answer. mode is a member of the body, with its comma, or empty.
func (t *schedule) sendMessage(mode string) *simProcess {
	t.messagesSent++
	body := fmt.Sprintf(`{"id":%q,%s"messages":[{"id":"m%d","role":"user","parts":[{"type":"text","text":"message %d"}]}]}`, t.root.ID, mode, t.messagesSent, t.messagesSent)
	return t.request("sends a message", http.MethodPost, "/api/chat/"+t.root.ID, body)
}

// inspect sends a GET of the conversation.
func (t *schedule) inspect() *simProcess {
	return t.request("reads", http.MethodGet, "/api/chat/"+t.root.ID, "")
}

// stop sends a stop request for the active run.
func (t *schedule) stop() *simProcess {
	t.stopped = true
	switch t.random.IntN(3) {
	case 0:
		return t.request("stops the chat", http.MethodPost, "/api/chat/"+t.root.ID+"/stop", "")
	case 1:
		return t.request("interrupts", http.MethodPost, "/agents/interrupt", fmt.Sprintf(`{"sessionId":%q}`, t.root.ID))
	}
	return t.abort()
}

func (t *schedule) abort() *simProcess {
	return t.request("aborts", http.MethodPost, "/agents/abort", fmt.Sprintf(`{"sessionId":%q}`, t.root.ID))
}

// edge returns the handler of an edge with all of its calls under control.
func (a *simProcess) edge() (http.Handler, error) {
	w := a.controlled(a.t.x.stable)
	queue := controlledEdgeQueue{w.queue, a}
	types := []string{"root"} // the first is the type of chats
	for name := range a.t.scenario {
		if name != "root" {
			types = append(types, name)
		}
	}
	const timeout = time.Hour // requests may be paused by the scheduler
	reaper := &Reaper{cfg: ReaperConfig{RunTimeout: Off}.withDefaults(), open: func() (*Workers, func(), error) { return w, func() {}, nil }}
	snapshots := controlledEdgeSnapshots{w.reader, a.t.x.stable.reader.(logic.Snapshots), a}
	service, err := logic.New(logic.Ports{Snapshots: snapshots, Queue: queue, Inbox: w.inbox, Reaper: reaper},
		logic.Config{AgentTypes: types, RequestTimeout: timeout})
	if err != nil {
		return nil, err
	}
	edge, err := httpedge.New(memlog.New(), noSnapshots{}, httpedge.Config{Authenticator: authtest.None(a.t.x.w.t, a.t.root.Tenant)})
	if err != nil {
		return nil, err
	}
	ended, cancel := context.WithCancel(a.t.x.w.t.Context())
	cancel()
	if err := edge.Run(ended); err != nil { // no request waits for live records
		return nil, err
	}
	if _, err := chat.New(edge, service, chat.Config{}); err != nil {
		return nil, err
	}
	_, err = agentserver.New(edge, service, agentserver.Config{})
	return edge, err
}

// controlledEdgeSnapshots is the reader of workers with the parts of snapshots that only edges read.
type controlledEdgeSnapshots struct {
	snapshotReader

	parts logic.Snapshots
	a     *simProcess
}

func (r controlledEdgeSnapshots) Head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	return controlledCall(r.a, "load the head of "+r.a.t.name(s, ""), func() (fold.Snapshot, error) { return r.parts.Head(ctx, s) })
}

func (r controlledEdgeSnapshots) MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	return controlledCall(r.a, "load the last message of "+r.a.t.name(s, ""), func() (*fold.MessagePage, error) { return r.parts.MessagePage(ctx, s, q) })
}

type controlledEdgeQueue struct {
	queue

	a *simProcess
}

func (q controlledEdgeQueue) Pending(ctx context.Context, s chunk.Session, agentType string) (control.Command, control.Revision, error) {
	var at control.Revision
	c, err := controlledCall(q.a, "read the queue of "+q.a.t.name(s, ""), func() (c control.Command, err error) {
		c, at, err = q.a.t.x.w.Queue.Pending(ctx, s, agentType)
		return c, err
	})
	return c, at, err
}

// noSnapshots are those of the edge, which no client requests.
type noSnapshots struct{ httpedge.Snapshots }
