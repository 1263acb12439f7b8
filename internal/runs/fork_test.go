package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/conversation"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/jsvalues"
	"github.com/tailrace/tailrace/internal/natsauth"
	"github.com/tailrace/tailrace/internal/retention"
	"github.com/tailrace/tailrace/internal/runs"
	"github.com/tailrace/tailrace/internal/testkit/natstest"
	"github.com/tailrace/tailrace/internal/testkit/stack"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/subjects"
	"github.com/tailrace/tailrace/workers"
)

// given is what an agent gets of a turn.
type given struct {
	agent, messages, state, params, origin string
	steps                                  int
}

// forks is a server with an agent of two steps, which searches and then answers, under two types.
type forks struct {
	*stack.Stack

	t       *testing.T
	service *conversation.Service
	given   chan given
}

func newForks(t *testing.T) *forks {
	t.Helper()
	w := &forks{Stack: stack.Start(t, stack.Options{}), t: t, given: make(chan given, 16)}
	service, err := runs.New(w.JS, runs.Config{Config: conversation.Config{AgentTypes: []string{"finder", "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	w.service = service.As(conversation.Caller{By: &chunk.Principal{Subject: "ann"}})
	p := w.NewProcess(natsauth.Worker)
	worker, err := workers.New(p.JS, workers.Config{
		Agents:     map[string]workers.Agent{"finder": workers.AgentFunc(w.answer), "other": workers.AgentFunc(w.answer)},
		RetryDelay: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Go(worker.Run)
	return w
}

func (w *forks) answer(ctx context.Context, t *workers.Turn) error {
	got := given{agent: t.AgentType(), state: string(t.State()), params: t.Params().String(), steps: t.Steps()}
	for _, m := range t.Messages() {
		got.messages += fmt.Sprintf("%s %s:%s", m.ID(), m.Role, m.Text())
		for _, c := range m.Calls() {
			got.messages += fmt.Sprintf(" [%s %s %s%s]", c.ID, c.State, c.Output, c.Error)
		}
		got.messages += "\n"
	}
	if o := t.Origin(); o != nil {
		got.origin = fmt.Sprintf("%s step %d", o.Session, o.Step)
	}
	w.given <- got
	for {
		n := t.Steps() + 1
		err := t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			if n > 1 {
				s.MarkFinal()
				return s.Text(ctx, "found")
			}
			call := s.Tool("c1", "find")
			return errors.Join(call.Start(ctx, map[string]int{"step": n}), call.End(ctx, map[string]int{"n": n}), s.SetState(ctx, map[string]int{"n": n}))
		})
		if err != nil || n > 1 {
			return err
		}
	}
}

// origin returns a session whose run has ended, and the cursors of the records of a type.
func (w *forks) origin(id string) chunk.Session {
	w.t.Helper()
	s := chunk.RootSession("default", id)
	if _, refusal := w.service.Start(w.t.Context(), conversation.StartRequest{Session: s, AgentType: "finder", Input: []chunk.InputMessage{{Content: "where?"}}, Params: chunk.Value(`{"p":1}`)}); refusal != nil {
		w.t.Fatal(refusal)
	}
	w.AwaitStatus(s, fold.Ended)
	<-w.given
	return s
}

func (w *forks) cursor(s chunk.Session, typ chunk.Type) string {
	w.t.Helper()
	for _, rec := range w.Records(s) {
		if rec.Type == typ {
			return rec.Cursor().String()
		}
	}
	w.t.Fatalf("%s has no %s", s, typ)
	return ""
}

// requestFork requests a fork of a session.
func (w *forks) requestFork(s chunk.Session, f conversation.ForkRequest) (conversation.Forked, *conversation.Refusal) {
	f.Origin = s
	return w.service.Fork(context.WithoutCancel(w.t.Context()), f)
}

func (w *forks) fork(s chunk.Session, f conversation.ForkRequest) (chunk.Session, conversation.Forked) {
	w.t.Helper()
	forked, refusal := w.requestFork(s, f)
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	return chunk.RootSession("default", forked.Session), forked
}

// A fork after a step continues with the edited result, the state, another agent and params; the agent gets the history up to the step and its number.
func TestForkContinuesATurn(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	at := w.cursor(s, chunk.TypeStepCommitted)
	f := conversation.ForkRequest{
		At: at, AgentType: "other", Params: chunk.Value(`{"model":"m-2"}`), Edits: []fold.Edit{{CallID: "c1", Output: chunk.Value(`{"n":7}`)}},
		StatePatch: []chunk.PatchOp{{Op: "add", Path: "/extra", Value: new(chunk.Value(`true`))}}, Continue: true,
	}
	id, forked := w.fork(s, f)
	if forked.At != at || forked.Boundary != "step" || forked.Step != 1 || forked.Messages != 2 || forked.Run == "" {
		t.Errorf("%+v, want the step at %s", forked, at)
	}
	want := given{agent: "other", messages: "msg-0 user:where?\nmsg-1 assistant: [c1 " + string(fold.CallDone) + " {\"n\":7}]\n", state: `{"n":1,"extra":true}`, params: `{"model":"m-2"}`, origin: "s1 step 1", steps: 1}
	if got := <-w.given; got != want {
		t.Errorf("the agent got\n%+v, want\n%+v", got, want)
	}
	snap := w.AwaitStatus(id, fold.Ended)
	if list := snap.AllMessages(); len(list) != 3 || list[2].Text() != "found" || list[2].Shown != 1 || snap.Owner.Subject != "ann" || snap.AgentType != "other" || snap.Run.ID != forked.Run {
		t.Errorf("run %s of %s\n%s", snap.Run.ID, snap.AgentType, stack.Conversation(snap))
	}
	before := w.Records(id)
	if _, again := w.fork(s, f); again != forked || len(w.Records(id)) != len(before) {
		t.Errorf("repeated: %+v, want %+v", again, forked)
	}
	if origin := w.Snapshot(s); origin.MessageCount() != 3 || string(origin.State) != `{"n":1}` {
		t.Errorf("the origin has changed: %s", stack.Conversation(origin))
	}
}

// A fork at the end answers a new message after all messages of the origin, also after its deletion, and is a function of its log.
func TestForkAnswersAMessage(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	id, forked := w.fork(s, conversation.ForkRequest{At: w.cursor(s, chunk.TypeStreamEnd), Message: &chunk.InputMessage{Content: "again?"}})
	if forked.Boundary != "end" || forked.Messages != 2 {
		t.Errorf("%+v", forked)
	}
	got := <-w.given
	if lines := strings.Split(got.messages, "\n"); len(lines) != 5 || lines[3] != "msg-3 user:again?" || got.steps != 0 || got.state != `{"n":1}` {
		t.Errorf("the agent got %+v", got)
	}
	w.AwaitStatus(id, fold.Ended)
	before := stored(w.Snapshot(id))
	if err := w.eraser().Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if after := stored(w.Snapshot(id)); after != before {
		t.Errorf("after the deletion of the origin:\n%s\nwant\n%s", after, before)
	}
	_, refusal := w.requestFork(s, conversation.ForkRequest{At: "1", Session: "f9"})
	wantReason(t, refusal, conversation.ReasonNoSession)
}

func stored(s fold.Snapshot) string { return string(s.AppendHead(nil)) }

// A fork before a message has nothing of it, and one without a run is a session that can be looked at and continued.
func TestForkBeforeAMessage(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	empty, forked := w.fork(s, conversation.ForkRequest{Before: "msg-0", Session: "f0"})
	if empty.ID != "f0" || forked.Messages != 0 || forked.Boundary != "message" || forked.Run != "" || forked.At != "" {
		t.Errorf("before the first message: %+v", forked)
	}
	if snap := w.Snapshot(empty); snap.MessageCount() != 0 || snap.AgentType != "finder" || snap.Status != fold.Ended {
		t.Errorf("%s %s\n%s", snap.Status, snap.AgentType, stack.Conversation(snap))
	}
	later, _ := w.fork(s, conversation.ForkRequest{At: w.cursor(s, chunk.TypeStreamEnd), Session: "f1", Message: &chunk.InputMessage{Content: "more"}})
	<-w.given
	w.AwaitStatus(later, fold.Ended)
	second, forked := w.fork(later, conversation.ForkRequest{Before: "msg-3", Session: "f2", Message: &chunk.InputMessage{Content: "less"}})
	if got := <-w.given; forked.Messages != 2 || !strings.Contains(got.messages, "msg-3 user:less") || strings.Contains(got.messages, "more") {
		t.Errorf("%+v, %+v", forked, got)
	}
	if snap := w.AwaitStatus(second, fold.Ended); snap.Origin.Depth != 2 || snap.Origin.Session != "f1" {
		t.Errorf("%+v", snap.Origin)
	}
	// The message of a branch is replaced by one in the same place, and not by one after the messages that are not on the branch.
	other := chunk.InputMessage{Content: "other", Extra: []chunk.Member{{Name: fold.ReplacesMember, Value: chunk.Value(`"msg-3"`)}}}
	w.Request(control.Command{Kind: control.Execute, Session: later, AgentType: "finder", RunID: "again", Input: []chunk.InputMessage{other}, Issued: time.Now()})
	<-w.given
	snap := w.AwaitStatus(later, fold.Ended)
	inputs := snap.Inputs()
	w.fork(later, conversation.ForkRequest{Before: fold.MessageID(inputs[len(inputs)-1].Index), Message: &chunk.InputMessage{Content: "another"}})
	if got := <-w.given; !strings.Contains(got.messages, "user:where?") || !strings.Contains(got.messages, "user:another") || strings.Contains(got.messages, "more") || strings.Contains(got.messages, "user:other") {
		t.Errorf("%+v", got)
	}
	// A fork does not have what is before its own beginning in its log, but in its messages.
	third, _ := w.fork(later, conversation.ForkRequest{At: w.cursor(later, chunk.TypeStreamEnd), Session: "f3"})
	_, refusal := w.requestFork(third, conversation.ForkRequest{Before: "msg-3"})
	wantReason(t, refusal, conversation.ReasonLost)
	for state, want := range map[string]string{"latest": `{"n":1}`, "empty": ""} {
		id, forked := w.fork(third, conversation.ForkRequest{Before: "msg-3", State: state})
		if got := string(w.Snapshot(id).State); forked.Messages != 2 || got != want {
			t.Errorf("%s: %+v with the state %s", state, forked, got)
		}
	}
}

func TestForkRefusals(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	end := w.cursor(s, chunk.TypeStreamEnd)
	taken := w.origin("s2")
	for name, row := range map[string]struct {
		fork conversation.ForkRequest
		want conversation.Reason
	}{
		"no point":             {conversation.ForkRequest{}, conversation.ReasonInvalid},
		"two points":           {conversation.ForkRequest{At: end, Before: "msg-0"}, conversation.ReasonInvalid},
		"not a cursor":         {conversation.ForkRequest{At: "x"}, conversation.ReasonInvalid},
		"another record":       {conversation.ForkRequest{At: strings.Split(end, "-")[0] + "-1"}, conversation.ReasonLost},
		"message and continue": {conversation.ForkRequest{At: end, Continue: true, Message: &chunk.InputMessage{}}, conversation.ReasonInvalid},
		"nothing to continue":  {conversation.ForkRequest{At: end, Continue: true}, conversation.ReasonNoTurn},
		"unknown call":         {conversation.ForkRequest{At: end, Edits: []fold.Edit{{CallID: "c9", Output: chunk.Value("1")}}}, conversation.ReasonUnknownCall},
		"an edit of nothing":   {conversation.ForkRequest{At: end, Edits: []fold.Edit{{CallID: "c1"}}}, conversation.ReasonInvalid},
		"unknown agent":        {conversation.ForkRequest{At: end, AgentType: "unknown"}, conversation.ReasonUnknownAgent},
		"unknown message":      {conversation.ForkRequest{Before: "msg-9"}, conversation.ReasonNoMessage},
		"an answer":            {conversation.ForkRequest{Before: "msg-1"}, conversation.ReasonNoMessage},
		"unknown checkpoint":   {conversation.ForkRequest{Checkpoint: "cp-none"}, conversation.ReasonNoMessage},
		"a bad patch":          {conversation.ForkRequest{At: end, StatePatch: []chunk.PatchOp{{Op: "remove", Path: "/none"}}}, conversation.ReasonInvalid},
		"another session":      {conversation.ForkRequest{At: end, Session: taken.ID}, conversation.ReasonExists},
		"itself":               {conversation.ForkRequest{At: end, Session: s.ID}, conversation.ReasonExists},
	} {
		_, refusal := w.requestFork(s, row.fork)
		if refusal == nil || refusal.Reason != row.want || refusal.Text == "" {
			t.Errorf("%s: %v, want %s, and a text", name, refusal, row.want)
		}
	}
	_, refusal := w.requestFork(s, conversation.ForkRequest{At: end, Continue: true})
	text, step, ok := strings.Cut(fmt.Sprint(refusal), ", or continue at ")
	if want := fmt.Sprintf("no-turn: there is nothing to continue at %s, the end of a run: send a message", end); !ok || text != want {
		t.Errorf("%v, want %s, and a step", refusal, want)
	}
	step, _, _ = strings.Cut(step, ", the step before it")
	w.fork(s, conversation.ForkRequest{At: step, Continue: true})
	if n := len(w.Records(taken)); n != len(w.Records(s)) {
		t.Errorf("the other session has %d records", n)
	}
}

// A crash between any two of the first records leaves a session that cannot be read, and in which no run starts. The same request completes it, and another one
// with the same id is refused.
func TestForkIsCompletedAfterACrash(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	f := conversation.ForkRequest{At: w.cursor(s, chunk.TypeStepCommitted), Continue: true}
	id, forked := w.fork(s, f)
	<-w.given
	want := w.AwaitStatus(id, fold.Ended)
	first := w.Records(id)[:2]
	if first[1].Type != chunk.TypeSessionForked {
		t.Fatalf("record 2 is %s", first[1].Type)
	}
	writer := w.NewWriter(producers.Config{})
	for n := range first {
		f.Session = fmt.Sprintf("crashed-%d", n)
		target := chunk.RootSession("default", f.Session)
		var records []chunk.Chunk
		for _, rec := range first[:n+1] {
			c, err := rec.Decode()
			if err != nil {
				t.Fatal(err)
			}
			c.AgentID = target.ID
			records = append(records, c)
		}
		if ok, err := writer.Fork(t.Context(), target, records); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if n == 0 {
			if _, err := w.Reader.Snapshot(t.Context(), target); !errors.Is(err, chunk.ErrUnknownSession) {
				t.Errorf("incomplete: %v", err)
			}
			if _, err := writer.Start(t.Context(), target, chunk.RunStarted{}); !errors.Is(err, producers.ErrRunning) {
				t.Errorf("a run of an incomplete fork: %v", err)
			}
			_, refusal := w.requestFork(s, conversation.ForkRequest{At: f.At, Session: f.Session, Edits: []fold.Edit{{CallID: "c1", Output: chunk.Value("2")}}})
			wantReason(t, refusal, conversation.ReasonExists)
		}
		if _, got := w.fork(s, f); got.Messages != forked.Messages || got.Run == "" {
			t.Errorf("%d records: %+v", n+1, got)
		}
		<-w.given
		if got := w.AwaitStatus(target, fold.Ended); stack.Conversation(got) != stack.Conversation(want) || len(w.Records(target)) != len(w.Records(id)) {
			t.Errorf("%d records:\n%s\nwant\n%s", n+1, stack.Conversation(got), stack.Conversation(want))
		}
	}
}

// Equal requests at once make one fork with one run.
func TestForkTwiceAtOnce(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	f := conversation.ForkRequest{At: w.cursor(s, chunk.TypeStepCommitted), Continue: true}
	var requests sync.WaitGroup
	results := make([]conversation.Forked, 8)
	for i := range results {
		requests.Go(func() {
			forked, refusal := w.requestFork(s, f)
			if refusal != nil {
				t.Error(refusal)
			}
			results[i] = forked
		})
	}
	requests.Wait()
	if slices.ContainsFunc(results, func(r conversation.Forked) bool { return r != results[0] }) {
		t.Errorf("%+v", results)
	}
	id := chunk.RootSession("default", results[0].Session)
	<-w.given
	w.AwaitStatus(id, fold.Ended)
	started := 0
	for _, body := range w.Bodies(id) {
		if _, ok := body.(chunk.RunStarted); ok {
			started++
		}
	}
	if started != 1 {
		t.Errorf("%d runs", started)
	}
	select {
	case again := <-w.given:
		t.Errorf("the agent was called again: %+v", again)
	default:
	}
}

// Forks at each record of a session have the messages of its snapshot at the point that the response names.
func TestForkAtEachRecord(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	for i, rec := range w.Records(s) {
		id, forked := w.fork(s, conversation.ForkRequest{At: rec.Cursor().String(), Session: fmt.Sprintf("at-%d", i)})
		at, _ := chunk.ParseCursor(forked.At)
		want := ""
		if at.Seq > 0 {
			snap, err := w.Reader.SnapshotAt(t.Context(), s, at.Seq)
			if err != nil {
				t.Fatal(err)
			}
			want = stack.Conversation(snap)
		}
		if at.Seq > rec.Seq {
			t.Errorf("%s: the point %s is later", rec.Type, forked.At)
		}
		natstest.Eventually(t, "the fork", func(context.Context) error {
			if got := stack.Conversation(w.Snapshot(id)); got != want {
				return fmt.Errorf("%s at %s:\n%s\nwant\n%s", rec.Type, forked.At, got, want)
			}
			return nil
		})
	}
}

// Large values of the messages are copied: the fork has them after the deletion of its origin, and its own deletion removes them.
func TestForkCopiesValues(t *testing.T) {
	w := newForks(t)
	s, fork := chunk.RootSession("default", "s1"), chunk.RootSession("default", "f1")
	run, err := w.NewWriter(producers.Config{}).Start(t.Context(), s, chunk.RunStarted{Input: []chunk.InputMessage{{Content: "q"}}}, producers.AgentType("finder"))
	if err != nil {
		t.Fatal(err)
	}
	result := chunk.Value(`"` + strings.Repeat("x", 600<<10) + `"`)
	for _, body := range []chunk.Body{
		chunk.ToolStart{ToolCallID: "c1", ToolName: "find", Arguments: chunk.Value(`{}`)}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "find", Result: result},
		chunk.File{URL: "data:text/plain;base64," + strings.Repeat("eHh4", 200<<10), MediaType: "text/plain"},
	} {
		if _, err := run.Write(t.Context(), chunk.Chunk{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(run.End(t.Context(), nil), run.Close()); err != nil {
		t.Fatal(err)
	}
	w.fork(s, conversation.ForkRequest{At: w.cursor(s, chunk.TypeStreamEnd), Session: fork.ID})
	text := stack.Conversation(w.Snapshot(fork))
	if strings.Contains(text, "/s1/") || strings.Count(text, "/v1/sessions/f1/values/1-") != 2 || strings.Count(text, `"tailraceValue":"1-tool_end-result-`) != 1 {
		t.Fatalf("%s", text)
	}
	eraser := w.eraser()
	if err := eraser.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, `"tailraceValue":"`)
	key, _, _ := strings.Cut(rest, `"`)
	store := jsvalues.New(jsclient.New(w.JS), subjects.Layout{})
	get := func() (string, error) {
		data, _, err := store.Get(t.Context(), fork, key, func(int) error { return nil })
		return string(data), err
	}
	if got, err := get(); got != string(result) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := eraser.Delete(t.Context(), fork); err != nil {
		t.Fatal(err)
	}
	if _, err := get(); !errors.Is(err, chunk.ErrUnknownValue) {
		t.Errorf("after the deletion of the fork: %v", err)
	}
}

// When the log of the origin has expired, a fork is possible at its end, and before a message with a state. Earlier forks are unchanged.
func TestForkOfAnExpiredSession(t *testing.T) {
	w := newForks(t)
	s := w.origin("s1")
	step, end := w.cursor(s, chunk.TypeStepCommitted), w.cursor(s, chunk.TypeStreamEnd)
	early, _ := w.fork(s, conversation.ForkRequest{At: step, Session: "f0"})
	before := stored(w.Snapshot(early))
	store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Save(t.Context(), w.Snapshot(s), 0); err != nil {
		t.Fatal(err)
	}
	stream, err := w.JS.Stream(t.Context(), "TR_CHUNKS_0")
	if err != nil {
		t.Fatal(err)
	}
	subject, err := subjects.Layout{}.Subject(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
		t.Fatal(err)
	}
	_, refusal := w.requestFork(s, conversation.ForkRequest{At: step})
	wantReason(t, refusal, conversation.ReasonLost)
	if _, forked := w.fork(s, conversation.ForkRequest{At: end, Session: "f1"}); forked.At != end || forked.Messages != 2 {
		t.Errorf("at the end: %+v", forked)
	}
	_, refusal = w.requestFork(s, conversation.ForkRequest{Before: "msg-0"})
	wantReason(t, refusal, conversation.ReasonLost)
	id, forked := w.fork(s, conversation.ForkRequest{Before: "msg-0", State: "latest", Message: &chunk.InputMessage{Content: "new"}})
	if got := <-w.given; got.messages != "msg-0 user:new\n" || got.state != `{"n":1}` || forked.Messages != 0 {
		t.Errorf("%+v %+v", got, forked)
	}
	w.AwaitStatus(id, fold.Ended)
	if after := stored(w.Snapshot(early)); after != before {
		t.Errorf("the fork has changed:\n%s\nwant\n%s", after, before)
	}
}

func (w *forks) eraser() *retention.Eraser {
	w.t.Helper()
	store, err := jssnapshots.New(w.JS, jssnapshots.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	eraser, err := retention.NewEraser(w.JS, store, retention.EraserConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	return eraser
}
