// Package openai provides an agent for models behind an endpoint of OpenAI's chat completions or Responses
// API.
//
//	agent, err := openai.New(openai.Config{
//		BaseURL: "http://127.0.0.1:11434/v1", Model: "qwen3", System: "You are a clerk.",
//		Tools: []openai.Tool{{
//			Name: "look_up", Description: "Finds an order.",
//			Schema: chunk.Value(`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`),
//			Run: func(ctx context.Context, c openai.Call) (any, error) { return orders.Find(ctx, c.Input) },
//		}},
//	})
//	if err != nil {
//		return err
//	}
//	w, err := workers.New(js, workers.Config{Agents: map[string]workers.Agent{"clerk": agent}})
//
// # Steps
//
// A step is one response of the model: its text, reasoning and tool arguments as they are streamed, then the
// outcomes of the calls. Calls of one response run concurrently. Calls that a browser, a user or a sub-agent
// completes suspend the run; the next step reads their outcomes from the history. Approved calls run in a
// step of their own before the next model call, so that their outcomes are committed. A message that a user
// sends during the run with the mode steer is given to the model after the present step.
//
// # Failures
//
// Every failure of the endpoint has a provider_ code (see the Code constants). Temporary failures are retried
// with exponential backoff, or after the delay that the endpoint requests. If the failed attempt has written
// output, its step is rolled back before the retry, so that no output appears twice. Users see a fixed
// sentence per code; the endpoint's own message is logged without the key.
//
// # Structured output
//
// If Config.Output is set, the model gets a tool named __finish__. Its call completes the run with its
// arguments as the output; the call itself is not stored. Other calls of the same response are rejected.
package openai
