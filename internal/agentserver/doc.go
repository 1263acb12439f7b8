// Package agentserver lets other systems delegate to the agents of this edge over HTTP. The rules are in docs/protocol/chat.md#helix-9.
//
//	POST /start               starts a session with one run
//	POST /resume              continues a run that was interrupted, or whose answers are complete
//	GET  /sse                 the events of the session, in the native event stream
//	GET  /status              the state of the session, and its result
//	POST /submit-tool-result  stores the answer to a pending call
//	POST /interrupt           stops the run at its next step; it can be resumed
//	POST /abort               fails the run
//
// A remote parent delegates to a sub-agent with these requests:
//
//	POST /start   {"sessionId":"s-1","agentType":"search","message":"parcels to Oslo"}
//	GET  /sse?sessionId=s-1, repeated with its cursor after each lost connection
//	GET  /status?sessionId=s-1 after the end event, or after a gap
//
// All requests may be repeated. The run that /start requests is a function of the session: two clients that start it at the same time, or one that lost the
// response, get the same run. A session is for one delegation: when it is complete, /start is refused.
//
// Requests are authenticated by the edge. /start and /resume need the right to chat, /sse and /status to read, /submit-tool-result to answer, /interrupt and
// /abort to stop.
//
// New mounts them on an Edge; package runs assembles its logic:
//
//	logic, err := runs.New(js, runs.Config{Config: conversation.Config{AgentTypes: []string{"search"}}})
//	server, err := agentserver.New(edge, logic, agentserver.Config{})
//
// This package runs no agents. Package conversation converts a request to a command on a queue, or to an answer or a stop request in an inbox, and a worker
// runs the agent.
package agentserver
