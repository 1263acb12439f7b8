package conversation

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/dialect"
	"github.com/tailrace/tailrace/internal/testkit/posttest"
	"github.com/tailrace/tailrace/projector/fold"
)

const agentType = "support"

// Request bodies of a stock client, and their parts.
var user, chatBody, assistantMessage = posttest.User, posttest.Body, posttest.Assistant

var (
	testSession = chunk.RootSession("acme", "s1")
	testNow     = time.UnixMilli(1_760_000_000_000)
)

// failer is a testing.TB or a rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// history builds the log of one session and its fold.
type history struct {
	t     failer
	snap  fold.Snapshot
	run   string
	epoch int64
	step  int64
	n     uint64
}

func begin(t failer) *history {
	t.Helper()
	return &history{t: t, snap: fold.New(testSession).Snapshot()}
}

func (s *history) write(bodies ...chunk.Body) *history {
	s.t.Helper()
	for _, body := range bodies {
		if started, ok := body.(chunk.RunStarted); ok {
			s.epoch++
			started.Epoch, s.step = s.epoch, 0
			body = started
		}
		if _, ok := body.(chunk.StepStart); ok {
			s.step++
		}
		s.n++
		c := chunk.Chunk{AgentID: "s1", AgentType: agentType, Timestamp: 1, Step: s.step, Body: body}
		data, err := c.AppendJSON(nil)
		if err != nil {
			s.t.Fatal(err)
		}
		f := fold.From(s.snap)
		err = f.Apply(chunk.Record{
			Seq: chunk.Seq(10 * s.n), Session: s.snap.Session, Epoch: chunk.Epoch(s.epoch), Ordinal: chunk.Ordinal(s.n),
			Type: c.Type(), StoredAt: testNow, Data: data,
		})
		if err != nil {
			s.t.Fatal(err)
		}
		s.snap = f.Snapshot()
	}
	return s
}

// turn starts the run that answers a message with an id.
func (s *history) turn(id string, replaces ...string) *history {
	s.t.Helper()
	in := chunk.InputMessage{Content: "text of " + id, ClientMessageID: &id}
	s.run = control.ExecuteRunID(testSession, id)
	for _, place := range replaces {
		in.Extra = []chunk.Member{{Name: fold.ReplacesMember, Value: chunk.Value(`"` + place + `"`)}}
		s.run += "x"
	}
	return s.write(chunk.RunStarted{RunID: s.run, Mode: "execute", Input: []chunk.InputMessage{in}}, chunk.StepStart{}, chunk.TextDelta{Delta: "well"})
}

func (s *history) ends() *history {
	s.t.Helper()
	return s.write(chunk.StreamEnd{StreamID: "s1"})
}

// asks suspends the run on calls: "c1" of the browser, "a1" for an approval.
func (s *history) asks(calls ...string) *history {
	s.t.Helper()
	for _, call := range calls {
		if strings.HasPrefix(call, "a") {
			s.write(chunk.ToolApprovalRequest{ToolCallID: call, ToolName: "pay", ApprovalID: s.run + "::" + call, Input: chunk.Value(`{}`)})
			continue
		}
		s.write(chunk.ToolStart{ToolCallID: call, ToolName: "browser", Arguments: chunk.Value(`{}`)})
	}
	return s.write(chunk.StreamPaused{})
}

// resumes starts the run that resumes the suspended one, with the outcomes of its calls.
func (s *history) resumes(calls ...string) *history {
	s.t.Helper()
	s.run = control.ResumeRunID(s.run)
	s.write(chunk.RunStarted{RunID: s.run, Mode: "continue"})
	for _, call := range calls {
		if strings.HasPrefix(call, "a") {
			s.write(chunk.ToolApprovalResponse{ToolCallID: call, ToolName: "pay", ApprovalID: s.snap.TurnRun().ID + "::" + call, Approved: true})
			continue
		}
		s.write(chunk.ToolEnd{ToolCallID: call, ToolName: "browser", Result: chunk.Value(`1`)})
	}
	return s
}

// state returns the current state of the chat.
func (s *history) state(change ...func(*State)) State {
	s.t.Helper()
	return s.stateWith(s.snap, s.snap.Messages(0), append([]func(*State){func(state *State) { state.Inputs = s.snap.Inputs() }}, change...)...)
}

// stateWith returns the state of the chat from a snapshot and some of its messages.
func (s *history) stateWith(snap fold.Snapshot, list []fold.Message, change ...func(*State)) State {
	s.t.Helper()
	state := State{Now: testNow, Session: testSession, AgentType: agentType}
	if s.n > 0 {
		state.setSnapshot(snap)
		state.setMessages(list)
		if b, _ := branchOf(snap, agentType); b != nil {
			for i := range b.PendingCalls {
				b.PendingCalls[i].UICallID = b.PendingCalls[i].CallID
			}
			state.Branches = append(state.Branches, *b)
		}
	}
	for _, c := range change {
		c(&state)
	}
	for i := range state.Branches {
		state.Branches[i].Resumed, state.Branches[i].CommandRevision = state.Waiting() != nil, state.after()
	}
	return state
}

func waitsFor(c control.Command) func(*State) {
	return func(state *State) {
		c.Session, c.AgentType = testSession, agentType
		state.Command, state.Revision = &c, 7
	}
}

// answered stores answers: "c1" with the result 1, "a1" approved, "-a1" refused, "!c1" failed by the deadline.
func answered(calls ...string) func(*State) {
	return func(state *State) {
		for _, call := range calls {
			w := state.wait(strings.TrimLeft(call, "-!"))
			a := w.answer()
			switch {
			case call[0] == '!':
				a.Error, a.ErrorCode = "late", control.CodeDeadline
			case w.Kind == control.Approval:
				a.Approved = call[0] != '-'
			default:
				a.Result = chunk.Value(`1`)
			}
			w.Answer = &a
		}
	}
}

func deadline(at time.Time) func(*State) {
	return func(state *State) {
		for i := range state.Branches[0].PendingCalls {
			state.Branches[0].PendingCalls[i].Deadline = at.UnixMilli()
		}
	}
}

// post returns the request of a stock client. Messages are "u1" for one of a user with that id, and "a:" with parts for one of the assistant: "msg-1 step c1=1
// a1=yes".
func post(t failer, members string, messages ...string) Request {
	t.Helper()
	var list []string
	for _, m := range messages {
		if rest, ok := strings.CutPrefix(m, "a:"); ok {
			list = append(list, assistantMessage(rest))
			continue
		}
		list = append(list, user(m, "text of "+m))
	}
	in, err := aisdk.ParseChatInput([]byte(chatBody(members, list...)))
	if err != nil {
		t.Fatal(err)
	}
	return requestOf(in)
}

// requestOf returns the request of a body, as package chat makes it.
func requestOf(in dialect.Request) Request {
	in.Nonce = rand.Text()
	return Request{Request: in, Session: testSession, Post: true}
}

func get(cursor ...int) Request {
	r := Request{Session: testSession}
	for _, c := range cursor {
		seq := chunk.Seq(c)
		r.Cursor = &seq
	}
	return r
}

// describe returns a plan in one line.
func describe(p Plan) string {
	out := string(p.Path)
	for _, a := range p.Store {
		switch {
		case a.Failed():
			out += " " + a.CallID + "!" + a.ErrorCode
		case a.Kind == control.Approval:
			out += fmt.Sprintf(" %s=%t", a.CallID, a.Approved)
		default:
			out += " " + a.CallID + "=" + a.Result.String()
		}
	}
	if c := p.Command; c != nil {
		if string(c.Kind) != out {
			out += " " + string(c.Kind)
		}
		for _, in := range c.Input {
			out += " " + strings.TrimPrefix(in.Content, "text of ")
		}
		if len(c.Input) > 0 && len(c.Input[0].Extra) > 0 && c.Input[0].Extra[0].Name == fold.FollowsMember {
			out += " following " + strings.Trim(c.Input[0].Extra[0].Value.String(), `"`)
		}
		if c.Replaces != "" {
			out += " for " + c.Replaces
		}
		if p.After != 0 {
			out += fmt.Sprintf(" after %d", p.After)
		}
	}
	if p.Refusal != nil {
		out += " " + string(p.Refusal.Reason)
	}
	if s := p.Stream; s != nil {
		out += " " + [...]string{"whole", "tail", "new", "nothing"}[s.Show] + " " + s.MessageID
		if s.After != 0 {
			out += fmt.Sprintf(" after %d", s.After)
		}
		if s.Run != "" {
			out += " awaited"
		}
		for _, r := range s.Rejected {
			out += " " + string(r.Reason)
		}
	}
	return out
}

// abandoned makes the run of a state one without a worker.
func abandoned(state *State) { state.Abandoned = true }

// TestDecide has one row for each outcome, and one for each known pitfall.
func TestDecide(t *testing.T) {
	fresh := control.Command{Kind: control.Execute, RunID: control.ExecuteRunID(testSession, "u1"), Input: []chunk.InputMessage{{Content: "text of u1", ClientMessageID: new("u1")}}}
	idle := func() *history { return begin(t).turn("u1").ends() }
	asking := func(calls ...string) *history { return begin(t).turn("u1").asks(calls...) }
	resumed := func(s *history) func(*State) {
		return waitsFor(control.Command{Kind: control.Resume, RunID: control.ResumeRunID(s.run), Resumes: s.run})
	}
	paused := asking("c1")
	rows := []struct {
		rule  string
		req   Request
		state State
		want  string
	}{
		// The seven outcomes.
		{"path 1: a message in a new session", post(t, "", "u1"), begin(t).state(), "execute u1"},
		{"path 2: a message in an idle session", post(t, "", "u1", "a:msg-1 step", "u2"), idle().state(), "execute u2"},
		{"path 2: after a failure", post(t, "", "u1", "u2"), begin(t).turn("u1").write(chunk.StreamFailed{Error: "x"}).state(), "execute u2"},
		{"path 2: after an interruption", post(t, "", "u1", "u2"), begin(t).turn("u1").write(chunk.RunInterrupted{RunID: "r"}, chunk.StreamEnd{StreamID: "s1"}).state(), "execute u2"},
		{"path 3: an answer is stored", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1").state(), "submit c1=1"},
		{"path 3: the run is resumed after the last answer", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1").state(answered("c1")), "resume"},
		{"path 3: the resumed run is streamed", post(t, "", "u1", "a:msg-1 step c1=1"), paused.state(answered("c1"), resumed(paused)), "attach new msg-1 awaited"},
		{"path 4: a message fails pending calls", post(t, "", "u1", "a:msg-1 step", "u2"), asking("c1", "a1").state(), "abandon c1!client_tool_abandoned a1!client_tool_abandoned"},
		{"path 4: the message starts a turn after that", post(t, "", "u1", "a:msg-1 step", "u2"), asking("c1").state(answered("c1")), "execute u2"},
		{"no worker: a message ends the run", post(t, "", "u1", "u2"), begin(t).turn("u1").state(abandoned), "endRun"},
		{"no worker: a regeneration ends the run", post(t, `,"trigger":"regenerate-message"`, "u1"), begin(t).turn("u1").state(abandoned), "endRun"},
		{"no worker: a page is shown the answer", get(), begin(t).turn("u1").state(abandoned), "attach whole msg-1"},
		{"no worker: a repeated message is shown the answer", post(t, "", "u1"), begin(t).turn("u1").state(abandoned), "attach whole msg-1"},
		{"no worker: the message after the end", post(t, "", "u1", "u2"), begin(t).turn("u1").write(chunk.StreamFailed{Error: "x"}).state(), "execute u2"},
		{"path 5: a page is loaded while a run is running", get(), begin(t).turn("u1").state(), "attach whole msg-1"},
		{"path 6: a repeated message", post(t, "", "u1"), idle().state(), "replay whole msg-1"},
		{"path 7: no call waits for the answers", post(t, "", "u1", "a:msg-1 step old::a9=yes"), idle().state(), "rejection nothing msg-1 stale-run-id"},

		// The rules.
		{"D1: an unknown session without a message", post(t, "", "a:msg-1"), begin(t).state(), "refused no-session"},
		{"D1: a page of an unknown session", get(), begin(t).state(), "nothing"},
		{"CS-3: a cursor in either header", get(30), begin(t).turn("u1").state(), "attach tail msg-1 after 30"},
		{"CS-4: a message ignores the cursor of a page load", func() Request { r := post(t, "", "u1", "u2"); r.Cursor = get(30).Cursor; return r }(), idle().state(), "execute u2"},
		{"CS-7: all new messages are sent, oldest first", post(t, "", "u1", "a:msg-1", "u2", "u3"), idle().state(), "execute u2 u3"},
		{"CS-7: messages of the log are not sent", post(t, "", "u1", "u2"), idle().state(), "execute u2"},
		{"CS-14: a result for a call that waits for an approval", post(t, "", "u1", "a:msg-1 step a1=1"), asking("a1").state(), "rejection nothing msg-1 kind-mismatch"},
		{"CS-14: an approval for a call of the browser", post(t, "", "u1", "a:msg-1 step c1=yes"), asking("c1").state(), "rejection nothing msg-1 kind-mismatch"},
		{"CS-14: an approval under another id", post(t, "", "u1", "a:msg-1 step other::a1=yes"), asking("a1").state(), "rejection nothing msg-1 stale-run-id"},
		{"CS-16: the first answer wins", post(t, "", "u1", "a:msg-1 step c1=2"), asking("c1", "c2").state(answered("c1")), "refused answered"},
		{"CS-16: the run is resumed first", post(t, "", "u1", "a:msg-1 step c1=2"), asking("c1").state(answered("c1")), "resume"},
		{"CS-16: a denied approval is final", post(t, "", "u1", "a:msg-1 step "+paused.run+"::a1=yes"), asking("a1", "c2").state(answered("-a1")), "refused answered"},
		{"CS-17: a failure of the browser is an answer", post(t, "", "u1", "a:msg-1 step c1=broke"), asking("c1").state(), "submit c1!client_tool_error"},
		{"CS-18: a pending approval", post(t, "", "u1", "a:msg-1 step "+paused.run+"::a1=no"), asking("a1").state(), "submit a1=false"},
		{"CS-19: an answer that the log has is skipped", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1").resumes("c1").ends().state(), "upToDate new msg-1"},
		{"CS-19: a stored answer is skipped", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1", "c2").state(answered("c1")), "upToDate new msg-1"},
		{"CS-20: the result of a server-side tool is not an answer", post(t, "", "u1", "a:msg-1 step c1=server"), asking("c1").state(), "upToDate new msg-1"},
		{"CS-20: an unknown call", post(t, "", "u1", "a:msg-1 step c9=1"), asking("c1").state(), "rejection nothing msg-1 unknown-tool-call"},
		{"CS-20: another decision", post(t, "", "u1", "a:msg-1 step "+paused.run+"::a1=no"), asking("a1").resumes("a1").ends().state(), "rejection nothing msg-1 already-resolved"},
		{"CS-20: a late answer", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1", "c2").state(answered("!c1")), "rejection nothing msg-1 expired"},
		{"CS-21: without a message there is no turn", post(t, "", "u1", "a:msg-1 step"), idle().state(), "upToDate new msg-1"},
		{"CS-22: answers before the message", post(t, "", "u1", "a:msg-1 step c1=1", "u2"), asking("c1", "c2").state(), "submit c1=1"},
		{"CS-22: other pending calls are abandoned", post(t, "", "u1", "a:msg-1 step c1=1", "u2"), asking("c1", "c2").state(answered("c1")), "abandon c2!client_tool_abandoned"},
		{"CS-23: one run at a time", post(t, "", "u1", "u2"), begin(t).turn("u1").state(), "refused running"},
		{"CS-23: also while it is requested", post(t, "", "u2"), begin(t).state(waitsFor(fresh)), "refused running"},
		{"CS-23: a run that waits for sub-agents", post(t, "", "u1", "u2"), begin(t).turn("u1").delegates().state(), "refused delegating"},
		{"CS-24: abandoned approvals are failures too", post(t, "", "u1", "a:msg-1", "u2"), asking("a1").state(), "abandon a1!client_tool_abandoned"},
		{"CS-25: no resume before the last answer", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1", "c2").state(answered("c1")), "upToDate new msg-1"},
		{"CS-26: a page load changes nothing", get(), asking("c1").state(), "nothing"},
		{"CS-27: a repeated failed answer", post(t, "", "u1"), begin(t).turn("u1").write(chunk.StreamFailed{Error: "x"}).state(), "replay whole msg-1"},
		{"CS-30: a stale cursor on a continuation", func() Request { r := post(t, "", "u1", "a:msg-1 step c1=1"); r.Cursor = get(5).Cursor; return r }(), asking("c1").resumes("c1").state(), "attach new msg-1"},
		{"CS-31: the client does not have the output", post(t, "", "u1"), asking("c1").state(), "replay whole msg-1"},
		{"CS-31: the client has the output", post(t, "", "u1", "a:msg-1 step"), idle().state(), "upToDate new msg-1"},
		{"CS-32: the run continued by itself", post(t, "", "u1", "a:msg-1 step c1=1"), asking("c1").resumes("c1").state(), "attach new msg-1"},
		{"CS-33: the message of an earlier turn", post(t, "", "u1", "a:msg-1 step"), begin(t).turn("u1").ends().turn("u2").state(), "upToDate nothing msg-1"},
		{"CS-34 overridden: a regeneration", post(t, `,"trigger":"regenerate-message"`, "u1"), idle().state(), "execute u1 for msg-0"},
		{"CS-35 overridden: a cursor before the message gets all of it", get(10), begin(t).turn("u1").state(), "attach whole msg-1"},

		// docs/protocol/aisdk.md#aisdk-9.
		{"9.3: a cursor inside the message gets the rest", get(20), asking("c1").resumes("c1").state(), "attach tail msg-1 after 20"},
		{"9.5: an answer that ended after the snapshot", get(20), idle().state(), "replay tail msg-1 after 20"},
		{"9.5: an answer that started and ended after the snapshot", get(5), idle().state(), "replay whole msg-1"},
		{"9.5: no records after the cursor", get(40), idle().state(), "nothing"},
		{"9.5: no cursor and no run", get(), idle().state(), "nothing"},
		{"a cursor of another incarnation of the stream", get(99999), begin(t).turn("u1").state(), "attach whole msg-1"},
		{"a page between the message and its run", get(), begin(t).state(waitsFor(fresh)), "attach whole msg-1 awaited"},
		{"a page between the answer and its run", get(), paused.state(answered("c1"), resumed(paused)), "attach whole msg-1 awaited"},
		{"a page in a session whose sub-agents are running", get(), begin(t).turn("u1").delegates().state(), "attach whole msg-1"},
		{"the edge that stored the last answer crashed", get(), asking("c1").state(answered("c1")), "resume"},
		{"CV-20: an expired deadline", get(), asking("c1").state(deadline(testNow.Add(-time.Millisecond))), "sweep c1!client_tool_deadline_exceeded"},
		{"a deadline in the future", get(), asking("c1").state(deadline(testNow)), "nothing"},

		// Idempotency.
		{"the same message before its run", post(t, "", "u1"), begin(t).state(waitsFor(fresh)), "attach whole msg-1 awaited"},
		{"the same message during its run", post(t, "", "u1"), begin(t).turn("u1").state(), "attach whole msg-1"},
		{"a message of an earlier turn", post(t, "", "u1"), begin(t).turn("u1").ends().turn("u2").ends().state(), "refused changed"},
		{"a command whose acknowledgement is late", post(t, "", "u2"), idle().state(waitsFor(fresh)), "execute u2 after 7"},

		// Edits and new answers.
		{"an edit", post(t, `,"messageId":"u1"`, "u1"), idle().state(), "execute u1 for msg-0"},
		{"an edit with the id in the snapshot", post(t, `,"messageId":"msg-0"`, "msg-0"), idle().state(), "execute msg-0 for msg-0"},
		{"a repeated edit", post(t, `,"messageId":"u1"`, "u1"), begin(t).turn("u1").ends().turn("u1", "msg-0").ends().state(), "replay whole msg-3"},
		{"an edit during the run", post(t, `,"messageId":"u1"`, "u1"), begin(t).turn("u1").state(), "refused running"},
		{"a regeneration for a message that was not received", post(t, `,"trigger":"regenerate-message"`, "u1"), begin(t).state(), "execute u1"},
		{"a regeneration that is running", post(t, `,"trigger":"regenerate-message"`, "u1"), begin(t).turn("u1").ends().turn("u1", "msg-0").state(), "attach whole msg-3"},
		{"a second regeneration", post(t, `,"trigger":"regenerate-message"`, "u1"), begin(t).turn("u1").ends().turn("u1", "msg-0").ends().state(), "execute u1 for msg-2"},
		{"a regeneration of a replaced answer", post(t, `,"trigger":"regenerate-message","messageId":"msg-1"`, "u1"), begin(t).turn("u1").ends().turn("u1", "msg-0").ends().state(), "replay whole msg-3"},
		{"a regeneration of a replaced answer on its branch", post(t, `,"trigger":"regenerate-message","messageId":"msg-1","branch":"msg-1"`, "u1"), begin(t).turn("u1").ends().turn("u1", "msg-0").ends().state(), "execute u1 for msg-2"},
		{"a message on another branch", post(t, `,"branch":"msg-1"`, "a:msg-1", "u2"), begin(t).turn("u1").ends().turn("u1", "msg-0").ends().state(), "execute u2 following msg-1"},
		{"a message on an unknown branch", post(t, `,"branch":"msg-7"`, "a:msg-1", "u2"), idle().state(), "refused no-message"},
		{"a regeneration while calls are pending", post(t, `,"trigger":"regenerate-message"`, "u1"), asking("c1").state(), "abandon c1!client_tool_abandoned"},
		{"a regeneration of an earlier answer", post(t, `,"trigger":"regenerate-message"`, "u1"), begin(t).turn("u1").ends().turn("u2").ends().state(), "execute u1 for msg-0"},
		{"a regeneration with the id of the answer only", post(t, `,"trigger":"regenerate-message","messageId":"msg-1"`, "a:msg-1"), idle().state(), "execute u1 for msg-0"},
		{"a regeneration without a user message", post(t, `,"trigger":"regenerate-message"`, "a:msg-1"), idle().state(), "refused no-message"},

		{"another agent", func() Request { r := get(); r.AgentType = "other"; return r }(), idle().state(), "refused other-agent"},
	}
	for _, row := range rows {
		t.Run(row.rule, func(t *testing.T) {
			if got := describe(Decide(row.req, row.state)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// delegates pauses on a sub-agent.
func (s *history) delegates() *history {
	s.t.Helper()
	return s.write(
		chunk.ToolStart{ToolCallID: "d1", ToolName: "subagent__x", Arguments: chunk.Value(`{}`)},
		chunk.SubagentStart{SubAgentType: "x", SubSessionID: "k1", CallID: "d1"},
		chunk.StreamPaused{},
	)
}
