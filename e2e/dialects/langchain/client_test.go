//go:build e2e

package langchain

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/auth"
	"github.com/tailrace/tailrace/internal/demo/script"
)

// answers are what the user of a test answers to each question of the demo agent, until the run has ended.
func (e *edge) play(t *testing.T, id, say string) result {
	t.Helper()
	turns := []step{{Say: say, ID: "m1"}}
	for {
		v := e.run(t, thread{Thread: id, Turns: turns})
		last := v.Turns[len(v.Turns)-1]
		if last.Ends != "interrupted" || len(v.Interrupts) == 0 {
			return v
		}
		id, turns = id+"x", append(turns, answerTo(v.Interrupts[0]))
	}
}

func answerTo(i interrupt) step {
	if i.Payload["action_requests"] != nil {
		return step{Answer: map[string]any{"decisions": []any{map[string]any{"type": "approve"}}}}
	}
	return step{Answer: map[string]any{"ok": true}}
}

// Each demo scenario, until its run has ended: the client has the messages, the calls and the sub-agents of the state, which is the snapshot's.
func TestScenarios(t *testing.T) {
	e := newEdge(t, nil)
	for n, scenario := range script.Scenarios() {
		t.Run(scenario.Name, func(t *testing.T) {
			v := e.play(t, fmt.Sprintf("s%d", n), scenario.Prompt)
			ids(t, v.Events)
			last := v.Turns[len(v.Turns)-1].Ends
			t.Logf("%d turns, the last one %s, %d events, %d messages, %d calls, %d graphs", len(v.Turns), last, len(v.Events), len(v.Messages), len(v.Calls), len(v.Graphs))
			same(t, v)
		})
	}
}

// same fails the test unless what the client has assembled is what the state has.
func same(t *testing.T, v result) {
	t.Helper()
	// The last values are the state.
	var last map[string]any
	removed, resumed := false, 0
	for _, e := range v.Events {
		switch {
		case e.Method == "values" && len(e.Params.Namespace) == 0:
			last = e.Params.Data
		case e.Method == "custom" && e.Params.Data["name"] == "truncated":
			removed = true
		case e.Method == "lifecycle" && e.Params.Data["event"] == "interrupted" && len(e.Params.Namespace) == 0:
			resumed++
		}
	}
	if got, want := asJSON(t, last), asJSON(t, v.State.Values); got != want {
		t.Errorf("the last values are\n%s\nthe state\n%s", got, want)
	}
	stated, _ := v.State.Values["messages"].([]any)
	messages := make(map[string]map[string]any)
	var shown []string
	for _, m := range stated {
		m := m.(map[string]any)
		messages[m["id"].(string)] = m
		if m["type"] != "tool" {
			shown = append(shown, m["id"].(string))
		}
	}
	if resumed > len(v.Turns)-1 { // the SDK ends its lists when a run is interrupted, also if it continues by itself
		return
	}
	// The messages of the root graph are those of the state.
	var streamed []string
	for _, m := range v.Messages {
		if len(m.Namespace) > 0 {
			continue
		}
		if removed && messages[m.ID] == nil {
			continue // of an attempt that was rolled back: a page drops it when the run ends
		}
		streamed = append(streamed, m.ID)
		var list any = m.Blocks
		if stated := messages[m.ID]; stated["type"] == "human" {
			list = m.Blocks[0]["text"]
		}
		if want := messages[m.ID]["content"]; asJSON(t, list) != asJSON(t, want) {
			t.Errorf("the message %s has\n%s\nin the state\n%s", m.ID, asJSON(t, list), asJSON(t, want))
		}
	}
	if !slices.Equal(streamed, shown) {
		t.Errorf("the client has the messages %q, the state %q", streamed, shown)
	}
	if a, b := asJSON(t, v.Get.Values), asJSON(t, v.State.Values); a != b {
		t.Errorf("state.get has %s, the state %s", a, b)
	}
	var graphs, children []string
	for _, g := range v.Graphs {
		if len(g.Namespace) == 1 {
			graphs = append(graphs, g.Namespace[0])
		}
	}
	for _, c := range v.Tree.Children {
		children = append(children, c.Namespace[0])
	}
	if !slices.Equal(graphs, children) {
		t.Errorf("the client has the sub-agents %q, the tree %q", graphs, children)
	}
}

// The state of a sub-agent, by its namespace: that of one that another sub-agent has started, too.
func TestSubAgentState(t *testing.T) {
	e := newEdge(t, nil)
	v := e.run(t, thread{Thread: "sub", Turns: []step{{Say: "Show me subagents.", ID: "m1"}}})
	seen := make(map[int]bool)
	for _, ev := range v.Events {
		if ev.Method != "lifecycle" || ev.Params.Data["event"] != "started" {
			continue
		}
		seen[len(ev.Params.Namespace)] = true
		status, text := e.post(t, http.MethodPost, "sub/history", []byte(fmt.Sprintf(`{"limit":1,"checkpoint":{"checkpoint_ns":%s}}`, asJSON(t, strings.Join(ev.Params.Namespace, "\x00")))), nil)
		if status != http.StatusOK || !strings.Contains(text, `"type":"ai"`) {
			t.Errorf("%q: %d %s", ev.Params.Namespace, status, text)
		}
	}
	if !seen[1] || !seen[2] {
		t.Errorf("sub-agents of the depths %v, want 1 and 2", seen)
	}
	if status, text := e.post(t, http.MethodPost, "sub/history", []byte(`{"checkpoint":{"checkpoint_ns":"none:1"}}`), nil); status != http.StatusOK || text != "[]" {
		t.Errorf("no sub-agent: %d %s", status, text)
	}
}

// A client that loses its connections after any event gets all events of the turn, each once, and has the same messages.
func TestCutAfterEachEvent(t *testing.T) {
	e := newEdge(t, nil)
	first := e.run(t, thread{Thread: "cut", Turns: []step{{Say: "Show me subagents.", ID: "m1"}}})
	whole := ids(t, first.Events)
	for n := 1; n <= len(whole); n++ {
		v := e.run(t, thread{Thread: "cut", Cut: n})
		if got := ids(t, v.Events); !slices.Equal(got, whole) {
			t.Fatalf("cut after %d events, the client has %d, want %d: %q", n, len(got), len(whole), missing(whole, got))
		}
		same(t, v)
	}
}

func missing(want, got []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(id string) bool { return slices.Contains(got, id) })
}

// A run is cut while it is written, and a second client of the thread, which was there before, has the same events.
func TestTwoClients(t *testing.T) {
	e := newEdge(t, nil)
	for n, say := range []string{"Show me parallel.", "Show me subagents.", "Show me the tour."} {
		v := e.run(t, thread{Thread: fmt.Sprintf("two%d", n), Watch: true, Cut: 5, Turns: []step{{Say: say, ID: "m1"}}})
		all := ids(t, v.Events)
		from := int64(0) // after an attempt that was rolled back, of which a client that comes later gets nothing
		for _, ev := range v.Watched {
			if ev.Method == "custom" && ev.Params.Data["name"] == "truncated" {
				from = ev.Seq
			}
		}
		ids(t, v.Watched)
		for _, ev := range v.Watched {
			if ev.Method != "custom" && ev.Seq > from && !slices.Contains(all, ev.EventID) {
				t.Errorf("the second client has %q, the first one has not", ev.EventID)
			}
		}
		if len(v.Watched) == 0 {
			t.Error("the second client has no events")
		}
		same(t, v)
	}
}

// Several turns in one thread: a client has the events of all of them, and one that comes later those of the last one.
func TestTurns(t *testing.T) {
	e := newEdge(t, nil)
	v := e.run(t, thread{Thread: "turns", Turns: []step{{Say: "Show me plain.", ID: "m1"}, {Say: "Show me parallel.", ID: "m2"}, {Say: "Show me state.", ID: "m3"}}})
	ids(t, v.Events)
	for _, turn := range v.Turns {
		if turn.Ends != "completed" {
			t.Errorf("a turn ends with %q", turn.Ends)
		}
	}
	later := e.run(t, thread{Thread: "turns"})
	if n := len(missing(ids(t, later.Events), ids(t, v.Events))); n > 0 || len(later.Events) >= len(v.Events) {
		t.Errorf("the later client has %d events, %d of them unknown, the first one %d", len(later.Events), n, len(v.Events))
	}
	if a, b := asJSON(t, later.State), asJSON(t, v.State); a != b {
		t.Errorf("the states are %s and %s", a, b)
	}
	if len(v.State.Values["messages"].([]any)) < 6 || v.State.Values["trip"] == nil || len(v.State.Next) > 0 {
		t.Errorf("the state is %s", asJSON(t, v.State))
	}
}

// since repeats the events of its record, and goes across turns.
func TestSince(t *testing.T) {
	e := newEdge(t, nil)
	e.run(t, thread{Thread: "since", Turns: []step{{Say: "Show me plain.", ID: "m1"}, {Say: "Show me thinking.", ID: "m2"}}})
	whole := e.read(t, "since", 1, 2)
	last := e.read(t, "since", 0, 1)
	if n := len(whole) - len(last); n <= 0 || !slices.Equal(ids(t, whole[n:]), ids(t, last)) {
		t.Errorf("without since: %q, want the last turn of %q", ids(t, last), ids(t, whole))
	}
	for i, from := range whole {
		if i > 0 && whole[i-1].Seq == from.Seq {
			continue
		}
		ends := 0
		for _, later := range whole[i:] {
			if later.isEnd() {
				ends++
			}
		}
		if got := e.read(t, "since", from.Seq, ends); !slices.Equal(ids(t, got), ids(t, whole[i:])) {
			t.Errorf("since %d: %q, want %q", from.Seq, ids(t, got), ids(t, whole[i:]))
		}
	}
}

// A user decides about a call. The state of a run that waits has the question under the same id as the event stream.
func TestApprove(t *testing.T) {
	e := newEdge(t, nil)
	asked := e.run(t, thread{Thread: "ask", Turns: []step{{Say: "Show me asking.", ID: "m1"}}})
	if asked.Turns[0].Ends != "interrupted" || len(asked.Interrupts) != 1 || len(asked.State.Tasks) != 1 || asked.State.Tasks[0].Interrupts[0].ID != asked.Interrupts[0].ID {
		t.Fatalf("the run ends with %q, asks %v, and its state is %s", asked.Turns[0].Ends, asked.Interrupts, asJSON(t, asked.State))
	}
	if a, b := asJSON(t, asked.State.Tasks[0].Interrupts[0].Value), asJSON(t, asked.Interrupts[0].Payload); a != b {
		t.Errorf("the state asks %s, the stream %s", a, b)
	}
	same(t, asked)
	for _, tt := range []struct{ decision, ends string }{{"approve", "completed"}, {"reject", "completed"}} {
		v := e.run(t, thread{Thread: "ask-" + tt.decision, Turns: []step{
			{Say: "Show me asking.", ID: "m1"},
			{Answer: map[string]any{"decisions": []any{map[string]any{"type": tt.decision, "message": "because"}}}},
		}})
		if v.Turns[1].Ends != tt.ends || len(v.State.Next) > 0 {
			t.Errorf("%s: the run ends with %q, its state is %s", tt.decision, v.Turns[1].Ends, asJSON(t, v.State))
		}
		answered := slices.ContainsFunc(v.Events, func(e event) bool { return e.Method == "input.answered" })
		if failed := v.Calls[len(v.Calls)-1].Error; !answered || (failed != "") != (tt.decision == "reject") {
			t.Errorf("%s: answered %t, the call fails with %q", tt.decision, answered, failed)
		}
		same(t, v)
	}
	// Another answer comes too late.
	for _, tt := range []struct{ decision, want string }{{"approve", `"type":"success","id":7`}, {"reject", `"error":"no_such_interrupt"`}} {
		body := fmt.Sprintf(`{"id":7,"method":"input.respond","params":{"namespace":[],"interrupt_id":%q,"response":{"decisions":[{"type":%q}]}}}`, asked.Interrupts[0].ID, tt.decision)
		if status, text := e.post(t, http.MethodPost, "ask/commands", []byte(body), nil); status != http.StatusOK || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %s", tt.decision, status, text)
		}
	}
}

// runs.cancel ends a run, and its output is kept.
func TestCancel(t *testing.T) {
	e := newEdge(t, nil)
	v := e.run(t, thread{Thread: "stop", Turns: []step{{Say: "Show me long.", ID: "m1", Cancel: "human"}}})
	if ends := v.Turns[0].Ends; ends != "interrupted" && ends != "completed" { // the agent may have been faster
		t.Errorf("the run ends with %q", ends)
	}
	if status, text := e.post(t, http.MethodPost, "none/runs/r1/cancel?wait=0&action=interrupt", nil, nil); status != http.StatusNotFound {
		t.Errorf("%d %s", status, text)
	}
	if status, text := e.post(t, http.MethodPost, "stop/runs/other/cancel", nil, nil); status != http.StatusAccepted {
		t.Errorf("%d %s", status, text)
	}
}

// Requests that no correct client sends.
func TestHostile(t *testing.T) {
	e := newEdge(t, nil)
	channels := []byte(`{"channels":[` + strings.TrimSuffix(strings.Repeat(`"messages",`, 100_000), ",") + `]}`)
	deep := append(bytes.Repeat([]byte(`{"id":`), 5000), append([]byte(`1`), bytes.Repeat([]byte(`}`), 5000)...)...)
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"t/commands", `{}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1}`, 200, `"error":"unknown_command"`},
		{"t/commands", `{"id":1,"method":"no.such","params":{}}`, 200, `"error":"unknown_command"`},
		{"t/commands", `{"id":1,"method":"input.inject","params":{}}`, 200, `"error":"not_supported"`},
		{"t/commands", `{"id":"x","method":"run.start"}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start"}`, 404, `STREAM_NOT_FOUND`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"input":[]}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"input":{"messages":[]}}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"input":{"messages":[1,null]}}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"input":{"messages":[{"type":"human","content":7}]}}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"input":{"messages":[{"type":"human","content":"hi","id":""}]}}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"assistant_id":5,"input":{"messages":[{"type":"human","content":"hi"}]}}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"assistant_id":"unknown","input":{"messages":[{"type":"human","content":"hi"}]}}}`, 200, `there is no such agent`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"multitask_strategy":"rollback","input":null}}`, 200, `"error":"not_supported"`},
		{"t/commands", `{"id":1,"method":"run.start","params":{"config":{"configurable":{"checkpoint_id":"1"}},"input":null}}`, 200, `"error":"not_supported"`},
		{"t/commands", `{"id":1,"method":"input.respond","params":{}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"input.respond","params":{"responses":7}}`, 200, `"error":"invalid_argument"`},
		{"t/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":"x","response":1}}`, 404, `STREAM_NOT_FOUND`},
		{"t/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":"x","response":{"decisions":[]}}}`, 200, `"error":"not_supported"`},
		{"t/commands", `{"id":1,"method":"state.get"}`, 404, `STREAM_NOT_FOUND`},
		{"t/commands", `{"id":1`, 200, `"error":"invalid_argument"`},
		{"t/commands", `[]`, 200, `"error":"invalid_argument"`},
		{"t/commands", string(deep), 400, `VALIDATION_ERROR`},
		{"t/stream/events", `{}`, 400, `VALIDATION_ERROR`},
		{"t/stream/events", string(channels), 400, `at most 1000`},
		{"t/stream/events", `{"channels":["messages"],"namespaces":{}}`, 400, `VALIDATION_ERROR`},
		{"t/stream/events", `{"channels":["messages"],"namespaces":[[1]]}`, 400, `VALIDATION_ERROR`},
		{"t/stream/events", `{"channels":["messages"],"depth":-1}`, 400, `VALIDATION_ERROR`},
		{"t/stream/events", `{"channels":["messages"],"since":1.5}`, 400, `VALIDATION_ERROR`},
		{"t/stream/events", `{"channels":["messages"]}`, 200, `stream`},
		{"t/history", `{"limit":1}`, 404, `STREAM_NOT_FOUND`},
		{strings.Repeat("x", 500) + "/history", `{}`, 400, `VALIDATION_ERROR`},
	} {
		status, text := e.post(t, http.MethodPost, tt.path, []byte(tt.body), nil)
		if status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %.120s: %d %s, want %d with %s", tt.path, tt.body, status, text, tt.status, tt.want)
		}
	}
	if status, _ := e.post(t, http.MethodGet, "t/state", nil, nil); status != http.StatusNotFound {
		t.Errorf("the state of no thread: %d", status)
	}
}

// A thread of another user is one that does not exist.
func TestOtherUser(t *testing.T) {
	e := newEdge(t, users{})
	ann, bob := map[string]string{"X-User": "ann"}, map[string]string{"X-User": "bob"}
	e.run(t, thread{Thread: "mine", Headers: ann, Turns: []step{{Say: "Show me plain.", ID: "m1"}}})
	header := http.Header{"X-User": {"bob"}}
	for _, tt := range []struct{ method, path, body string }{
		{http.MethodGet, "mine/state", ""},
		{http.MethodPost, "mine/history", `{}`},
		{http.MethodPost, "mine/commands", `{"id":1,"method":"state.get"}`},
		{http.MethodPost, "mine/commands", `{"id":1,"method":"input.respond","params":{"interrupt_id":"x","response":1}}`},
		{http.MethodPost, "mine/runs/r1/cancel", ``},
	} {
		var body []byte
		if tt.body != "" {
			body = []byte(tt.body)
		}
		if status, text := e.post(t, tt.method, tt.path, body, header); status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, status, text)
		}
	}
	// A client that has opened a thread before it existed gets nothing of another user's.
	waiting := e.follow(t, "later", 0, header)
	e.run(t, thread{Thread: "later", Headers: ann, Turns: []step{{Say: "Show me plain.", ID: "m1"}}})
	if text, err := io.ReadAll(waiting); strings.Contains(string(text), "data:") || err == nil {
		t.Errorf("another user gets %q, %v", text, err)
	}
	if v := e.try(t, thread{Thread: "mine", Headers: bob, Turns: []step{{Say: "Show me plain.", ID: "m2"}}}); v.Failed == "" {
		t.Error("another user can write")
	}
}

// users takes the user of a request from a header.
type users struct{}

func (users) Authenticate(r *http.Request) (*auth.Grant, error) {
	return &auth.Grant{
		Tenant: "acme", Subject: r.Header.Get("X-User"), Sessions: auth.Sessions{Own: true}, Scopes: auth.ScopeRead | auth.ScopeChat | auth.ScopeAnswer | auth.ScopeStop,
	}, nil
}
