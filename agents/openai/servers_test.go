package openai

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/testkit/openaitest"
	"github.com/tailrace/tailrace/workers"
)

// Some servers end a response with [DONE] and name no finish reason. The response is complete: it is not
// requested again, and its calls are run. A [DONE] without any output is incomplete.
func TestDoneWithoutFinishReason(t *testing.T) {
	w := newEnv(t)
	look := newTool("look_up", func(context.Context, Call) (any, error) { return "found", nil })
	end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
		switch r.N {
		case 1:
			return openaitest.Reply{Bare: true}
		case 2:
			return openaitest.Reply{Bare: true, Events: []openaitest.Event{toolCall{ID: "c1", Name: "look_up", Args: `{"id":"1"}`}}}
		}
		return openaitest.Reply{Bare: true, Events: []openaitest.Event{text("It is "), text("there.")}}
	})
	w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(look))})
	s := w.ask("clerk", "Where is it?")
	w.want(answered(w.ended(s)), "It is there.", "text")
	if n := len(end.Requests()); n != 3 {
		t.Errorf("%d requests, want 3: nothing, the call, the answer", n)
	}
	w.want(end.Requests()[2].Outcome("c1"), "found", "outcome of the call")
	if strings.Contains(w.types(s), "step_discarded") {
		t.Errorf("a complete response was rolled back: %s", w.types(s))
	}
	var finish []string
	for _, b := range w.Bodies(s) {
		if b, ok := b.(chunk.StepEnd); ok && b.FinishReason != nil {
			finish = append(finish, *b.FinishReason)
		}
	}
	w.want(strings.Join(finish, " "), "tool-calls stop", "finish reasons")
}

// Endpoints that need it get the reasoning of each step back with its calls, also from a worker that did not
// run the step; other endpoints, which reject the member, do not.
func TestReasoningIsSentBack(t *testing.T) {
	for _, back := range []bool{true, false} {
		w := newEnv(t)
		end := openaitest.Start(t, func(r openaitest.Request) openaitest.Reply {
			if r.Last().Role == "user" {
				return openaitest.StreamReply(think("I must "), think("look. "), toolCall{ID: "c1", Name: "look_up", Args: `{"id":"1"}`})
			}
			return openaitest.StreamReply(text("It is there."))
		})
		look := newTool("look_up", func(context.Context, Call) (any, error) { return "found", nil })
		w.serve(map[string]workers.Agent{"clerk": w.agent(end, Chat, with(look), func(c *Config) { c.SendReasoning = back })})
		s := w.ask("clerk", "Where is it?")
		w.ended(s)
		got := end.Requests()[1].Messages[1].Reasoning
		switch {
		case back && (got == nil || *got != "I must look. "):
			t.Errorf("reasoning_content of the call is %v, want the reasoning of its step", got)
		case !back && got != nil:
			t.Errorf("reasoning_content is %q, want none", *got)
		}
	}
}

// Users and models that read why a call was rejected learn nothing about the server.
func TestSchemaErrorHasNoPath(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]chunk.Value{
		"plain": byID,
		"with references": chunk.Value(`{"type":"object","$defs":{"id":{"type":"string","minLength":5,"pattern":"^x"}},
			"properties":{"id":{"anyOf":[{"$ref":"#/$defs/id"},{"type":"array"}]}},"required":["id"]}`),
	}
	for name, schema := range schemas {
		tool := &tool{Tool: newTool("look_up", func(context.Context, Call) (any, error) { return "found", nil })}
		tool.Schema = schema
		if err := tool.prepare(); err != nil {
			t.Fatal(err)
		}
		_, _, invalid := tool.read(`{"id":"a"}`)
		if name == "plain" {
			_, _, invalid = tool.read(`{"id":7}`)
		}
		if invalid == nil {
			t.Fatalf("%s: valid", name)
		}
		for _, word := range []string{dir, "file:", "schema.json"} {
			if strings.Contains(invalid.Error(), word) {
				t.Errorf("%s: the error has %q: %s", name, word, invalid)
			}
		}
		if !strings.Contains(invalid.Error(), "at '/id'") {
			t.Errorf("%s: the error does not name the member: %s", name, invalid)
		}
	}
}
