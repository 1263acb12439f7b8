// Package agentserver lets other systems delegate to the agents of this edge: the HTTP surface of spec/helix.md section 9.
//
//	POST /start               starts a session with one run
//	POST /resume              continues a run that was interrupted, or that has its answers
//	GET  /sse                 the events of the session, in the native event stream
//	GET  /status              the state of the session, and its result
//	POST /submit-tool-result  an answer to a call that waits for one
//	POST /interrupt           the run stops at its next step, and can be resumed
//	POST /abort               the run fails
//
// A remote parent does what a local one does with a sub-agent:
//
//	POST /start   {"sessionId":"s-1","agentType":"search","message":"parcels to Oslo"}
//	GET  /sse?sessionId=s-1, again from its cursor whenever the connection breaks
//	GET  /status?sessionId=s-1 after the end event, or after a gap
//
// All requests may be repeated. The run that /start requests is a function of the session: two clients that start it at the same time, or one that lost the
// response, get the same run. A session is for one delegation: when it is complete, /start is refused.
//
// The surface is unauthenticated. Any client that can reach the handler can start runs, and read and stop those of other clients.
//
// New mounts them on an Edge; the logic is that of a runs.Client:
//
//	client, err := runs.New(js, runs.Config{AgentTypes: []string{"search"}})
//	server, err := agentserver.New(edge, client.Service(), agentserver.Config{})
//
// No agent runs here. Package conversation turns a request into a command on a queue, or an answer or a stop request in an inbox, and a worker does the rest.
package agentserver
