//go:build e2e

package aisdk

import (
	"testing"

	dialect "github.com/tailrace/tailrace/codec/aisdk"

	"github.com/tailrace/tailrace/chunk"
)

// scenes are turns as workers write them, by name.
var scenes = []struct {
	name  string
	write func(w *writer)
}{
	{"an answer", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(text("Hel"), text("lo"), text("! \u2028\"\\\n\ndata: [DONE]\n\n😀 </script>")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"nothing", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"split surrogate pairs", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(text("a\xed\xa0\xbd"), text("\xed\xb8\x80b"), text("\xed\xa0\xbd"), thought("\xed\xb8\x80", false), text("\xed\xb8\x80"))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"thinking before and after", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(thought("Let me ", false), thought("see", false), thought("", true), text("Well"), thought("Hm", false), text(", yes"), thought("A block", true), thought("Another", true))
		})
		w.step1(func() {
			w.emit(thought("Twice ", false), thought("told", false), thought("Twice told", true), thought("the ", false), thought("rest", true), thought("cut off by the end", false))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"records outside steps", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(text("one"))
		w.step++
		w.emit(text("two"), chunk.StreamEnd{StreamID: root.ID})
	}},
	{"tools", func(w *writer) {
		w.begin("r1", "Weather?")
		w.step1(func() {
			w.emit(text("I look"))
			w.emit(chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "weather"}, args("c1", `{"ci`), chunk.ToolArgStreamStart{ToolCallID: "c2", ToolName: "weather"}, args("c2", `{"`), args("c1", `ty":"Os`), args("c2", `city":"Rome"}`), args("c1", "lo\xed\xa0\xbd"), args("c1", "\xed\xb8\x80\"}"))
			w.emit(chunk.ToolArgStreamEnd{ToolCallID: "c2"}, call("c2", "weather", `{"city":"Rome"}`), chunk.ToolArgStreamEnd{ToolCallID: "c1"}, call("c1", "weather", `{"city":"Oslo😀","n":9007199254740993,"big":1e400,"half":"\ud800"}`))
			w.emit(done("c2", "weather", `{"c":21.5}`), call("c3", "none", `{}`), failed("c1", "weather", "offline"), done("c3", "none", `null`))
		})
		w.step1(func() {
			w.emit(chunk.ToolInputError{ToolCallID: "c4", ToolName: "chart", Error: "not JSON", PartialInput: new(chunk.Value(`"{\"a\":"`))})
			w.emit(chunk.ToolInputError{ToolCallID: "c5", ToolName: "chart", Error: "nothing"})
			w.emit(chunk.ToolArgStreamStart{ToolCallID: "c6", ToolName: "chart"}, args("c6", `{"x":`), chunk.ToolInputError{ToolCallID: "c6", ToolName: "chart", Error: "cut"})
			w.emit(chunk.ToolOutputError{ToolCallID: "c7", ToolName: "chart", Error: "out of memory"}, call("c8", "chart", `{}`), chunk.ToolOutputError{ToolCallID: "c8", ToolName: "chart", Error: "again"})
			w.emit(done("c9", "late", `[1]`), text("Done."))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"arguments without a start", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(args("c1", `{"a":1}`), chunk.ToolArgStreamStart{ToolCallID: "c2", ToolName: "t"}, args("c2", `{"a":1}`), chunk.ToolArgStreamEnd{ToolCallID: "c2"}, text("x"))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"hostile keys", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(call("c1", "t", `{"a":[{"__proto__":{"x":1}}]}`), done("c1", "t", `{"constructor":{"prototype":1},"ok":{"\u005f_proto__":1}}`))
			w.emit(chunk.Custom{EventName: "x", Data: chunk.Value(`{"__proto__":[1]}`)}, chunk.Custom{EventName: "__proto__", Data: chunk.Value(`"__proto__"`)})
			w.emit(call("c2", "__proto__", `{"constructor":1}`), done("c2", "__proto__", `{"prototype":{"constructor":{}}}`))
			w.emit(call("__proto__", "t", `{}`), done("__proto__", "t", `1`))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"sources, files, data", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(text("a"), chunk.SourceURL{SourceID: "1", URL: "https://example.org/?q=\"a\"", Title: new("A")}, chunk.SourceURL{SourceID: "1", URL: "https://example.org"})
			w.emit(chunk.SourceDocument{SourceID: "2", MediaType: "application/pdf", Title: "R", Filename: new("r.pdf")}, chunk.SourceDocument{SourceID: "3", MediaType: "text/plain", Title: ""})
			w.emit(text("b"), chunk.File{URL: "data:text/plain,x", MediaType: "text/plain", Filename: new("x.txt")}, chunk.File{URL: "https://example.org/y", MediaType: "image/png"})
			w.emit(chunk.Custom{EventName: "progress", Data: chunk.Value(`{"p":0.50}`)}, text("c"), chunk.Custom{EventName: "progress", Data: chunk.Value(`null`)}, text("d"))
			w.emit(chunk.StatePatch{Patches: []chunk.PatchOp{{Op: "add", Path: "/a", Value: new(chunk.Value(`{"n":1}`))}}}, text("e"), chunk.Output{Output: chunk.Value(`{"answer":42}`)}, text("f"))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID, FinalOutput: new(chunk.Value(`{"answer":42}`))})
	}},
	{"structured data", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(structured(`"kind":"set","path":"a","value":1`), text("x"), structured(`"kind":"text-delta","path":"t","delta":"y"`), structured(`"kind":"final","data":{"f":[1]}`), text("z"))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"structured data that grows over a turn", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(structured(`"kind":"set","path":"a","value":1`)) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
		w.begin("r2", "Hi")
		w.step1(func() { w.emit(text("x"), structured(`"kind":"final"`), structured(`"kind":"final","data":{"f":[2]}`)) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"structured data after a pause", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(structured(`"kind":"set","path":"a","value":1`), call("c1", "page_x", `{}`)) })
		w.pause("r1", "c1", "page_x")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_x", Result: chunk.Value(`1`)})
		w.step1(func() {
			w.emit(structured(`"kind":"set","path":"b","value":1`), text("x"), structured(`"kind":"final"`))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"structured data in two messages, the first of them pauses", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(structured(`"kind":"text-delta","path":"t","delta":"x"`), call("c1", "page_x", `{}`)) })
		w.pause("r1", "c1", "page_x")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_x", Result: chunk.Value(`1`)})
		w.step1(func() {
			w.emit(structured(`"kind":"set","path":"t","value":1`), text("x"), structured(`"kind":"text-delta","path":"t","delta":"x"`), structured(`"kind":"final","data":{"f":[1]}`))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"records about the run", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(text("a"), chunk.CheckpointCreated{RunID: "r1", CheckpointID: "cp1", StepCount: 1}, text("b"), chunk.StepCommitted{RunID: "r1", StepID: "s", CheckpointID: "cp1"})
			w.emit(chunk.StepDiscarded{RunID: "r1", StepID: "s", Reason: "x"}, text("c"), chunk.RunResumed{RunID: "r1", Mode: "continue"}, text("d"), chunk.Error{Error: "slow", Recoverable: true}, text("e"))
			w.emit(chunk.StreamActive{}, chunk.SuspensionMarker{Kind: "suspended_step_partial", Payload: chunk.Value(`{}`)}, text("f"))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a structured answer", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() {
			w.emit(text("I say"), chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "__finish__"}, args("c1", `{"a":1}`), chunk.ToolArgStreamEnd{ToolCallID: "c1"}, call("c1", "__finish__", `{"a":1}`), done("c1", "__finish__", `{}`))
			w.emit(chunk.ToolApprovalRequest{ToolCallID: "c2", ToolName: "__finish__", ApprovalID: "a", Input: chunk.Value(`{}`)})
		})
		w.emit(chunk.Output{Output: chunk.Value(`{"a":1}`)}, chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a failure", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(chunk.StepStart{}, text("The report"), thought("half", false))
		w.emit(chunk.Error{Error: "the model went away", Recoverable: false}, chunk.StreamFailed{Error: "the model went away"})
	}},
	{"a failure without text", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(chunk.StreamFailed{Error: "the worker died"})
	}},
	{"a failure in a call", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(chunk.StepStart{}, chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "t"}, args("c1", `{"a`), chunk.StreamFailed{Error: "dead"})
	}},
	{"an interruption", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(chunk.StepStart{}, text("Half"), chunk.RunInterrupted{RunID: "r1", CheckpointID: new("cp1"), Reason: new("user")}, chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a tool of the page", func(w *writer) {
		w.begin("r1", "Where am I?")
		w.step1(func() { w.emit(text("Let me ask"), call("c1", "page_where", `{}`)) })
		w.pause("r1", "c1", "page_where")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_where", Result: chunk.Value(`"Oslo"`), ProviderExecuted: new(false)})
		w.step1(func() { w.emit(text("Oslo.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a tool of the page that fails, twice", func(w *writer) {
		w.begin("r1", "Where am I?")
		for _, id := range []string{"c1", "c2"} {
			w.step1(func() {
				w.emit(chunk.ToolArgStreamStart{ToolCallID: id, ToolName: "page_where"}, args(id, `{}`), call(id, "page_where", `{}`))
			})
			w.pause("r1", id, "page_where")
			w.emit(chunk.RunStarted{RunID: "r" + id, Mode: "continue"}, chunk.ToolEnd{ToolCallID: id, ToolName: "page_where", Result: chunk.Value(`null`), Error: new("no idea"), ProviderExecuted: new(false)})
		}
		w.step1(func() { w.emit(text("Then not.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a tool of the page ends the message", func(w *writer) {
		w.begin("r1", "Show it")
		w.step1(func() { w.emit(call("c1", "page_show", `{}`)) })
		w.pause("r1", "c1", "page_show")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_show", Result: chunk.Value(`null`), ProviderExecuted: new(false)})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a denial ends the message", func(w *writer) {
		w.begin("r1", "Delete!")
		w.step1(func() { w.emit(call("c1", "delete", `{"all":true}`), approval("c1", "delete")) })
		w.pause("r1", "c1", "delete")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, decision("c1", "delete", false))
		w.step1(func() {})
		w.step1(func() {})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a failure after an answer", func(w *writer) {
		w.begin("r1", "Show it")
		w.step1(func() { w.emit(text("Look"), call("c1", "page_show", `{}`)) })
		w.pause("r1", "c1", "page_show")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_show", Result: chunk.Value(`null`), ProviderExecuted: new(false)})
		w.emit(chunk.StreamFailed{Error: "dead"})
	}},
	{"an interruption after an answer", func(w *writer) {
		w.begin("r1", "Show it")
		w.step1(func() { w.emit(text("Look"), call("c1", "page_show", `{}`)) })
		w.pause("r1", "c1", "page_show")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_show", Result: chunk.Value(`null`), ProviderExecuted: new(false)})
		w.emit(chunk.RunInterrupted{RunID: "r2", CheckpointID: new("cp"), Reason: new("user")}, chunk.StreamEnd{StreamID: root.ID})
	}},
	{"an approval, granted", func(w *writer) {
		w.begin("r1", "Delete!")
		w.step1(func() { w.emit(text("Shall I?"), call("c1", "delete", `{"all":true}`), approval("c1", "delete")) })
		w.pause("r1", "c1", "delete")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "with_confirmation"}, decision("c1", "delete", true), done("c1", "delete", `{"deleted":3}`))
		w.step1(func() { w.emit(text("Gone.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"an approval of another input", func(w *writer) {
		w.begin("r1", "Delete!")
		w.step1(func() { w.emit(call("c1", "delete", `{"all":false}`), approval("c1", "delete")) })
		w.pause("r1", "c1", "delete")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "with_confirmation"}, decision("c1", "delete", true), done("c1", "delete", `1`))
		w.step1(func() { w.emit(text("Gone.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"two approvals, one of them denied", func(w *writer) {
		w.begin("r1", "Delete!")
		w.step1(func() {
			w.emit(approval("c1", "delete"), call("c2", "delete", `{"all":true}`), approval("c2", "delete"))
		})
		w.pause("r1", "c1", "delete")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "with_confirmation"}, decision("c1", "delete", false), failed("c1", "delete", "client_tool_denied"), decision("c2", "delete", true), failed("c2", "delete", "disk full"))
		w.step1(func() { w.emit(text("Well.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"an approval by a rule", func(w *writer) {
		w.begin("r1", "Delete!")
		w.step1(func() {
			request := approval("c1", "delete")
			request.IsAutomatic = new(true)
			w.emit(call("c1", "delete", `{"all":true}`), request)
			yes := decision("c1", "delete", true)
			yes.IsAutomatic = new(true)
			w.emit(yes, done("c1", "delete", `1`))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"an approval while the run continues", func(w *writer) {
		w.begin("r1", "Delete!")
		w.step1(func() {
			w.emit(call("c1", "delete", `{"all":true}`), approval("c1", "delete"), text("waiting"), decision("c1", "delete", true), done("c1", "delete", `1`))
			w.emit(call("c2", "delete", `{"all":true}`), approval("c2", "delete"), decision("c2", "delete", false))
		})
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"sub-agents", func(w *writer) {
		w.begin("r1", "Compare")
		w.emit(chunk.StepStart{}, text("I ask"))
		for _, id := range []string{"k1", "k2"} {
			w.emit(call("c"+id, "subagent__reader", `{"q":1}`), chunk.SubagentStart{SubAgentType: "reader", SubSessionID: id, CallID: "c" + id})
			child := w.log.of(root.Child(id))
			child.emit(chunk.RunStarted{RunID: "r" + id, Mode: "execute", Parent: &chunk.Parent{SessionID: root.ID, CallID: "c" + id}}, chunk.StepStart{}, text("reading"), thought("hm", false))
		}
		w.emit(text("meanwhile"))
		k1, k2 := w.log.of(root.Child("k1")), w.log.of(root.Child("k2"))
		k1.emit(call("c1", "search", `{}`), text(" on"), done("c1", "search", `1`))
		k2.emit(chunk.Error{Error: "site is down"}, chunk.StreamFailed{Error: "site is down"})
		w.emit(chunk.SubagentEnd{SubAgentType: "reader", SubSessionID: "k2", CallID: "ck2", Result: chunk.Value(`{"error":{"message":"site is down"}}`)}, failed("ck2", "subagent__reader", "site is down"))
		k1.emit(chunk.StepEnd{}, chunk.StreamEnd{StreamID: "k1"})
		w.emit(chunk.SubagentEnd{SubAgentType: "reader", SubSessionID: "k1", CallID: "ck1", Result: chunk.Value(`"ok"`)}, done("ck1", "subagent__reader", `"ok"`), chunk.StepEnd{})
		w.step1(func() { w.emit(text("So it is.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"waiting for a sub-agent", func(w *writer) {
		w.begin("r1", "Compare")
		w.step1(func() {
			w.emit(call("c1", "subagent__reader", `{}`), chunk.SubagentStart{SubAgentType: "reader", SubSessionID: "k1", CallID: "c1"})
		})
		w.emit(chunk.StreamPaused{Reason: new("children")})
		child := w.log.of(root.Child("k1"))
		child.emit(chunk.RunStarted{RunID: "k", Mode: "execute", Parent: &chunk.Parent{SessionID: root.ID, CallID: "c1"}}, text("reading"), chunk.StreamEnd{StreamID: "k1"})
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.SubagentEnd{SubAgentType: "reader", SubSessionID: "k1", CallID: "c1", Result: chunk.Value(`1`)}, done("c1", "subagent__reader", `1`))
		w.step1(func() { w.emit(text("So.")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"an unknown type", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(text("a"))
		w.emit(chunk.Opaque{Kind: "hologram", Raw: chunk.Value(`{"type":"hologram","agentId":"chat1","agentType":"agent","timestamp":1,"step":0,"x":1}`)}, text("b"))
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"three turns", func(w *writer) {
		for _, run := range []string{"r1", "r2", "r3"} {
			w.begin(run, "Hi")
			w.step1(func() { w.emit(call("c", "t", `{}`), done("c", "t", `1`), text(run)) })
			w.emit(chunk.StreamEnd{StreamID: root.ID})
		}
	}},
	{"a complete step of a dead worker is kept", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(text("one")) })
		w.takeover("r1", 1)
		w.step1(func() { w.emit(text("two")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a worker dies in a step", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(text("one"), call("c1", "t", `{}`), done("c1", "t", `1`)) })
		w.emit(chunk.StepStart{}, text("two, ha"), call("c2", "t", `{}`))
		w.takeover("r1", 1)
		w.step1(func() { w.emit(text("two, half"), call("c2", "t", `{"again":true}`), done("c2", "t", `2`)) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a worker dies in its first step, twice", func(w *writer) {
		w.begin("r1", "Hi")
		w.emit(chunk.StepStart{}, text("Hel"), thought("hm", false))
		w.takeover("r1", 0)
		w.emit(chunk.StepStart{}, text("Hello"), chunk.ToolArgStreamStart{ToolCallID: "c1", ToolName: "t"}, args("c1", `{"a`))
		w.takeover("r1", 0)
		w.step1(func() { w.emit(text("Hello!"), call("c1", "t", `{}`), done("c1", "t", `1`)) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"two steps are removed", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(text("one")) })
		w.step1(func() { w.emit(text("two"), call("c1", "t", `{}`), done("c1", "t", `1`)) })
		w.emit(chunk.StepStart{}, text("three"))
		w.takeover("r1", 1)
		w.step1(func() { w.emit(text("other two"), call("c1", "t", `{"other":1}`), failed("c1", "t", "no")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a worker dies before its first step", func(w *writer) {
		w.begin("r1", "Hi")
		w.takeover("r1", 0)
		w.step1(func() { w.emit(text("here I am")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a worker dies after a step start", func(w *writer) {
		w.begin("r1", "Hi")
		w.step1(func() { w.emit(text("one")) })
		w.emit(chunk.StepStart{})
		w.takeover("r1", 1)
		w.step1(func() { w.emit(text("two")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
	{"a worker dies after an answer", func(w *writer) {
		w.begin("r1", "Where?")
		w.step1(func() { w.emit(call("c1", "page_where", `{}`)) })
		w.pause("r1", "c1", "page_where")
		w.emit(chunk.RunStarted{RunID: "r2", Mode: "continue"}, chunk.ToolEnd{ToolCallID: "c1", ToolName: "page_where", Result: chunk.Value(`"Oslo"`), ProviderExecuted: new(false)})
		w.emit(chunk.StepStart{}, text("You are in Os"))
		w.takeover("r2", 1)
		w.step1(func() { w.emit(text("Oslo")) })
		w.emit(chunk.StreamEnd{StreamID: root.ID})
	}},
}

// Every scene, live, cut and replayed at every record, gives the message of the
// snapshot in both majors.
func TestScenes(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for _, s := range scenes {
			t.Run(s.name, func(t *testing.T) {
				l := newLog(t)
				s.write(l.root())
				if j.major == 6 {
					j.read(t, s.name, l, dialect.Options{}, everywhere)
					return
				}
				j.read(t, s.name, l, dialect.Options{}, func(n int) []int { return []int{(n + 2) / 3, (n + 1) / 2, n} })
				j.read(t, s.name, l, dialect.Options{Major: 7}, everywhere)
			})
		}
	})
}

// With every option clients accept the bytes; with the output of sub-agents the
// message differs.
func TestOptions(t *testing.T) {
	bothMajors(t, func(t *testing.T, j *sdkClient) {
		t.Helper()
		for name, opt := range map[string]dialect.Options{
			"sub-agents inline": {SubAgents: dialect.Inline},
			"sub-agents data":   {SubAgents: dialect.Data},
		} {
			for _, s := range scenes {
				l := newLog(t)
				s.write(l.root())
				j.readAs(t, name+", "+s.name, l, opt, func(n int) []int { return []int{n/2 + 1} }, true)
			}
		}
	})
}

func (w *writer) begin(run, input string) {
	w.emit(chunk.RunStarted{RunID: run, Mode: "execute", Input: []chunk.InputMessage{{Content: input}}})
}

// step1 writes one step with its start and end.
func (w *writer) step1(write func()) {
	w.emit(chunk.StepStart{})
	write()
	w.emit(chunk.StepEnd{Usage: &chunk.Usage{InputTokens: "10", OutputTokens: "2"}, FinishReason: new("stop")})
}

// pause ends a run that awaits an answer.
func (w *writer) pause(run, callID, tool string) {
	w.emit(
		chunk.CheckpointCreated{RunID: run, CheckpointID: "cp", StepCount: w.step},
		chunk.RunPaused{RunID: run, Reason: "waits", PendingToolName: &tool, PendingToolCallID: &callID},
		chunk.StreamPaused{Reason: new("waits")},
	)
}

func text(s string) chunk.Body { return chunk.TextDelta{Delta: s} }

func thought(s string, complete bool) chunk.Body {
	return chunk.Thinking{Content: s, IsComplete: complete}
}

func args(id, piece string) chunk.Body { return chunk.ToolArgStreamDelta{ToolCallID: id, Delta: piece} }

func call(id, name, input string) chunk.Body {
	return chunk.ToolStart{ToolCallID: id, ToolName: name, Arguments: chunk.Value(input)}
}

func done(id, name, result string) chunk.Body {
	return chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value(result), ProviderExecuted: new(true)}
}

func failed(id, name, why string) chunk.Body {
	return chunk.ToolEnd{ToolCallID: id, ToolName: name, Result: chunk.Value(`null`), Error: &why, ProviderExecuted: new(true)}
}

func approval(id, name string) chunk.ToolApprovalRequest {
	return chunk.ToolApprovalRequest{ToolCallID: id, ToolName: name, ApprovalID: "run::" + id, Input: chunk.Value(`{"all":true}`)}
}

func decision(id, name string, yes bool) chunk.ToolApprovalResponse {
	return chunk.ToolApprovalResponse{ToolCallID: id, ToolName: name, ApprovalID: "run::" + id, Approved: yes, Reason: new("because")}
}

func structured(members string) chunk.Body { return structuredAs("d1", members) }

func structuredAs(id, members string) chunk.Body {
	return chunk.Custom{EventName: "structured-data", Data: chunk.Value(`{"type":"structured-data","streamId":"` + id + `","dataType":"t",` + members + `}`)}
}
