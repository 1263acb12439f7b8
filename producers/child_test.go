package producers

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/subjects"
)

func TestChild(t *testing.T) {
	p := local(t)
	ctx := t.Context()
	producer := p.producer(t, Config{})
	parent := mustStart(t, producer, testSession)
	parent.SetStep(3)
	child, err := parent.Child(ctx, chunk.SubagentStart{SubAgentType: "researcher", CallID: "c1"}, chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	s := child.Session()
	if s.Tenant != "acme" || s.Root != "s1" || len(s.ID) != 26 || subjects.CheckToken("session", s.ID) != nil {
		t.Errorf("the child's session is %s", s)
	}
	grandchild, err := child.Child(ctx, chunk.SubagentStart{SubAgentType: "reader", SubSessionID: "grand", CallID: "c2"}, chunk.RunStarted{})
	if err != nil {
		t.Fatal(err)
	}
	emitAll(t, grandchild, text("found"))
	if err := child.EndChild(ctx, grandchild, chunk.Value(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := child.Fail(ctx, "broken", nil); err != nil {
		t.Fatal(err)
	}
	if err := parent.EndChild(ctx, child, chunk.Value(`null`)); err != nil { // a failed child has an end as well
		t.Fatal(err)
	}

	parents, children, grand := p.log(t, testSession), p.log(t, s), p.log(t, chunk.Session{Tenant: "acme", Root: "s1", ID: "grand"})
	wantTypes(t, parents, "run_started subagent_start subagent_end")
	wantTypes(t, children, "run_started subagent_start subagent_end stream_failed")
	wantTypes(t, grand, "run_started text_delta stream_end")
	want(t, parents[1], `{"type":"subagent_start","agentId":"s1","agentType":"agent",`, `"step":3,"subAgentType":"researcher","subSessionId":"`+s.ID+`","callId":"c1"}`)
	want(t, parents[2], `"subSessionId":"`+s.ID+`","callId":"c1","result":null}`)
	want(t, children[0], `"agentId":"`+s.ID+`","agentType":"researcher"`, `"parent":{"sessionId":"s1","callId":"c1"}`)
	want(t, children[2], `"subAgentType":"reader","subSessionId":"grand","callId":"c2","result":{"n":1}}`)
	want(t, grand[2], `"finalOutput":{"n":1}`)
	if parents[1].Seq > children[0].Seq || children[3].Seq > parents[2].Seq || grand[2].Seq > children[2].Seq {
		t.Error("a reader of the tree would not see a child between its start and its end")
	}
}

func wantTypes(t *testing.T, recs []chunk.Record, want string) {
	t.Helper()
	var types []string
	for _, rec := range recs {
		types = append(types, string(rec.Type))
	}
	if got := strings.Join(types, " "); got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
}

func want(t *testing.T, rec chunk.Record, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(string(rec.Data), part) {
			t.Errorf("%s: want %s in it", rec.Data, part)
		}
	}
}

func TestChildRefused(t *testing.T) {
	p := local(t)
	ctx := t.Context()
	producer := p.producer(t, Config{})
	parent := mustStart(t, producer, testSession)
	for name, id := range map[string]string{
		"the parent itself":  "s1",
		"no id":              "a b",
		"a wildcard":         ">",
		"too long for an id": strings.Repeat("x", 65),
	} {
		_, err := parent.Child(ctx, chunk.SubagentStart{SubAgentType: "a", SubSessionID: id, CallID: "c"}, chunk.RunStarted{})
		if !errors.Is(err, chunk.ErrInvalid) || !errors.Is(err, chunk.ErrNotStored) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	wantTypes(t, p.log(t, testSession), "run_started")

	other := mustStart(t, producer, chunk.RootSession("acme", "s9"))
	if err := parent.EndChild(ctx, other, nil); !errors.Is(err, chunk.ErrInvalid) {
		t.Errorf("EndChild of another session: %v", err)
	}
	if err := other.Emit(ctx, numbered(1)); err != nil {
		t.Errorf("the other session was ended: %v", err)
	}
}

// A child that cannot start leaves the subagent_start in the log of its parent; it can be started again by hand.
func TestChildOfARunningSession(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	parent := mustStart(t, producer, testSession)
	mustStart(t, producer, testSession.Child("kid"))
	sub := chunk.SubagentStart{SubAgentType: "a", SubSessionID: "kid", CallID: "c"}
	if _, err := parent.Child(t.Context(), sub, chunk.RunStarted{}); !errors.Is(err, ErrRunning) {
		t.Errorf("err = %v, want running", err)
	}
	wantTypes(t, p.log(t, testSession), "run_started subagent_start")
}

func TestClosedProducer(t *testing.T) {
	p := local(t)
	producer := p.producer(t, Config{})
	r := mustStart(t, producer, testSession)
	if err := producer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := producer.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := r.Emit(t.Context(), numbered(1)); !errors.Is(err, ErrClosed) {
		t.Errorf("its run: %v", err)
	}
	if _, err := producer.Start(t.Context(), chunk.RootSession("acme", "s2"), chunk.RunStarted{}); !errors.Is(err, ErrClosed) || !errors.Is(err, chunk.ErrNotStored) {
		t.Errorf("Start: %v", err)
	}
	if n := len(p.log(t, chunk.RootSession("acme", "s2"))); n != 0 {
		t.Errorf("%d records of a run that was refused", n)
	}
	if !p.nc.IsConnected() {
		t.Error("the connection is closed; it is not the Producer's")
	}
}
