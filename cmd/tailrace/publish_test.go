package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/control"
	"github.com/tailrace/tailrace/internal/jscontrol"
	"github.com/tailrace/tailrace/internal/testkit/streamtest"
)

// A message waits for a run that the command writes: the command requests its run when it has ended that of its input, and not before.
func TestPublishStartsWhatWaits(t *testing.T) {
	server := streamtest.Start(t)
	js := server.JetStream(t)
	inbox, err := jscontrol.NewInbox(js, jscontrol.InboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := jscontrol.NewQueue(js, jscontrol.QueueConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := chunk.RootSession("default", "s1")
	waits := control.Command{
		Kind: control.Execute, Mode: control.ModeQueued, Session: s, AgentType: "cli", RunID: "r2", Input: []chunk.InputMessage{{Content: "two"}}, Issued: time.Now(),
	}
	if err := inbox.Enqueue(t.Context(), control.Queued{Command: waits, State: control.QueuedWaiting}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		flags []string
		want  string
	}{{[]string{"--no-end"}, ""}, {[]string{"--take-over"}, "r2"}} {
		args := append([]string{"publish", "--nats-url", server.URL, "--session", "s1"}, step.flags...)
		if code, _, errs := runCommand(t, `{"type":"text_delta","delta":"one"}`, args...); code != exitOK {
			t.Fatalf("%v: exit code %d: %s", step.flags, code, errs)
		}
		if c, _, err := queue.Pending(t.Context(), s, "cli"); c.RunID != step.want {
			t.Errorf("%v: run %q is requested (%v), want %q", step.flags, c.RunID, err, step.want)
		}
	}
}

// The command refuses input that is probably mistaken, and says what was meant; it finds the dialect from the first line.
func TestFirstMinuteOfPublish(t *testing.T) {
	server := streamtest.Start(t)
	publish := func(input string, args ...string) (int, string) {
		code, _, errs := runCommand(t, input, append([]string{"publish", "--nats-url", server.URL, "--session"}, args...)...)
		return code, errs
	}
	const openai = `{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}` + "\n"
	for name, tt := range map[string]struct {
		input string
		args  []string
		code  int
		want  string
	}{
		"nothing":            {"\n \n", []string{"a1"}, exitError, "nothing on standard input: no run was opened"},
		"another spelling":   {"{\"type\":\"text_delta\",\"delta\":\"x\"}\n{\"type\":\"text-delta\",\"delta\":\"y\"}\n", []string{"a2"}, exitError, `line 2: there is no chunk type "text-delta"; did you mean "text_delta"?`},
		"allowed":            {`{"type":"progress"}`, []string{"a3", "--allow-unknown"}, exitOK, "1 chunks stored"},
		"no model":           {`{"type":"text_delta","delta":"x"}`, []string{"a3n", "--model", "a\nb"}, exitUsage, "--model: want"},
		"another member":     {`{"type":"file","url":"https://a.example/x","mediaType":"text/plain","fileName":"x"}`, []string{"a8"}, exitOK, `line 1: there is no member "fileName", and it is stored; did you mean "filename"?`},
		"no call":            {`{"type":"tool_start","toolCallId":"call_1","toolName":"f","arguments":{}}` + "\n" + `{"type":"tool_end","toolCallId":"Call-2","toolName":"f","result":1}`, []string{"a9"}, exitOK, `line 2: no line before it begins the call of toolCallId, and it is stored; did you mean "call_1"?`},
		"native":             {`{"type":"text_delta","delta":"x"}`, []string{"a10", "--dialect", "openai"}, exitError, "stopped at line 1: nothing is stored;"},
		"no member":          {`{"type":"text_delta","delta":"x"}` + "\n" + `{"type":"text_delta"}`, []string{"a11"}, exitError, "line 2: text_delta.delta: want a string\ntailrace publish: stopped at line 2: 1 lines are stored and the stream is open"},
		"no dialect":         {openai, []string{"a4", "--dialect", "opneai"}, exitUsage, `there is no dialect "opneai"; did you mean openai? want native, agui, aisdk, anthropic, kortyx, langgraph, mastra or openai`},
		"another dialect":    {openai, []string{"a5", "--dialect", "aisdk"}, exitError, "line 1: the first line looks like openai: leave out --dialect, or use --dialect openai"},
		"dialect is found":   {"\n" + openai, []string{"a6", "--run", "r7", "--message", "Hello?", "--model", "gpt-5", "--provider", "openai"}, exitOK, "1 chunks stored"},
		"events in a format": {"data: " + openai + "\ndata: [DONE]\n\n", []string{"a7"}, exitOK, "1 chunks stored"},
	} {
		if code, errs := publish(tt.input, tt.args...); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit code %d, %s\nwant %d, %s", name, code, errs, tt.code, tt.want)
		}
	}
	_, out, _ := runCommand(t, "", "tail", "a6", "--keep-open=false", "--nats-url", server.URL)
	for _, want := range []string{`"runId":"r7"`, `"model":"gpt-5","provider":"openai"`, `"input":[{"content":"Hello?"}]`, `"delta":"Hi"`, `"type":"stream_end"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if _, out, _ = runCommand(t, "", "tail", "a1", "--keep-open=false", "--nats-url", server.URL); strings.Contains(out, "run_started") {
		t.Errorf("a run was opened:\n%s", out)
	}
}
