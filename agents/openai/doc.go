// Package openai is an agent: a loop around a model behind any endpoint that
// speaks OpenAI's chat completions or Responses API.
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
// # One step
//
// A step is one answer of the model: its text and reasoning as they stream, its
// calls with their arguments as they stream, then what came of the calls. Calls
// of one answer run side by side. What somebody else does (a browser, a person
// who must allow it, a sub-agent) suspends the run; the next step finds the
// outcomes in the history. Calls that were allowed are run in a step of their
// own, before the model is asked again: their outcomes are safe by then.
//
// # What goes wrong with the model
//
// Every failure has a code of the provider_ family (see the Code constants). Those
// that may pass are tried again with growing pauses, or after the pause that the
// endpoint asks for. An attempt that has said nothing is tried again in silence.
// What one that has spoken said is taken back first, so that nobody is shown
// anything twice. People are told a sentence of ours; what the endpoint said goes
// to the worker's log, without the key.
//
// # Structured output
//
// With Config.Output the model is given a tool named __finish__, and the run ends
// when it calls it: its arguments are the output of the run. Nobody is shown the
// call. Other calls beside it are not run, and say so.
package openai
