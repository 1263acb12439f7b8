package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/projector/fold"
	"github.com/tailrace/tailrace/workers"
)

// raw returns the events of a response.
func raw(lines string) openaitest.Reply {
	var events []openaitest.Event
	for line := range strings.Lines(lines) {
		events = append(events, openaitest.Raw("data: "+strings.TrimSpace(line)+"\n\n"))
	}
	reply := openaitest.StreamReply(events...)
	reply.Bare = true
	return reply
}

// What an endpoint sends for itself with an answer is in the next request as it came, and in a request to another model it is not.
func TestStateIsSentBack(t *testing.T) {
	const (
		chatCall = `{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"id":"k1","type":"function","function":{"name":"look_up","arguments":"{\"id\":\"1\"}"}%s}]}}]}
{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
[DONE]`
		details = `{"id":"c","choices":[{"index":0,"delta":{"reasoning":"pl","reasoning_details":[{"type":"reasoning.text","text":"pl","format":"f","index":0}]}}]}
{"id":"c","choices":[{"index":0,"delta":{"reasoning":"an","reasoning_details":[{"type":"reasoning.text","text":"an","index":0}]}}]}
{"id":"c","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"SIG","index":0},{"type":"reasoning.encrypted","data":"gAAA","id":"r1","index":1}]}}]}
`
		items = `{"type":"response.created","response":{"id":"r"}}
{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"}}
{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"Looking."}]}}
{"type":"response.output_item.done","output_index":2,"item":{"id":"rs_2","type":"reasoning","summary":[{"type":"summary_text","text":"why"}],"encrypted_content":"gBBB"}}
{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc_1","call_id":"k1","name":"look_up","arguments":"{\"id\":\"1\"}"}}
{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`
	)
	for name, c := range map[string]struct {
		api   API
		lines string
		want  []string // in the body of the second request
	}{
		"the signature of a call": {Chat, fmt.Sprintf(chatCall, `,"extra_content":{"google":{"thought_signature":"SIG=="}}`), []string{
			`"function":{"name":"look_up","arguments":"{\"id\":\"1\"}"},"extra_content":{"google":{"thought_signature":"SIG=="}}`,
		}},
		"details of reasoning": {Chat, details + fmt.Sprintf(chatCall, ""), []string{
			`"reasoning_details":[{"type":"reasoning.text","format":"f","index":0,"signature":"SIG","text":"plan"},{"type":"reasoning.encrypted","data":"gAAA","id":"r1","index":1}]`,
		}},
		"the signature of a text": {Chat, `{"choices":[{"index":0,"delta":{"content":"Looking.","extra_content":{"google":{"thought_signature":"T"}}}}]}` + "\n" + fmt.Sprintf(chatCall, ""), []string{
			`"extra_content":{"google":{"thought_signature":"T"}}`,
		}},
		"items of reasoning": {Responses, items, []string{
			`{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"},{"role":"assistant","content":"Looking."},` +
				`{"id":"rs_2","type":"reasoning","summary":[{"type":"summary_text","text":"why"}],"encrypted_content":"gBBB"},{"type":"function_call","call_id":"k1"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N == 1 {
					return raw(c.lines)
				}
				return openaitest.StreamReply(text("Done."))
			})
			tool := with(newTool("look_up", func(context.Context, Call) (any, error) { return "found", nil }))
			other := func(cfg *Config) { cfg.Model = "another-model" }
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, c.api, tool), "other": w.agent(end, c.api, tool, other)})
			s := w.ask("clerk", "Well?")
			w.ended(s)
			body := func(i int) string {
				var b strings.Builder
				e := json.NewEncoder(&b)
				e.SetEscapeHTML(false)
				if err := e.Encode(end.Requests()[i].Body); err != nil {
					t.Fatal(err)
				}
				return b.String()
			}
			for _, want := range c.want {
				if got := body(1); !strings.Contains(got, want) {
					t.Errorf("the second request has no %s:\n%s", want, got)
				}
			}
			w.askIn(s, "other", "r2", "And now?")
			w.Await(s, "the second run", func(snap fold.Snapshot) bool { return snap.Run.ID == "r2" && snap.Status == fold.Ended })
			for _, secret := range []string{"SIG", "gAAA", "gBBB", "thought_signature"} {
				if got := body(2); strings.Contains(got, secret) {
					t.Errorf("the request to another model has %s:\n%s", secret, got)
				}
			}
		})
	}
}

// A custom call that a text follows was run by the endpoint: the agent does not run it, and the run ends.
func TestCallsOfTheEndpoint(t *testing.T) {
	w := newEnv(t)
	end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply {
		return raw(`{"type":"response.created","response":{"id":"r"}}
{"type":"response.output_item.added","output_index":0,"item":{"id":"ctc","type":"custom_tool_call","call_id":"xs_1","name":"x_search","input":""}}
{"type":"response.custom_tool_call_input.delta","item_id":"ctc","output_index":0,"delta":"{\"query\":\"q\"}"}
{"type":"response.output_item.done","output_index":0,"item":{"id":"ctc","type":"custom_tool_call","call_id":"xs_1","name":"x_search","input":"{\"query\":\"q\"}","status":"completed"}}
{"type":"response.output_item.done","output_index":1,"item":{"id":"mcp_1","type":"mcp_call","name":"search","arguments":"{\"q\":\"x\"}","server_label":"docs","output":"found"}}
{"type":"response.output_text.delta","item_id":"m1","output_index":2,"content_index":0,"delta":"Found it."}
{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`)
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Responses)})
	snap := w.ended(w.ask("clerk", "Well?"))
	w.want(answered(snap), "Found it.", "text")
	got := ""
	for _, c := range snap.Messages(1)[0].Calls() {
		got += fmt.Sprintf("%s %s %s %v %s; ", c.Name, c.Input, c.State, c.ProviderExecuted, c.Error)
	}
	w.want(got, `x_search {"input":"{\"query\":\"q\"}"} input-available true ; search {"q":"x"} output-available true ; `, "calls")
	if n := len(end.Requests()); n != 1 {
		t.Errorf("%d requests, want one", n)
	}
}

// Whatever form an answer has, the agent reads it.
func TestFormsOfAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		api             API
		lines           string
		text, reasoning string
	}{
		"content in parts": {Chat, `{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hmm "}]}]}}]}
{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Answer."}]}}]}
{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}`, "Answer.", "hmm "},
		"a message at once":     {Chat, `{"object":"chat.completion","choices":[{"index":0,"message":{"content":"Answer.","reasoning":"hmm"},"finish_reason":"stop"}]}`, "Answer.", "hmm"},
		"texts":                 {Chat, `{"choices":[{"index":0,"text":"Answer.","finish_reason":"stop"}]}`, "Answer.", ""},
		"a transcript":          {Chat, `{"choices":[{"index":0,"delta":{"audio":{"transcript":"Answer."}},"finish_reason":"stop"}]}`, "Answer.", ""},
		"a finished item":       {Responses, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"m","content":[{"type":"output_text","text":"Answer."}]}}` + "\n" + `{"type":"response.completed","response":{"output":[]}}`, "Answer.", ""},
		"the finished response": {Responses, `{"type":"response.completed","response":{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hmm"}]},{"type":"message","content":[{"type":"output_text","text":"Answer."}]}]}}`, "Answer.", "hmm"},
		"a finished text":       {Responses, `{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Answer."}` + "\n" + `{"type":"response.completed","response":{}}`, "Answer.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(openaitest.Request) openaitest.Reply { return raw(c.lines) })
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, c.api)})
			snap := w.ended(w.ask("clerk", "Well?"))
			w.want(answered(snap), c.text, "text")
			w.want(partsText(snap, fold.PartReasoning), c.reasoning, "reasoning")
		})
	}
}

// Calls in an old form, or with an object as their arguments, are run.
func TestFormsOfCalls(t *testing.T) {
	for name, delta := range map[string]string{
		"an object":         `{"tool_calls":[{"index":0,"id":"k1","function":{"name":"look_up","arguments":{"id":"1"}}}]}`,
		"a function call":   `{"function_call":{"name":"look_up","arguments":"{\"id\":\"1\"}"}}`,
		"indices that vary": `{"tool_calls":[{"index":0,"id":"k1","function":{"name":"look_up","arguments":""}},{"index":1,"function":{"arguments":"{\"id\":\"1\"}"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t)
			end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
				if r.N == 1 {
					return raw(`{"choices":[{"index":0,"delta":` + delta + `}]}` + "\n" + `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
				}
				return openaitest.StreamReply(text("Done."))
			})
			ran := make(chan string, 2)
			w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(newTool("look_up", func(_ context.Context, c Call) (any, error) {
				ran <- c.Input.String()
				return nil, nil
			})))})
			w.want(answered(w.ended(w.ask("clerk", "Well?"))), "Done.", "text")
			w.want(<-ran, `{"id":"1"}`, "input")
		})
	}
}
