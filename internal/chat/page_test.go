package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/access"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/httpkit"
	"github.com/tailrace/tailrace/internal/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

// treePorts are the sessions of a tree in memory, by id.
type treePorts struct {
	conversation.Queue
	conversation.Inbox
	conversation.Reaper

	sessions map[string]fold.Snapshot
	errors   map[string]error // of reading a session
	reads    int              // of all messages
	command  *control.Command
}

func (p *treePorts) Snapshot(_ context.Context, s chunk.Session) (fold.Snapshot, error) {
	p.reads++
	return p.session(s)
}

func (p *treePorts) session(s chunk.Session) (fold.Snapshot, error) {
	snap, ok := p.sessions[s.ID]
	if err := p.errors[s.ID]; err != nil {
		return fold.Snapshot{}, err
	}
	if !ok {
		return fold.Snapshot{}, chunk.ErrUnknownSession
	}
	return snap, nil
}

func (p *treePorts) Head(_ context.Context, s chunk.Session) (fold.Snapshot, error) {
	snap, err := p.session(s)
	if err != nil {
		return snap, err
	}
	return fold.ParseHead(snap.AppendHead(nil))
}

func (p *treePorts) MessagePage(context.Context, chunk.Session, fold.PageQuery) (*fold.MessagePage, error) {
	return nil, errors.New("a page reads all messages")
}

func (p *treePorts) Pending(context.Context, chunk.Session, string) (control.Command, control.Revision, error) {
	if p.command == nil {
		return control.Command{}, 0, control.ErrNoCommand
	}
	return *p.command, 7, nil
}

// newTree returns the sessions of a tree, the function that loads the page of the root, and the one that returns its version.
func newTree(t *testing.T) (p *treePorts, load func(aisdk.Options) (aisdk.FrontendSnapshot, error), version func(aisdk.Options) (pageVersion, error)) {
	t.Helper()
	p = &treePorts{sessions: make(map[string]fold.Snapshot), errors: make(map[string]error)}
	logic, err := conversation.New(conversation.Ports{Snapshots: p, Queue: p, Inbox: p, Reaper: p}, conversation.Config{AgentTypes: []string{agentType}})
	if err != nil {
		t.Fatal(err)
	}
	of := chat{id: pageRoot.ID, session: pageRoot, logic: logic}
	service := func(dialect aisdk.Options) *Service {
		return &Service{cfg: Config{Dialect: dialect}, logic: logic, shared: &access.Shared{Shared: httpkit.Shared{Log: slog.New(slog.DiscardHandler)}}}
	}
	load = func(dialect aisdk.Options) (aisdk.FrontendSnapshot, error) {
		return service(dialect).loadPage(t.Context(), of, agentType, "")
	}
	version = func(dialect aisdk.Options) (pageVersion, error) {
		state, err := logic.Load(t.Context(), pageRoot, agentType)
		if err != nil {
			return pageVersion{}, err
		}
		return service(dialect).pageVersion(t.Context(), of, "", &state)
	}
	return p, load, version
}

var pageRoot = chunk.RootSession("acme", "s1")

// pageLog is the log of a session and its fold.
type pageLog struct {
	t     *testing.T
	snap  fold.Snapshot
	epoch int64
	step  int64
	n     uint64
}

func beginLog(t *testing.T, s chunk.Session) *pageLog {
	t.Helper()
	return &pageLog{t: t, snap: fold.New(s).Snapshot()}
}

func (l *pageLog) write(bodies ...chunk.Body) *pageLog {
	l.t.Helper()
	for _, body := range bodies {
		switch started := body.(type) {
		case chunk.RunStarted:
			l.epoch++
			started.Epoch, l.step = l.epoch, 0
			body = started
		case chunk.StepStart:
			l.step++
		}
		l.n++
		c := chunk.Chunk{AgentID: "s1", AgentType: agentType, Timestamp: 1, Step: l.step, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			l.t.Fatal(err)
		}
		f := fold.From(l.snap)
		err = f.Apply(chunk.Record{
			Seq: chunk.Seq(10 * l.n), Session: l.snap.Session, Epoch: chunk.Epoch(l.epoch), Ordinal: chunk.Ordinal(l.n), Type: c.Type(), Data: data,
		})
		if err != nil {
			l.t.Fatal(err)
		}
		l.snap = f.Snapshot()
	}
	return l
}

// turn starts the run that answers a message with an id.
func (l *pageLog) turn(id string, replaces ...string) *pageLog {
	l.t.Helper()
	in := chunk.InputMessage{Content: "text of " + id, ClientMessageID: &id}
	for _, place := range replaces {
		in.Extra = []chunk.Member{{Name: fold.ReplacesMember, Value: chunk.Value(`"` + place + `"`)}}
	}
	return l.write(chunk.RunStarted{RunID: "r-" + id, Mode: "execute", Input: []chunk.InputMessage{in}}, chunk.StepStart{}, chunk.TextDelta{Delta: "well"})
}

func (l *pageLog) ends() *pageLog {
	l.t.Helper()
	return l.write(chunk.StreamEnd{StreamID: "s1"})
}

// subAgent begins the log of a sub-agent.
func subAgent(t *testing.T, id string) *pageLog {
	t.Helper()
	return beginLog(t, pageRoot.Child(id)).write(chunk.RunStarted{RunID: "r-" + id, Mode: "execute", Input: []chunk.InputMessage{{Content: "input of " + id}}}, chunk.StepStart{})
}

// calls writes a call and the start of the sub-agent id, whose own log the test writes before or after.
func (l *pageLog) calls(id string) *pageLog {
	l.t.Helper()
	return l.write(chunk.ToolStart{ToolCallID: "c-" + id, ToolName: "subagent__x", Arguments: chunk.Value(`{}`)},
		chunk.SubagentStart{SubSessionID: id, SubAgentType: "x", CallID: "c-" + id})
}

func (l *pageLog) returns(id string) *pageLog {
	l.t.Helper()
	return l.write(chunk.SubagentEnd{SubSessionID: id, SubAgentType: "x", CallID: "c-" + id, Result: chunk.Value(`1`)},
		chunk.ToolEnd{ToolCallID: "c-" + id, ToolName: "subagent__x", Result: chunk.Value(`1`), ProviderExecuted: new(true)})
}

func (l *pageLog) says(text string) *pageLog {
	l.t.Helper()
	return l.write(chunk.TextDelta{Delta: text})
}

// texts returns the texts of a page.
func texts(p *aisdk.FrontendSnapshot) string {
	var out []string
	for _, m := range p.Messages {
		for _, part := range m.Parts {
			if _, text, ok := strings.Cut(string(part), `"type":"text","text":"`); ok {
				text, _, _ = strings.Cut(text, `"`)
				out = append(out, text)
			}
		}
	}
	return strings.Join(out, ", ")
}

var inlined = aisdk.Options{SubAgents: aisdk.Inline}

// A page shows the output of a sub-agent after the call that started it. It omits the sub-agents of a replaced answer, also if one ends after the answer was
// replaced, and a sub-agent whose session was deleted.
func TestPageWithSubAgents(t *testing.T) {
	p, load, _ := newTree(t)
	p.sessions["k1"] = subAgent(t, "k1").says("first").ends().snap
	p.sessions["k2"] = subAgent(t, "k2").says("second").calls("k3").says("waits").returns("k3").ends().snap
	p.sessions["k3"] = subAgent(t, "k3").says("third").ends().snap
	s := beginLog(t, pageRoot).turn("u1").calls("k1").ends()
	s.turn("u2", "msg-1").calls("k2").returns("k2").calls("gone").returns("gone").says("done").ends()
	s.turn("u3").returns("k1").ends() // its start is two turns ago, so that the end is an entry of this turn
	p.sessions["s1"] = s.snap
	for name, test := range map[string]struct {
		dialect aisdk.Options
		want    string
		reads   int
	}{
		"drop":   {aisdk.Options{}, "text of u1, text of u2, well, done, text of u3, well", 1},
		"data":   {aisdk.Options{SubAgents: aisdk.Data}, "text of u1, text of u2, well, done, text of u3, well", 1},
		"inline": {inlined, "text of u1, text of u2, well, second, third, waits, done, text of u3, well", 5},
	} {
		p.reads = 0
		page, err := load(test.dialect)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := texts(&page); got != test.want || p.reads != test.reads {
			t.Errorf("%s: the page has %q after %d reads, want %q after %d", name, got, p.reads, test.want, test.reads)
		}
	}
}

// A page without the memory for a sub-agent returns ErrReadLimit, so that it is read again with more memory. A page whose sub-agent is damaged is shown without
// its output.
func TestPageWithUnreadableSubAgent(t *testing.T) {
	p, load, _ := newTree(t)
	p.sessions["s1"] = beginLog(t, pageRoot).turn("u1").calls("k1").returns("k1").ends().snap
	for _, test := range []struct{ err, want error }{
		{projector.ErrReadLimit, projector.ErrReadLimit},
		{context.DeadlineExceeded, context.DeadlineExceeded},
		{fmt.Errorf("read: %w", fold.ErrInconsistent), nil},
		{&chunk.TruncatedError{}, nil},
		{chunk.ErrUnknownSession, nil},
	} {
		p.errors["k1"] = test.err
		page, err := load(inlined)
		if !errors.Is(err, test.want) || test.want == nil && (err != nil || texts(&page) != "text of u1, well") {
			t.Errorf("%v: got %q, %v; want %v", test.err, texts(&page), err, test.want)
		}
	}
}

// A page shows the output of the latest maxPageAgents sub-agents, to a depth of maxPageDepth.
func TestPageBoundsSubAgents(t *testing.T) {
	p, load, _ := newTree(t)
	s := beginLog(t, pageRoot).turn("u1")
	for n := range maxPageAgents + 2 {
		id := fmt.Sprint("k", n)
		p.sessions[id] = subAgent(t, id).says("says " + id + ".").ends().snap
		s.calls(id).returns(id)
	}
	p.sessions["s1"] = s.ends().snap
	page, err := load(inlined)
	if got := texts(&page); err != nil || strings.Count(got, "says") != maxPageAgents || strings.Contains(got, "says k1.") || !strings.Contains(got, "says k2.") {
		t.Errorf("%d texts, %v", strings.Count(got, "says"), err)
	}
	for n := range maxPageDepth + 1 {
		id := fmt.Sprint("k", n)
		next := fmt.Sprint("k", n+1)
		p.sessions[id] = subAgent(t, id).says("says " + id + ".").calls(next).returns(next).ends().snap
	}
	p.sessions["s1"] = beginLog(t, pageRoot).turn("u1").calls("k0").returns("k0").ends().snap
	page, err = load(inlined)
	if got := texts(&page); err != nil || strings.Count(got, "says") != maxPageDepth {
		t.Errorf("%d texts, %v; want %d", strings.Count(got, "says"), err, maxPageDepth)
	}
	// A session that calls one above it, which no worker writes, is shown once.
	p.sessions["k1"] = subAgent(t, "k1").says("says k1.").calls("k0").calls("s1").returns("k0").ends().snap
	page, err = load(inlined)
	if got := texts(&page); err != nil || got != "text of u1, well, says k0., says k1." {
		t.Errorf("got %q, %v", got, err)
	}
}

// The version of a page changes with its sub-agents: they continue after the answer was stopped, until their workers receive the stop.
func TestPageVersionOfSubAgents(t *testing.T) {
	p, _, versionOf := newTree(t)
	k1 := subAgent(t, "k1").calls("k2")
	k2 := subAgent(t, "k2").says("one")
	p.sessions["s1"] = beginLog(t, pageRoot).turn("u1").write(chunk.SubagentStart{SubSessionID: "k1", SubAgentType: "x", CallID: "c1"}, chunk.StreamFailed{Error: "stopped"}).snap
	p.sessions["k1"], p.sessions["k2"] = k1.snap, k2.snap
	version := func(dialect aisdk.Options) pageVersion {
		t.Helper()
		version, err := versionOf(dialect)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	before, dropped := version(inlined), version(aisdk.Options{})
	p.sessions["k2"] = k2.says("two").says("three").says("four").says("five").snap
	if version(inlined) == before {
		t.Error("the version does not change with a sub-agent of a sub-agent")
	}
	if version(aisdk.Options{}) != dropped {
		t.Error("the version of a page that does not show sub-agents changes with one")
	}
	p.errors["k2"] = errors.New("unavailable")
	if _, err := versionOf(inlined); !errors.Is(err, p.errors["k2"]) {
		t.Errorf("got %v, want %v", err, p.errors["k2"])
	}
}

// CS-12, CV-14: a hidden message goes to the model and is not shown to the user.
func TestHiddenMessage(t *testing.T) {
	hide := chunk.Value(`{"hidden":true}`)
	p, load, _ := newTree(t)
	p.sessions["s1"] = beginLog(t, pageRoot).turn("u1").ends().snap
	p.command = &control.Command{
		Kind: control.Execute, Session: pageRoot, AgentType: agentType, RunID: "r", Input: []chunk.InputMessage{{Content: "a", Metadata: &hide}, {Content: "b"}},
	}
	page, err := load(aisdk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
	}
	if want := []string{"msg-0", "msg-1", "msg-3"}; !slices.Equal(ids, want) || page.Status != fold.Active {
		t.Errorf("shown are %q and %s, want %q and active", ids, page.Status, want)
	}
}
