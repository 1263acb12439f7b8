package conversation

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// ownOf is a user that may use the sessions that it has started.
func ownOf(user string) Caller {
	return Caller{
		By:   &chunk.Principal{Subject: user},
		Sees: func(exists bool, owner string) bool { return !exists || owner == user },
	}
}

// never is a client whose credential is for other sessions.
var never = Caller{By: &chunk.Principal{Subject: "eve"}, Sees: func(bool, string) bool { return false }}

// ownedBy is the session of a user after one turn.
func ownedBy(t *testing.T, user string) fold.Snapshot {
	t.Helper()
	snap := begin(t).turn("u1").ends().snap
	snap.Owner = &chunk.Principal{Subject: user}
	return snap
}

// A session of another user is like one that does not exist for all requests, and cannot be started: nothing is requested, stored or stopped.
func TestHiddenSession(t *testing.T) {
	absent := &fakePorts{snap: fold.New(testSession).Snapshot()}
	for name, c := range map[string]Caller{"own": ownOf("bob"), "never": never} {
		p := &fakePorts{snap: ownedBy(t, "ann")}
		hidden, unknown := newService(t, p).As(c), newService(t, absent)
		type all struct {
			get, answers, status, stop, resume, started, page string
		}
		of := func(s *Service) (a all) {
			req := Request{Session: testSession}
			plan, state := s.Serve(t.Context(), &req)
			a.get = fmt.Sprint(plan.Path, plan.Refusal, state.Known, state.Command)
			a.answers = fmt.Sprint(s.Answer(t.Context(), testSession, "", control.Answer{Kind: control.ClientResult, CallID: "c1"}))
			_, r := s.Status(t.Context(), testSession)
			a.status = fmt.Sprint(r)
			run, r := s.StopAnswer(t.Context(), testSession, "", "")
			a.stop = fmt.Sprint(run, r)
			_, r = s.Resume(t.Context(), ResumeRequest{Session: testSession})
			a.resume = fmt.Sprint(r)
			_, r = s.Started(t.Context(), testSession)
			a.started = fmt.Sprint(r)
			state, snap, err := s.LoadPage(t.Context(), testSession, "")
			a.page = fmt.Sprint(state.Known, state.Command, string(snap.AppendHead(nil)), err)
			return a
		}
		if got, want := of(hidden), of(unknown); got != want {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, want)
		}
		req := post(t, "", "u1", "u2")
		if plan, _ := hidden.Serve(t.Context(), &req); plan.Refusal == nil || plan.Refusal.Reason != ReasonNoSession {
			t.Errorf("%s: a message: %+v", name, plan)
		}
		if _, r := hidden.Start(t.Context(), StartRequest{Session: testSession, AgentType: agentType}); r == nil || r.Reason != ReasonNoSession {
			t.Errorf("%s: start: %+v", name, r)
		}
		if _, r := hidden.Stop(t.Context(), testSession, control.StopAbort, ""); r == nil || r.Reason != ReasonNoSession {
			t.Errorf("%s: stop: %+v", name, r)
		}
		if p.requests != 0 || len(p.stops) != 0 || len(p.abandoned) != 0 || len(p.withdrew) != 0 {
			t.Errorf("%s: %d requests, %d stops", name, p.requests, len(p.stops))
		}
	}
}

// Two users send a message to a new session with the same id. The command of the first one is stored between the load and the request of the second one, which
// then must not get the session.
func TestTwoUsersStartOneSession(t *testing.T) {
	for name, start := range map[string]func(*Service) *Refusal{
		"message": func(s *Service) *Refusal {
			req := post(t, "", "u1")
			plan, _ := s.Serve(t.Context(), &req)
			return plan.Refusal
		},
		"delegation": func(s *Service) *Refusal {
			_, r := s.Start(t.Context(), StartRequest{Session: testSession, AgentType: agentType})
			return r
		},
	} {
		p := &fakePorts{snap: fold.New(testSession).Snapshot()}
		first := &control.Command{Kind: control.Execute, Session: testSession, AgentType: agentType, RunID: "other", By: &chunk.Principal{Subject: "ann"}}
		p.before = func(int) { p.command, p.revision = first, 7 }
		if r := start(newService(t, p).As(ownOf("bob"))); r == nil || r.Reason != ReasonNoSession || p.command != first {
			t.Errorf("%s: %+v, the command is %+v", name, r, p.command)
		}
		p.before = nil
		if r := start(newService(t, p).As(ownOf("ann"))); r != nil && r.Reason == ReasonNoSession {
			t.Errorf("%s: the user that was first does not see its session", name)
		}
	}
}

// The client that requests a run is in its command.
func TestCommandsNameTheirCaller(t *testing.T) {
	p := &fakePorts{snap: fold.New(testSession).Snapshot()}
	req := post(t, "", "u1")
	newService(t, p).As(ownOf("ann")).Serve(t.Context(), &req)
	if p.command == nil || p.command.By == nil || p.command.By.Subject != "ann" {
		t.Fatalf("command %+v", p.command)
	}
	for _, issuer := range []*string{nil, new("https://login.example")} {
		p.command.By.Issuer, p.command.Issued = issuer, time.Now()
		text, err := p.command.Encode()
		if err != nil {
			t.Fatal(err)
		}
		c, err := control.DecodeBody(text, testSession.Tenant, agentType, testSession.ID)
		if err != nil || c.By == nil || c.By.Subject != "ann" || (c.By.Issuer == nil) != (issuer == nil) || issuer != nil && *c.By.Issuer != *issuer {
			t.Errorf("decoded %+v, %v", c.By, err)
		}
	}
}

// A message needs the right to chat, an answer the right to answer.
func TestRightsOfACaller(t *testing.T) {
	p := &fakePorts{snap: fold.New(testSession).Snapshot()}
	req := post(t, "", "u1")
	if plan, _ := newService(t, p).As(Caller{NoChat: true}).Serve(t.Context(), &req); plan.Refusal == nil || plan.Refusal.Reason != ReasonForbidden || p.requests != 0 {
		t.Errorf("a message without the right: %+v", plan)
	}
	plan := &Plan{Path: PathSubmit, Store: []control.Answer{{}}}
	c := Caller{NoAnswer: true}
	if r := c.refuses(&Request{Post: true}, &State{}, plan); r == nil || r.Reason != ReasonForbidden {
		t.Errorf("an answer without the right: %+v", r)
	}
	c = Caller{NoChat: true}
	if r := c.refuses(&Request{Post: true}, &State{}, plan); r != nil {
		t.Errorf("an answer without the right to chat: %+v", r)
	}
}
