// Package httpagent provides an agent that is an HTTP endpoint, such as the chat route of an application that uses the AI SDK.
//
//	agent, err := httpagent.New(httpagent.Config{
//		URL: "https://app.internal/api/chat", Dialect: httpagent.AISDK,
//		Headers: map[string]string{"Authorization": "Bearer " + token},
//	})
//	if err != nil {
//		return err
//	}
//	w, err := workers.New(js, workers.Config{Agents: map[string]workers.Agent{"support": agent}})
//
// A turn is one request or more. The agent posts the history as a client of the endpoint does, reads the response as it arrives, and writes it to the log in
// steps. The endpoint needs no state and no change: the worker holds the connection to it, and clients follow the log.
//
// # Steps
//
// Each step of the response is committed when the next one begins. A response without steps is one step.
//
// # Tools
//
// The dialects do not tell in advance who runs a tool. A call that has its outcome in the response was run by the endpoint. A call that is open at the end of
// the response is the browser's: the run is suspended until the browser's answer, and then the endpoint gets another request, with the outcome in the history.
// A browser is shown every call as one that it may run, as by the endpoint itself, and runs those that it knows. An open call of subagent__<type> starts that
// agent instead, see workers.SubagentTool.
//
// A request for approval suspends the run too. The decision is in the history of the next request; an approved tool is run by the endpoint then.
//
// # Failover
//
// If the worker dies in the middle of a response, another one removes the step that was not committed, and posts the history with the committed steps again
// (Restart). The endpoint may so run a tool twice; each request of the same part of an answer has the same Idempotency-Key. With Fail the run fails with
// CodeInterrupted instead. A request is repeated by the agent itself only if the endpoint was not reached, or has refused it for now (429, 502, 503, 504),
// before any byte of a response.
//
// A stop request of a user cancels the request.
//
// # Failures
//
// Every failure has a code, see the constants. Users see a fixed sentence, or the text of an error part of the response, which is meant for them. The body of
// an error response goes to the log of the worker.
package httpagent
