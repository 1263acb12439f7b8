package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/projector/fold"
)

// fakePorts is a session in memory. before is called before each request for a command, with its number.
type fakePorts struct {
	snap     fold.Snapshot
	command  *control.Command
	revision control.Revision
	before   func(n int)
	requests int
	stops    []control.Stop
	withdrew []string // runs
	onStop   func()
	pending  error

	isAbandoned bool
	abandoned   []bool // stopped of each call
	onAbandon   func()
}

func (p *fakePorts) Snapshot(context.Context, chunk.Session) (fold.Snapshot, error) {
	if p.snap.Position.Seq == 0 {
		return p.snap, chunk.ErrUnknownSession
	}
	return p.snap, nil
}

// Head returns what is stored of the snapshot without the finished messages.
func (p *fakePorts) Head(ctx context.Context, s chunk.Session) (fold.Snapshot, error) {
	if _, err := p.Snapshot(ctx, s); err != nil {
		return p.snap, err
	}
	return fold.ParseHead(p.snap.AppendHead(nil))
}

func (p *fakePorts) MessagePage(ctx context.Context, s chunk.Session, q fold.PageQuery) (*fold.MessagePage, error) {
	head, err := p.Head(ctx, s)
	if err != nil {
		return nil, err
	}
	page, err := head.MessagePage(q)
	if err != nil {
		return nil, err
	}
	for from, to := page.MissingRange(); from < to; from, to = page.MissingRange() {
		var data [][]byte
		for _, m := range p.snap.FinishedMessages()[from:to] {
			data = append(data, m.Data)
		}
		if err := page.AddMessages(data); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func (p *fakePorts) Pending(context.Context, chunk.Session, string) (control.Command, control.Revision, error) {
	switch {
	case p.pending != nil:
		return control.Command{}, 0, p.pending
	case p.command == nil:
		return control.Command{}, 0, control.ErrNoCommand
	}
	return *p.command, p.revision, nil
}

func (p *fakePorts) Request(_ context.Context, c control.Command, after control.Revision) error {
	if busy, ok := errors.AsType[*control.BusyError](p.pending); ok {
		return busy
	}
	p.requests++
	if p.before != nil {
		p.before(p.requests)
	}
	if p.command != nil && p.command.ID() != c.ID() && after != p.revision {
		return &control.BusyError{Command: *p.command, Revision: p.revision}
	}
	p.command, p.revision = &c, p.revision+1
	return nil
}

func (p *fakePorts) Answer(context.Context, control.Answer) error { return nil }

func (p *fakePorts) Answers(context.Context, chunk.Session, string) ([]control.Answer, error) {
	return nil, nil
}

func (p *fakePorts) Stop(_ context.Context, s control.Stop) error {
	p.stops = append(p.stops, s)
	if p.onStop != nil {
		p.onStop()
	}
	return nil
}

func (p *fakePorts) Withdraw(_ context.Context, c control.Command) error {
	p.withdrew = append(p.withdrew, c.RunID)
	return nil
}

func (p *fakePorts) IsAbandoned(context.Context, chunk.Session) (bool, error) {
	return p.isAbandoned, nil
}

func (p *fakePorts) Abandon(_ context.Context, _ chunk.Session, stopped bool) (bool, error) {
	p.abandoned = append(p.abandoned, stopped)
	if p.onAbandon != nil {
		p.onAbandon()
	}
	return true, nil
}

func newService(t *testing.T, p *fakePorts) *Service {
	t.Helper()
	s, err := New(Ports{Snapshots: p, Queue: p, Inbox: p, Reaper: p}, Config{AgentTypes: []string{agentType}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A command that another request stores between load and request is not replaced: the state is loaded again, and the caller gets that run.
func TestStartLosesTheCompareAndSet(t *testing.T) {
	p := &fakePorts{snap: fold.New(testSession).Snapshot()}
	other := &control.Command{Kind: control.Execute, Session: testSession, AgentType: agentType, RunID: "other"}
	p.before = func(int) { p.command, p.revision = other, 7 }
	run, r := newService(t, p).Start(t.Context(), StartRequest{Session: testSession, AgentType: agentType})
	if r != nil || run != "other" || p.command != other || p.requests != 1 {
		t.Errorf("got %q, %+v after %d requests; the command is %+v", run, r, p.requests, p.command)
	}
}

// The service returns an error for a session that changes in every attempt.
func TestUpdateGivesUp(t *testing.T) {
	s := begin(t).turn("u1").ends()
	p := &fakePorts{snap: s.snap}
	p.before = func(n int) {
		p.command, p.revision = &control.Command{Kind: control.Execute, Session: testSession, AgentType: agentType, RunID: s.run}, control.Revision(100*n)
	}
	rounds := 0
	_, r := newService(t, p).update(t.Context(), testSession, func(*State, *fold.Snapshot) (*control.Command, *Refusal) {
		rounds++
		return &control.Command{Kind: control.Execute, RunID: "mine"}, nil
	})
	if r == nil || r.Reason != ReasonContended || rounds != MaxRounds {
		t.Errorf("got %+v after %d rounds", r, rounds)
	}
}

// A run that is suspended between the load and the stop request is aborted by a command: no worker reads its inbox. Repeating the request publishes no second
// command.
func TestAbortOfARunThatPauses(t *testing.T) {
	s := begin(t).turn("u1")
	p := &fakePorts{snap: s.snap}
	p.onStop = func() { p.snap = s.write(chunk.StreamPaused{}).snap; p.onStop = nil }
	service := newService(t, p)
	for range 2 {
		run, r := service.Stop(t.Context(), testSession, control.StopAbort, "enough")
		if r != nil || run != s.run || p.command == nil || p.command.Kind != control.Abort || p.command.RunID != s.run || p.requests != 1 {
			t.Fatalf("got %q, %+v; %d requests, the command is %+v", run, r, p.requests, p.command)
		}
	}
}

// A message to a session whose run has no worker ends that run first, and starts its own.
func TestMessageEndsAnAbandonedRun(t *testing.T) {
	s := begin(t).turn("u1")
	p := &fakePorts{snap: s.snap, isAbandoned: true}
	p.onAbandon = func() { p.snap, p.isAbandoned = s.write(chunk.StreamFailed{Error: "no worker"}).snap, false }
	req := post(t, "", "u1", "u2")
	plan, _ := newService(t, p).Serve(t.Context(), &req)
	if fmt.Sprint(p.abandoned) != "[false]" || plan.Refusal != nil || p.command == nil || p.command.Kind != control.Execute || p.requests != 1 {
		t.Errorf("abandoned %v, %+v, command %+v", p.abandoned, plan, p.command)
	}
}

// A stop ends a run that no worker would end, after the stop request is stored: one that no worker has started, and one without a command.
func TestStopWithoutAWorker(t *testing.T) {
	s := begin(t).turn("u1")
	running := s.snap
	idle := s.write(chunk.StreamEnd{StreamID: "s1"}).snap
	own := &control.Command{Session: testSession, AgentType: agentType, Kind: control.Execute, RunID: running.Run.ID}
	next := &control.Command{Session: testSession, AgentType: agentType, Kind: control.Execute, RunID: "next"}
	for name, test := range map[string]struct {
		snap    fold.Snapshot
		command *control.Command
		want    string
		abandon string
	}{
		"queued, a new session": {fold.New(testSession).Snapshot(), next, "[next]", "[]"},
		"queued":                {idle, next, "[next]", "[]"},
		"running":               {running, own, "[]", "[]"},
		"without a command":     {running, nil, "[]", "[true]"},
	} {
		for surface, stop := range map[string]func(*Service) *Refusal{
			"chat": func(s *Service) *Refusal { _, r := s.StopAnswer(t.Context(), testSession, agentType, ""); return r },
			"runs": func(s *Service) *Refusal { _, r := s.Stop(t.Context(), testSession, control.StopAbort, ""); return r },
		} {
			p := &fakePorts{snap: test.snap, command: test.command, revision: 3}
			p.onStop = func() {
				if len(p.withdrew) > 0 {
					t.Errorf("%s, %s: withdrawn before the stop request", name, surface)
				}
			}
			if r := stop(newService(t, p)); r != nil || fmt.Sprint(p.withdrew) != test.want || fmt.Sprint(p.abandoned) != test.abandon || len(p.stops) != 1 {
				t.Errorf("%s, %s: %+v, withdrawn %v, want %s, abandoned %v, want %s; %d stop requests",
					name, surface, r, p.withdrew, test.want, p.abandoned, test.abandon, len(p.stops))
			}
		}
	}
}

// A command that this build cannot read counts as work.
func TestUnreadableCommandIsWork(t *testing.T) {
	s := begin(t).turn("u1").write(chunk.StreamPaused{})
	unreadable := &control.BusyError{Command: control.Command{Session: testSession, AgentType: agentType}, Revision: 3, Unreadable: control.ErrUnsupported}
	p := &fakePorts{snap: s.snap, pending: unreadable}
	service := newService(t, p)
	st, r := service.Status(t.Context(), testSession)
	if r != nil || st.Phase != PhaseRunning || st.RunID != s.run {
		t.Errorf("status %+v, %+v", st, r)
	}
	if run, r := service.Resume(t.Context(), ResumeRequest{Session: testSession}); r != nil || run != s.run || p.requests != 0 {
		t.Errorf("resume: %q, %+v, %d requests", run, r, p.requests)
	}
	if _, r := service.Resume(t.Context(), ResumeRequest{Session: testSession, Key: "k"}); r == nil || r.Reason != ReasonRunning {
		t.Errorf("resume with a message: %+v", r)
	}
}

// A command that this build cannot read counts as work also before the first run of a session: no second command is stored. The run has no id here, so
// every request is refused as a chat refuses a message, and none gets an empty id.
func TestUnreadableCommandOfANewSession(t *testing.T) {
	unreadable := &control.BusyError{Command: control.Command{Session: testSession, AgentType: agentType}, Revision: 3, Unreadable: control.ErrUnsupported}
	p := &fakePorts{snap: fold.New(testSession).Snapshot(), pending: unreadable}
	service := newService(t, p)
	posted := post(t, "", "u1")
	posted.Session = testSession
	chat, _ := service.Serve(t.Context(), &posted)
	_, status := service.Status(t.Context(), testSession)
	_, start := service.Start(t.Context(), StartRequest{Session: testSession, AgentType: agentType})
	_, resume := service.Resume(t.Context(), ResumeRequest{Session: testSession})
	_, message := service.Resume(t.Context(), ResumeRequest{Session: testSession, Key: "k"})
	for name, r := range map[string]*Refusal{
		"chat": chat.Refusal, "status": status, "start": start, "resume": resume, "resume with a message": message,
	} {
		if r == nil || r.Reason != ReasonRunning {
			t.Errorf("%s: %+v, want a run in progress", name, r)
		}
	}
	if p.requests != 0 {
		t.Errorf("%d requests, want none", p.requests)
	}
}

// A resume is not stored after the abort of an interrupted run that no worker has taken yet: it would start a run although the caller has got the abort accepted.
func TestResumeAfterAnAbort(t *testing.T) {
	s := begin(t).turn("u1")
	s.write(chunk.RunInterrupted{RunID: s.run}, chunk.StreamPaused{})
	abort := &control.Command{Session: testSession, AgentType: agentType, Kind: control.Abort, RunID: s.run}
	for _, key := range []string{"", "k"} {
		p := &fakePorts{snap: s.snap, command: abort, revision: 3}
		_, r := newService(t, p).Resume(t.Context(), ResumeRequest{Session: testSession, Key: key})
		if refused := r != nil && r.Reason == ReasonRunning; refused != (key != "") || p.requests != 0 {
			t.Errorf("key %q: %+v, %d requests", key, r, p.requests)
		}
	}
}

// An error of a port is returned as a refusal, and nothing is requested.
func TestPortsFail(t *testing.T) {
	p := &fakePorts{snap: fold.New(testSession).Snapshot(), pending: errors.New("no server")}
	_, r := newService(t, p).Start(t.Context(), StartRequest{Session: testSession, AgentType: agentType})
	if r == nil || r.Reason != ReasonUnavailable || p.requests != 0 {
		t.Errorf("got %+v, %d requests", r, p.requests)
	}
}

// The error of an invalid configuration names the field.
func TestConfigIsChecked(t *testing.T) {
	p := &fakePorts{}
	ports := Ports{Snapshots: p, Queue: p, Inbox: p, Reaper: p}
	for want, try := range map[string]func() (*Service, error){
		"Inbox":         func() (*Service, error) { return New(Ports{Snapshots: p, Queue: p}, Config{AgentTypes: []string{"a"}}) },
		"AgentTypes is": func() (*Service, error) { return New(ports, Config{}) },
		"AgentTypes":    func() (*Service, error) { return New(ports, Config{AgentTypes: []string{"a.b"}}) },
		"RequestTimeout": func() (*Service, error) {
			return New(ports, Config{AgentTypes: []string{"a"}, RequestTimeout: -time.Second})
		},
	} {
		if _, err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}

// A message to a session that has reached its limit of bytes is refused at once: no command is stored, of which the run could store nothing but its end.
func TestMessageToAFullSession(t *testing.T) {
	for limit, want := range map[int64]Reason{5000: ReasonFull, 5001: "", -1: ""} {
		p := &fakePorts{snap: endedSnapshot(t)}
		service, err := New(Ports{Snapshots: p, Queue: p, Inbox: p, Reaper: p}, Config{AgentTypes: []string{"a"}, MaxSessionBytes: limit})
		if err != nil {
			t.Fatal(err)
		}
		plan, _ := service.decide(t.Context(), &Request{Session: p.snap.Session, Post: true, Request: dialect.Request{AgentType: "a", MessageID: "m9", Messages: []chunk.InputMessage{{Content: "Hello?"}}}})
		var got Reason
		if plan.Refusal != nil {
			got = plan.Refusal.Reason
		}
		if got != want || (p.requests == 0) != (want == ReasonFull) {
			t.Errorf("limit %d: %q, %d commands, want %q", limit, got, p.requests, want)
		}
	}
}

func endedSnapshot(t *testing.T) fold.Snapshot {
	t.Helper()
	s := chunk.RootSession("acme", "s1")
	f := fold.New(s)
	for i, body := range []chunk.Body{chunk.RunStarted{RunID: "r1", Mode: "execute", Epoch: 1}, chunk.StreamEnd{StreamID: "s1"}} {
		c := chunk.Chunk{AgentID: s.ID, AgentType: "a", Timestamp: 1, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		rec := chunk.Record{Seq: chunk.Seq(i + 1), Session: s, Epoch: 1, Ordinal: chunk.Ordinal(i + 1), Type: c.Type(), Data: data, SessionBytes: int64(4999 + i)}
		if err := f.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	return f.Snapshot()
}

func (p *fakePorts) Enqueue(context.Context, control.Queued) error { return nil }

func (p *fakePorts) Queued(context.Context, chunk.Session) ([]control.Queued, error) { return nil, nil }

func (p *fakePorts) SetQueued(context.Context, chunk.Session, string, control.QueuedState) error {
	return nil
}
