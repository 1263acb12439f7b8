package conversation

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/projector/fold"
)

// model is a chat without a server: a log, a queue of one command, an inbox, and a worker with random actions.
type model struct {
	*history

	rt       *rapid.T
	command  *control.Command
	revision control.Revision
	inbox    map[string]control.Answer
	executed map[string]int // commands for a message, by its id, that replaced no other command
	calls    int
	partial  int               // plans that did not depend on the earlier messages
	promised map[string]string // ids of messages that streams were opened for, by run
}

func (m *model) look() State {
	return m.state(m.answered, func(state *State) { state.Command, state.Revision = m.command, m.revision })
}

func (m *model) lookOptimistic() State { return m.state(m.answered) }

func (m *model) answered(state *State) {
	for i := range state.Branches {
		for j := range state.Branches[i].PendingCalls {
			w := &state.Branches[i].PendingCalls[j]
			if a, ok := m.inbox[w.RunID+"/"+w.CallID]; ok {
				w.Answer = &a
			}
		}
	}
}

// decide does what Service.decide does, with the model.
func (m *model) decide(req Request) (Plan, int) {
	m.t.Helper()
	executes := 0
	for round := range MaxRounds {
		state, optimistic := m.look(), round == 0 && req.says()
		if optimistic {
			state = m.lookOptimistic()
		}
		plan := Decide(req, state)
		m.checkPartialLoad(req, state, plan)
		if optimistic && !plan.executes() {
			continue
		}
		for _, a := range plan.Store {
			if key := a.RunID + "/" + a.CallID; m.inbox[key].CallID == "" {
				m.inbox[key] = a
			}
		}
		before := m.command
		if plan.Command != nil && m.request(*plan.Command, plan.After) && plan.executes() {
			req.RequestedRun = plan.Command.RunID
			if m.command != before {
				executes++
			}
		}
		if plan.isFinal() {
			m.check(plan)
			return plan, executes
		}
	}
	m.t.Fatalf("the request %+v finds no end in %+v", req, m.look())
	return Plan{}, 0
}

// checkPartialLoad checks that the plan for a request is the same without the messages that are not loaded for it, unless the client gives a new message
// the id of one before the answer that it has.
func (m *model) checkPartialLoad(req Request, full State, want Plan) {
	m.t.Helper()
	d := req.detail()
	if !req.Post || d.messages == allMessages || !full.Known {
		return
	}
	service := Service{ports: Ports{Snapshots: &fakePorts{snap: m.snap}}}
	snap, list, err := service.snapshot(context.Background(), testSession, d)
	if err != nil {
		m.t.Fatal(err)
	}
	state := m.stateWith(snap, list, m.answered, func(state *State) { state.Command, state.Revision = full.Command, full.Revision })
	answer, _ := fold.MessageIndex(req.Answered.ID)
	reused := slices.ContainsFunc(req.Messages, func(in chunk.InputMessage) bool {
		known := full.input(clientID(in))
		return known != nil && known.Index < answer
	})
	if reused || !req.isCovered(&state) {
		return
	}
	m.partial++
	if got := describe(Decide(req, state)); got != describe(want) {
		m.t.Fatalf("%+v: without the earlier messages %s, want %s", req, got, describe(want))
	}
}

// request does what jscontrol.Queue.Request does.
func (m *model) request(c control.Command, after control.Revision) bool {
	switch {
	case m.command != nil && m.command.RunID == c.RunID && m.command.Kind == c.Kind:
		return true
	case m.command == nil && after == 0, m.command != nil && after == m.revision:
	default:
		return false
	}
	m.command, m.revision = &c, m.revision+1
	if c.Kind == control.Execute && c.Replaces == "" {
		m.executed[lastInput(&c)]++
	}
	return true
}

// check checks a final plan against the documentation of Decide.
func (m *model) check(p Plan) {
	m.t.Helper()
	set := 0
	for _, is := range []bool{p.Refusal != nil, p.Stream != nil, p.Path == PathNoContent} {
		if is {
			set++
		}
	}
	if set != 1 {
		m.t.Fatalf("%d last words in %+v", set, p)
	}
	state := m.look()
	if s := p.Stream; s != nil && s.Show != ShowEmpty {
		if state.Opening() {
			m.promised[s.Run] = s.MessageID
		} else if s.MessageID != state.Answer {
			m.t.Fatalf("the stream is of %s, the answer is %s", s.MessageID, state.Answer)
		}
	}
}

// work is one action of a worker.
func (m *model) work() {
	m.t.Helper()
	state := m.look()
	switch c := state.Waiting(); {
	case c != nil:
		m.begin(c)
	case m.snap.Status == fold.Active:
		m.continueRun()
	case m.command != nil:
		m.command = nil // a late acknowledgement
	}
}

func (m *model) begin(c *control.Command) {
	m.t.Helper()
	if c.Kind == control.Resume && (m.snap.Run.ID != c.Resumes || m.snap.Run.Status != fold.RunSuspended) {
		m.command = nil
		return
	}
	open := m.snap.OpenCalls()
	mode := c.Mode
	if c.Kind == control.Execute {
		mode = "execute"
	}
	m.run = c.RunID
	m.write(chunk.RunStarted{RunID: c.RunID, Mode: mode, Input: c.Input})
	if id, ok := m.promised[c.RunID]; ok && id != fold.MessageID(m.snap.TurnMessages()) {
		m.t.Fatalf("a stream has the message %s, the log has %s", id, fold.MessageID(m.snap.TurnMessages()))
	}
	for _, call := range open {
		m.write(chunk.ToolEnd{ToolCallID: call.ID, ToolName: call.ToolName, Result: chunk.Value("1")})
	}
	m.write(chunk.StepStart{})
}

func (m *model) continueRun() {
	m.t.Helper()
	switch rapid.IntRange(0, 5).Draw(m.rt, "continues") {
	case 0, 1:
		m.write(chunk.TextDelta{Delta: "x"})
	case 2:
		m.ends()
	case 3:
		m.write(chunk.StreamFailed{Error: "x"})
	default:
		var calls []string
		for range rapid.IntRange(1, 2).Draw(m.rt, "calls") {
			m.calls++
			calls = append(calls, fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"a", "c"}).Draw(m.rt, "kind"), m.calls))
		}
		m.asks(calls...)
	}
}

// ask draws any request that a client may send, valid or not.
func (m *model) ask() Request {
	m.t.Helper()
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(m.rt, what) }
	if rapid.IntRange(0, 3).Draw(m.rt, "get") == 0 {
		if rapid.Bool().Draw(m.rt, "cursor") {
			return get(rapid.IntRange(0, 10*int(m.n)+20).Draw(m.rt, "at"))
		}
		return get()
	}
	members := ""
	if rapid.IntRange(0, 3).Draw(m.rt, "regenerate") == 0 {
		members = `,"trigger":"regenerate-message"`
	}
	id := func(what string) string {
		return pick(what, "u1", "u2", "u3", "u4", fold.MessageID(rapid.IntRange(0, 6).Draw(m.rt, "n")))
	}
	if rapid.IntRange(0, 2).Draw(m.rt, "named") == 0 {
		members += fmt.Sprintf(`,"messageId":%q`, id("messageId"))
	}
	var messages []string
	for range rapid.IntRange(0, 2).Draw(m.rt, "before") {
		messages = append(messages, id("message"))
	}
	if rapid.Bool().Draw(m.rt, "answers") {
		a := "a:" + m.look().Answer
		if m.look().Answer == "" {
			a = "a:msg-1"
		}
		if rapid.IntRange(0, 3).Draw(m.rt, "missed answers") == 0 {
			a = "a:" + fold.MessageID(2*rapid.IntRange(0, 3).Draw(m.rt, "answer")+1)
		}
		for range rapid.IntRange(0, 3).Draw(m.rt, "steps") {
			a += " step"
		}
		for range rapid.IntRange(0, 2).Draw(m.rt, "given") {
			call := pick("which", "a", "c") + fmt.Sprint(rapid.IntRange(1, max(1, m.calls)+1).Draw(m.rt, "call"))
			a += " " + m.snap.Run.ID + "::" + call + "=" + pick("what", "yes", "no", "1", "2", "broke", "server")
		}
		messages = append(messages, a)
	}
	for range rapid.IntRange(0, 2).Draw(m.rt, "turn") {
		messages = append(messages, id("turn message"))
	}
	if len(messages) == 0 {
		messages = append(messages, id("only"))
	}
	return post(m.t, members, messages...)
}

// For any sequence of requests and actions of a worker there is a plan; the same request again requests nothing; a request that only reads starts no run; a
// message gets one run; and the message that a stream was opened for is the message in the log.
func TestDecideIsTotalAndIdempotent(t *testing.T) {
	partial := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{
			history: begin(rt), rt: rt, inbox: map[string]control.Answer{}, executed: map[string]int{}, promised: map[string]string{},
		}
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			if rapid.IntRange(0, 2).Draw(rt, "who") > 0 {
				m.work()
				continue
			}
			req := m.ask()
			plan, executes := m.decide(req)
			if executes > 1 || !req.Post && executes > 0 {
				rt.Fatalf("%+v asked for %d runs", req, executes)
			}
			again, more := m.decide(req)
			if more > 0 {
				rt.Fatalf("%+v asked for another run, after %s: %s", req, describe(plan), describe(again))
			}
		}
		partial += m.partial
		ids := []string{}
		for id, n := range m.executed {
			if n > 1 {
				ids = append(ids, id)
			}
		}
		if slices.Sort(ids); len(ids) > 0 {
			rt.Fatalf("messages %q were asked about more than once", ids)
		}
	})
	if partial == 0 {
		t.Error("every plan was made with all messages")
	}
}
