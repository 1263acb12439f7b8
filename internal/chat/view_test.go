package chat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec/aisdk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/view"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

// twoSteps is an answer of two steps.
const twoSteps = "msg-1 step" + " step"

// audiences has a view that hides the calls of tools and all but texts, the preset, one that masks inputs and results, and one that shows everything.
func audiences(tb testing.TB) *view.Views {
	tb.Helper()
	return must(view.New(view.Config{
		Default: "texts", Selectable: []string{"customer", "masked", "staff"},
		Views: map[string]view.View{
			"texts":    {Types: []chunk.Type{chunk.TypeTextDelta}},
			"customer": {Preset: view.Public},
			"masked": {
				Preset: view.Analytics,
				Except: []chunk.Type{chunk.TypeCustom, chunk.TypeRunPaused, chunk.TypeStreamPaused},
				Hide:   map[chunk.Type][]string{"*": {"error", "errorDetail"}},
			},
			"staff": {Types: []chunk.Type{"*"}, SubAgents: true},
			"board": {Types: []chunk.Type{"*"}, SubAgents: true},
		},
	}))(tb)
}

func withViews(tb testing.TB) func(*edgeConfig) {
	tb.Helper()
	return func(cfg *edgeConfig) {
		cfg.edge.Views = audiences(tb)
		cfg.Dialect.SubAgents = aisdk.Inline
	}
}

// confiding writes a secret in everything but its texts, and asks the browser and the user. It does not finish before the gate is open.
func confiding(gate <-chan struct{}) script {
	secret := func(n int) chunk.Value { return chunk.Value(fmt.Sprintf(`{"a":"s3cret%d"}`, n)) }
	texts := func(text string) *string { return &text }
	return func(ctx context.Context, c control.Command, run *producers.Run, _ *env) error {
		if c.Kind == control.Resume {
			if err := say(ctx, run, 2, "thanks"); err != nil {
				return err
			}
			return run.Fail(ctx, "s3cret0", nil)
		}
		run.SetStep(1)
		ours := true
		for _, body := range []chunk.Body{
			chunk.StepStart{},
			chunk.Thinking{Content: "s3cret1", IsComplete: true},
			chunk.TextDelta{Delta: "Let me "},
			chunk.ToolArgStreamStart{ToolCallID: "t1", ToolName: "look_up"},
			chunk.ToolArgStreamDelta{ToolCallID: "t1", Delta: `{"a":"s3cret2"}`},
			chunk.ToolStart{ToolCallID: "t1", ToolName: "look_up", Arguments: secret(2)},
			chunk.ToolEnd{ToolCallID: "t1", ToolName: "look_up", Result: secret(3), ProviderExecuted: &ours},
			chunk.ToolStart{ToolCallID: "t2", ToolName: "look_up", Arguments: secret(4)},
			chunk.ToolEnd{ToolCallID: "t2", ToolName: "look_up", Result: chunk.Value("null"), Error: texts("s3cret5"), ProviderExecuted: &ours},
			chunk.Custom{EventName: "note", Data: secret(6)},
			chunk.Error{Error: "s3cret7", Recoverable: true},
			chunk.TextDelta{Delta: "see."},
			chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "3"}},
		} {
			if err := run.EmitBody(ctx, body); err != nil {
				return err
			}
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		run.SetStep(2)
		for _, body := range []chunk.Body{
			chunk.StepStart{},
			chunk.TextDelta{Delta: "Well?"},
			chunk.ToolStart{ToolCallID: "c1", ToolName: "browser", Arguments: secret(8)},
			chunk.ToolApprovalRequest{ToolCallID: "a1", ToolName: "pay", ApprovalID: run.ID() + "::a1", Input: secret(9)},
			chunk.StepEnd{},
		} {
			if err := run.EmitBody(ctx, body); err != nil {
				return err
			}
		}
		return run.Pause(ctx, "s3cret10")
	}
}

// Each view has its own answer, live, resumed at each cursor and in the snapshot, and none of them has a secret. The URL chooses among the views of the client.
func TestViews(t *testing.T) {
	const (
		texts    = "start(msg-1) start-step text-start text-delta(Let me ) text-end text-start text-delta(see.) text-end finish-step start-step text-start text-delta(Well?) text-end finish-step finish(tool-calls) DONE"
		customer = "start(msg-1) start-step text-start text-delta(Let me ) text-end tool-input-start(t1) tool-input-available(t1) tool-output-available(t1)(null) " +
			"tool-input-available(t2) tool-output-error(t2) data-error text-start text-delta(see.) text-end finish-step " +
			"start-step text-start text-delta(Well?) text-end tool-input-available(c1) tool-input-available(a1) tool-approval-request(a1) finish-step finish(tool-calls) DONE"
	)
	masked := strings.Replace(customer, "(null)", `({"a":"•"})`, 1)
	for query, whole := range map[string]string{"": texts, "?view=texts": texts, "?view=customer": customer, "?view=masked": masked} {
		w := newEnv(t)
		e := w.newEdge(withViews(t))
		gate := make(chan struct{})
		w.work(confiding(gate))
		page := e.open(http.MethodPost, query, chatBody("", user("u1", "hi")), nil)
		var all []string
		rests := map[chunk.Seq]int{} // number of the chunks up to each cursor
		read := func(last string) {
			for word, id := "", page.id; word != last; id = page.id {
				if word = page.next(); word == "" {
					t.Fatalf("%q ended before %s: %v", all, last, page.lines.Err())
				}
				if all = append(all, word); page.id != id {
					at, _ := chunk.ParseCursor(page.id)
					rests[at.Seq] = len(all)
				}
			}
		}
		read("text-delta(see.)")
		before := strings.Join(all, " ")
		early := e.open(http.MethodGet, "/stream"+query, "", http.Header{"X-Resume-From-Sequence": {page.id}})
		late := e.open(http.MethodGet, "/stream"+query, "", nil)
		close(gate)
		read("DONE")
		want(t, strings.Join(all, " "), whole)
		want(t, before+" "+early.rest(), whole)
		replayed := strings.Replace(whole, "data-error ", "", 1) // a replay leaves out notices
		want(t, late.rest(), replayed)
		if all := strings.Join(slices.Concat(page.all, early.all, late.all), "\n") + e.get("/snapshot"+query, nil); strings.Contains(all, "s3cret") {
			t.Errorf("%s: a hidden text is in\n%s", query, all)
		}
		// A client that comes back with any cursor, of its own stream or of one under another view, gets the rest of its own.
		rest := replayed
		for seq := chunk.Seq(1); seq < w.end(); seq++ {
			if n, has := rests[seq]; has {
				rest = strings.Join(all[n:], " ")
			} else if seq > 1 && rest == replayed {
				rest = strings.Join(all[1:], " ") // it has the start
			}
			want(t, e.get("/stream"+query, http.Header{"X-Resume-From-Sequence": {fmt.Sprint(seq)}}), rest)
		}
	}
}

// end returns the last sequence of the chat.
func (w *env) end() chunk.Seq {
	w.t.Helper()
	snap, err := w.Reader.Head(w.t.Context(), chunk.RootSession("acme", "s1"))
	if err != nil {
		w.t.Fatal(err)
	}
	return snap.Position.Seq
}

// The view of a client is that of its credential: it cannot choose another one, whether that exists or not.
func TestViewOfTheCredential(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) {
		withViews(t)(cfg)
		cfg.edge.Authenticator = granting{auth.Grant{
			Tenant: "acme", Subject: "ann", Scopes: auth.AllScopes, Sessions: auth.Sessions{All: true}, Views: []string{"customer", "texts"},
		}, new(atomic.Int64)}
	})
	gate := make(chan struct{})
	close(gate)
	w.work(confiding(gate))
	if got := e.post("", chatBody("", user("u1", "hi"))); !strings.Contains(got, "tool-input-available(t1)") {
		t.Errorf("the first view of the credential shows %s", got)
	}
	if got := e.get("/snapshot?view=texts", nil); strings.Contains(got, "look_up") || !strings.Contains(got, "Let me ") {
		t.Errorf("the view of the URL shows %s", got)
	}
	for _, name := range []string{"staff", "board", "none"} {
		for _, call := range []func() string{
			func() string { return e.get("/snapshot?view="+name, nil) },
			func() string { return e.get("/stream?view="+name, nil) },
			func() string { return e.post("?view="+name, chatBody("", user("u2", "hi"))) },
			func() string { return e.post("/answers?view="+name, `{"toolCallId":"c1","result":1}`) },
			func() string { return e.post("/stop?view="+name, "") },
		} {
			want(t, call(), `400 {"error":"there is no such view","code":"VALIDATION_ERROR"}`)
		}
	}
	w.handledAre("execute")
}

// A call that a view hides does not exist for its client: it can neither answer it nor find out that it is there. One that the view shows can be answered, and
// the response has no more of an earlier answer than the view shows.
func TestViewsOfCalls(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(withViews(t))
	gate := make(chan struct{})
	close(gate)
	w.work(confiding(gate))
	first := e.post("", chatBody("", user("u1", "hi")))
	run := control.ExecuteRunID(chunk.RootSession("acme", "s1"), "u1")
	answers := func(call string) []string {
		approval := fmt.Sprintf(`{"kind":"approval-response","toolCallId":%q,"approvalId":"%s::%s","approved":true}`, call, run, call)
		return []string{
			e.post("/answers", approval), e.post("/answers", fmt.Sprintf(`{"toolCallId":%q,"result":1}`, call)),
			strings.ReplaceAll(e.post("", chatBody("", user("u1", "hi"), assistantMessage(twoSteps+" "+run+"::"+call+"=yes"))), call, "*"),
			strings.ReplaceAll(e.post("", chatBody("", user("u1", "hi"), assistantMessage(twoSteps+" "+call+"=1"))), call, "*"),
		}
	}
	unknown := answers("zz")
	for _, call := range []string{"a1", "c1", "t1", "k1/a1"} {
		if got := answers(call); !slices.Equal(got, unknown) {
			t.Errorf("%s: %q\nan unknown call: %q", call, got, unknown)
		}
	}
	w.handledAre("execute")
	if stored, err := w.Inbox.Answers(t.Context(), chunk.RootSession("acme", "s1"), run); err != nil || len(stored) > 0 {
		t.Fatalf("%v, %v: an answer to a hidden call was stored", stored, err)
	}
	want(t, e.post("/answers?view=staff", `{"toolCallId":"c1","result":{"a":"s3cret20"}}`), "204")
	if got := e.post("/answers?view=customer", `{"toolCallId":"c1","result":1}`); !strings.HasPrefix(got, `409 {"code":"ALREADY_ANSWERED"`) && !strings.Contains(got, "ALREADY_ANSWERED") || strings.Contains(got, "s3cret") {
		t.Errorf("the first answer is shown: %s", got)
	}
	if got := e.post("?view=customer", chatBody("", user("u1", "hi"), assistantMessage(twoSteps+" c1=1"))); !strings.Contains(got, "ALREADY_ANSWERED") || strings.Contains(got, "s3cret") {
		t.Errorf("the first answer is shown: %s", got)
	}
	// The customer sees the approval but not the input, and cannot approve it, whatever it says that it was shown.
	approval := fmt.Sprintf(`{"kind":"approval-response","toolCallId":"a1","approvalId":"%s::a1","approved":true`, run)
	for _, hash := range []string{"", `,"inputHash":"` + control.InputHash(chunk.Value(`{"a":"s3cret9"}`)) + `"`} {
		if got := e.post("/answers?view=customer", approval+hash+"}"); !strings.Contains(got, "INPUT_MISMATCH") {
			t.Errorf("approval of a hidden input: %s", got)
		}
	}
	if got := e.post("?view=customer", chatBody("", user("u1", "hi"), assistantMessage(twoSteps+" "+run+"::a1=yes"))); !strings.Contains(got, "data-resume-rejected(input-mismatch)") || strings.Contains(got, "s3cret") {
		t.Errorf("approval of a hidden input: %s", got)
	}
	w.handledAre("execute")
	// The customer denies it; the response has the rest of the same message.
	got := e.post("?view=customer", chatBody("", user("u1", "hi"), assistantMessage(twoSteps+" "+run+"::a1=no")))
	if !strings.HasPrefix(got, "start(msg-1) ") || !strings.HasSuffix(got, "start-step text-start text-delta(thanks) text-end finish-step error DONE") || strings.Contains(got, "s3cret") {
		t.Errorf("after %s\nthe rest is %s", first, got)
	}
	w.handledAre("execute", "resume")
}

// A client whose view hides parts of the messages sends its history without them: a message, a regeneration and an edit work, and what the view hides of a message
// is not lost. Whether an edit equals a hidden message cannot be found out.
func TestViewsOfHistories(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(withViews(t))
	w.work(answer)
	const metadata = `{"id":"u1","role":"user","parts":[{"type":"text","text":"hi"}],"metadata":{"plan":"s3cret"}}`
	want(t, e.post("?view=customer", chatBody("", metadata)), whole("msg-1"))
	if got := e.get("/snapshot?view=customer", nil); strings.Contains(got, "s3cret") || !strings.Contains(got, `"text":"hi"`) {
		t.Errorf("the snapshot is %s", got)
	}
	want(t, e.post("?view=customer", chatBody(`,"trigger":"regenerate-message","messageId":"msg-1"`, user("u1", "hi"))), whole("msg-3"))
	last := func() chunk.InputMessage {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.handled[len(w.handled)-1].Input[0]
	}
	if in := last(); in.Content != "hi" || in.Metadata == nil || string(*in.Metadata) != `{"plan":"s3cret"}` {
		t.Errorf("the regenerated message is %+v", in)
	}
	// The view of texts hides the messages of users: an edit of one is refused, whatever its text.
	for _, text := range []string{"hi", "ho"} {
		want(t, e.post("", chatBody(`,"messageId":"u1"`, user("u1", text))), `409 {"error":"the conversation has changed; load it again","code":"EXECUTION_ERROR"}`)
	}
	want(t, e.post("?view=customer", chatBody(`,"messageId":"u1"`, user("u1", "ho"))), whole("msg-5"))
	want(t, e.post("", chatBody("", user("u2", "more"))), whole("msg-7"))
	want(t, e.post("", chatBody(`,"trigger":"regenerate-message"`, user("u2", ""+"more"))), whole("msg-9"))
	w.handledAre("execute", "execute", "execute", "execute", "execute")
}

// No route of chats has a text that the view of the client hides. The routes are those of the route table.
func TestNoRouteShowsHiddenText(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(withViews(t))
	gate := make(chan struct{})
	close(gate)
	w.work(confiding(gate))
	e.post("", chatBody("", user("u1", "hi")))
	run := control.ExecuteRunID(chunk.RootSession("acme", "s1"), "u1")
	try := func() {
		for _, view := range []string{"", "?view=customer"} {
			for _, route := range e.service.surface.Routes() {
				method, path, _ := strings.Cut(route, " ")
				for _, body := range []string{
					"", `{"toolCallId":"c1","result":1}`, `{"toolCallId":"t1","result":1}`, chatBody("", user("u1", "hi")),
					chatBody("", user("u1", "hi"), assistantMessage(twoSteps+" t1=1 "+run+"::a1=no")),
					`{"kind":"approval-response","toolCallId":"a1","approvalId":"` + run + `::a1","approved":true}`,
				} {
					if (method == http.MethodGet) != (body == "") {
						continue
					}
					e.base = strings.Replace(path, "{id}", "s1", 1)
					resp, err := e.try(method, view, body, nil)
					if err != nil {
						t.Fatal(err)
					}
					text, err := io.ReadAll(resp.Body)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if strings.Contains(string(text), "s3cret") || strings.Contains(fmt.Sprint(resp.Header), "s3cret") {
						t.Errorf("%s%s %s: %s", route, view, body, text)
					}
				}
			}
		}
	}
	try()
	e.base = ""
	e.post("/answers?view=staff", `{"toolCallId":"c1","error":"s3cret30"}`)
	e.post("/answers?view=staff", `{"kind":"approval-response","toolCallId":"a1","approvalId":"`+run+`::a1","approved":false,"reason":"s3cret31"}`)
	try()
	e.base = ""
	if all := e.get("/snapshot?view=staff", nil); !strings.Contains(all, "s3cret5") {
		t.Errorf("the view of everything has %s", all)
	}
}

// A sub-agent asks the user, and the view of the client hides sub-agents: the response ends without the question, the client cannot answer it, and after another
// client has answered it the first one gets the rest of the answer.
func TestViewsOfSubAgents(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(withViews(t))
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(boss), "clerk": workers.AgentFunc(clerk)})
	first := e.open(http.MethodPost, "?view=customer", chatBody("", user("u1", "hi")), nil)
	want(t, first.rest(), "start(msg-1) start-step tool-input-available(d1) finish-step data-run-paused finish(tool-calls) DONE")
	staff := e.open(http.MethodGet, "/stream?view=staff", "", nil)
	if got := staff.rest(); !strings.Contains(got, "tool-approval-request(") {
		t.Fatalf("the question is %s", got)
	}
	call, approval := staff.question()
	session, _, _ := strings.Cut(call, "/")
	if got := e.get("/snapshot?view=customer", nil) + e.get("/stream?view=customer", nil) + strings.Join(first.all, ""); strings.Contains(got, session) {
		t.Errorf("the hidden sub-agent is in %s", got)
	}
	approve := func(query, call string) string {
		return e.post("/answers"+query, fmt.Sprintf(`{"kind":"approval-response","toolCallId":%q,"approvalId":%q,"approved":true}`, call, approval))
	}
	want(t, approve("?view=customer", call), approve("?view=customer", "k9/a1"))
	want(t, approve("?view=staff", call), "204")
	resumed := e.open(http.MethodGet, "/stream?view=customer", "", http.Header{"X-Resume-From-Sequence": {first.id}})
	want(t, resumed.rest(), `data-run-resumed tool-output-available(d1)(null) start-step text-start text-delta(it was done) text-end finish-step finish(stop) DONE`)
	if got := e.contents(); got != "step-start, it was done" { // the view of texts
		t.Errorf("the snapshot has %s", got)
	}
}
