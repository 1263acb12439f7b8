package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/workers"
)

func (w *env) newAGUIEdge() *edge {
	w.t.Helper()
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.AISDK = cfg.Dialect })
	e.base = aguiPath
	return e
}

// run posts a RunAgentInput and returns a transcript of the events, and the id of the last one. Adjacent pieces of text are joined.
func (e *edge) run(header http.Header, members string) (transcript, cursor string) {
	e.t.Helper()
	body := `{"threadId":"s1","runId":"client-run","tools":[],"context":[],"state":{},"forwardedProps":{},` + members + `}`
	resp, err := e.try(http.MethodPost, "", body, header)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Errorf("%v after %q", err, text)
	}
	if resp.StatusCode != http.StatusOK {
		return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, text)), ""
	}
	var events []string
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			cursor = strings.TrimSpace(id)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event struct {
			Type       string `json:"type"`
			Delta      string `json:"delta"`
			ToolCallID string `json:"toolCallId"`
			Outcome    struct {
				Type string `json:"type"`
			} `json:"outcome"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			e.t.Fatalf("%v in %q", err, line)
		}
		if arg := event.Delta + event.ToolCallID + event.Outcome.Type; arg != "" {
			event.Type += "(" + arg + ")"
		}
		events = append(events, event.Type)
	}
	return strings.ReplaceAll(strings.Join(events, " "), ") TEXT_MESSAGE_CONTENT(", ""), cursor
}

var (
	sessionS1    = chunk.RootSession("acme", "s1")
	startedAgain = chunk.RunStarted{Mode: "takeover"}
)

const (
	hi        = `{"id":"u1","role":"user","content":"hi"}`
	aguiWhole = "RUN_STARTED STEP_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT(Hello world) TEXT_MESSAGE_END STEP_FINISHED RUN_FINISHED(success)"
	aguiRest  = "STEP_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT(thanks) TEXT_MESSAGE_END STEP_FINISHED RUN_FINISHED(success)"
)

func TestAGUIRun(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.work(answer)
	first, cursor := e.run(nil, `"messages":[`+hi+`]`)
	want(t, first, aguiWhole)
	again, _ := e.run(nil, `"messages":[`+hi+`]`) // the response was lost
	want(t, again, aguiWhole)
	w.handledAre("execute")
	rest, _ := e.run(http.Header{"Last-Event-Id": {cursor}}, `"messages":[`+hi+`,{"id":"m","role":"assistant","content":"Hello world"}]`)
	want(t, rest, "204")
	second, _ := e.run(nil, `"messages":[`+hi+`,{"id":"m","role":"assistant","content":"Hello world"},{"id":"u2","role":"user","content":"more"}]`)
	want(t, second, aguiWhole)
	w.handledAre("execute", "execute")
}

// The result of a tool of the client, and the answer to an interrupt, resume the run.
func TestAGUIResume(t *testing.T) {
	runID := control.ExecuteRunID(sessionS1, "u1")
	for name, tt := range map[string]struct {
		call, asked, answer, resumed string
	}{
		"tool": {
			"c1", "TOOL_CALL_START(c1) TOOL_CALL_ARGS({}c1) TOOL_CALL_END(c1) STEP_FINISHED RUN_FINISHED(success)",
			`,{"id":"t1","role":"tool","toolCallId":"c1","content":"{\"ok\":true}"}]`, aguiRest,
		},
		"approval": {
			"a1", "TOOL_CALL_START(a1) TOOL_CALL_ARGS({}a1) TOOL_CALL_END(a1) STEP_FINISHED RUN_FINISHED(interrupt)",
			`],"resume":[{"interruptId":"` + runID + `::a1","status":"resolved","payload":{"approved":true}}]`, "CUSTOM " + aguiRest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			e := w.newAGUIEdge()
			w.work(asking(tt.call))
			asked, _ := e.run(nil, `"messages":[`+hi+`]`)
			want(t, asked, "RUN_STARTED STEP_STARTED "+tt.asked)
			answered := `"messages":[` + hi + `,{"id":"m","role":"assistant","toolCalls":[{"id":"` + tt.call + `","type":"function","function":{"name":"browser","arguments":"{}"}}]}` + tt.answer
			resumed, _ := e.run(nil, answered)
			want(t, resumed, "RUN_STARTED "+tt.resumed)
			w.handledAre("execute", "resume")
		})
	}
}

// A client that is disconnected continues after the last event that it has.
func TestAGUIContinue(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.work(func(ctx context.Context, _ control.Command, run *producers.Run, _ *env) error {
		if err := say(ctx, run, 1, "Hello "); err != nil {
			return err
		}
		_, err := run.Flush(ctx)
		return err
	})
	resp, err := e.try(http.MethodPost, "", `{"threadId":"s1","runId":"r","messages":[`+hi+`],"tools":[],"context":[]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	buf, cursor := make([]byte, 4096), ""
	for seen := ""; !strings.Contains(seen, "STEP_FINISHED"); {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen += string(buf[:n])
		for line := range strings.Lines(seen) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				cursor = strings.TrimSpace(id)
			}
		}
	}
	resp.Body.Close()
	run, err := w.NewWriter(producers.Config{}).Start(t.Context(), sessionS1, startedAgain, producers.TakeOver())
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := say(t.Context(), run, 2, "world"); err != nil {
		t.Fatal(err)
	}
	if err := run.End(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	rest, _ := e.run(nil, `"lastEventId":"`+cursor+`","messages":[`+hi+`,{"id":"m","role":"assistant","content":"Hello "}]`)
	want(t, rest, "RUN_STARTED CUSTOM STEP_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT(world) TEXT_MESSAGE_END STEP_FINISHED RUN_FINISHED(success)")
}

// A request whose response was lost is sent again, to another edge. Other sessions wrote records before the turn.
func TestAGUIAgain(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.work(answer)
	first, _ := e.run(nil, `"messages":[`+hi+`]`)
	want(t, first, aguiWhole)
	w.newChat("other")
	second := `"messages":[` + hi + `,{"id":"m","role":"assistant","content":"Hello world"},{"id":"u2","role":"user","content":"more"}]`
	for _, to := range []*edge{e, w.newAGUIEdge()} {
		got, _ := to.run(nil, second)
		want(t, got, aguiWhole)
	}
	w.handledAre("execute", "execute")
}

// A response that continues counts as an open stream.
func TestAGUILimit(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Limits.Streams = 1 })
	e.base = aguiPath
	w.work(asking("c1"))
	_, cursor := e.run(nil, `"messages":[`+hi+`]`)
	held := `"messages":[` + hi + `,{"id":"m","role":"assistant","content":"x"}]`
	body := `{"threadId":"s1","runId":"r",` + held + `}`
	open, err := e.try(http.MethodPost, "", body, http.Header{"Last-Event-Id": {cursor}})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	if got, _ := e.run(http.Header{"Last-Event-Id": {cursor}}, held); open.StatusCode != http.StatusOK || !strings.HasPrefix(got, "503 ") {
		t.Errorf("the first response is %d, the second %s", open.StatusCode, got)
	}
}

func TestAGUIRefusals(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	for body, status := range map[string]string{
		`"messages":[]`: "404 ",
		`"messages":[{"id":"m","role":"assistant","content":"x"}]`: "404 ",
		`"messages":{}`: "400 ",
		`"messages":[` + hi + `],"resume":[{"interruptId":"x","status":"maybe"}]`: "400 ",
	} {
		if got, _ := e.run(nil, body); !strings.HasPrefix(got, status) {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// The response of a run without a worker begins at once and has heartbeats. It breaks when the command is removed, which no record reports: its client must not
// take that for the end of a run.
func TestAGUIRunWithoutAWorker(t *testing.T) {
	w := newEnv(t)
	e := w.newEdge(func(cfg *edgeConfig) { cfg.edge.Heartbeat = 10 * time.Millisecond })
	e.base = aguiPath
	resp, err := e.try(http.MethodPost, "", `{"threadId":"s1","runId":"r","messages":[`+hi+`]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for beats := 0; beats < 2; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			t.Errorf("before the run begins there is %s", line)
		}
		if strings.HasPrefix(line, ":") {
			beats++
		}
	}
	if removed, err := w.Queue.DeleteSession(t.Context(), sessionS1); err != nil || !removed {
		t.Fatalf("the command was removed: %v, %v", removed, err)
	}
	if rest, err := io.ReadAll(lines); !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(rest), "data:") {
		t.Errorf("after the command was removed: %v, %q", err, rest)
	}
	w.work(answer)
	again, _ := e.run(nil, `"messages":[`+hi+`]`)
	want(t, again, aguiWhole)
}

// A message instead of an answer: the response has the rest of the turn before, which is the result of the call that is abandoned, and then the new turn.
func TestAGUIAbandoned(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.agents(map[string]workers.Agent{agentType: workers.AgentFunc(func(ctx context.Context, t *workers.Turn) error {
		last := t.Messages()[len(t.Messages())-1]
		if last.ClientID != "u2" {
			return asker(0)(ctx, t)
		}
		return t.Step(ctx, func(ctx context.Context, s *workers.Step) error {
			s.MarkFinal()
			return s.Text(ctx, "never mind")
		})
	})})
	first, _ := e.run(nil, `"messages":[`+hi+`]`)
	if !strings.HasSuffix(first, "RUN_FINISHED(success)") {
		t.Fatalf("the question is %s", first)
	}
	second, cursor := e.run(nil, `"messages":[`+hi+`,{"id":"m","role":"assistant"},{"id":"u2","role":"user","content":"stop that"}]`)
	want(t, second, "RUN_STARTED TOOL_CALL_RESULT(c1) RUN_FINISHED(success) "+
		"RUN_STARTED STEP_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT(never mind) TEXT_MESSAGE_END STEP_FINISHED CUSTOM "+"CUSTOM RUN_FINISHED(success)")
	rest, _ := e.run(http.Header{"Last-Event-Id": {cursor}}, `"messages":[`+hi+`,{"id":"m","role":"assistant","content":"x"}]`)
	want(t, rest, "204")
}

// The context of a run is for its agent: it is beside the metadata of the client, and not in the messages that clients get.
func TestAGUIContext(t *testing.T) {
	w := newEnv(t)
	e := w.newAGUIEdge()
	w.work(func(ctx context.Context, c control.Command, run *producers.Run, w *env) error {
		want(t, string(*c.Input[0].Metadata), `{"mood":"good","agui":{"runId":"client-run","context":[{"description":"d","value":"v"}],"state":{},"forwardedProps":{}}}`)
		return answer(ctx, c, run, w)
	})
	body := `{"threadId":"s1","runId":"client-run","tools":[],"context":[{"description":"d","value":"v"}],"state":{},"forwardedProps":{},` +
		`"messages":[{"id":"u1","role":"user","content":"hi","metadata":{"agui":"x","mood":"good"}}]}`
	resp, err := e.try(http.MethodPost, "", body, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), `"content":"hi","metadata":{"mood":"good"}}`) {
		t.Errorf("%v, the events are %s", err, text)
	}
}
