// Package agentserver lets agents elsewhere delegate to ours: the HTTP surface of
// spec/helix.md section 9.
//
//	POST /start               a session begins, with one run
//	POST /resume              a run that was interrupted goes on, or has been answered
//	GET  /sse                 what the session says: the agent protocol's own events
//	GET  /status              how it stands, and what came of it
//	POST /submit-tool-result  an answer to a call that waits for one
//	POST /interrupt           the run stops at its next step, and may be resumed
//	POST /abort               the run fails for good
//
// A remote parent does what ours does with a sub-agent:
//
//	POST /start   {"sessionId":"s-1","agentType":"search","message":"parcels to Oslo"}
//	GET  /sse?sessionId=s-1, again from its cursor whenever the connection breaks
//	GET  /status?sessionId=s-1 after the end event, or when it lost count
//
// All of them may be repeated. The run that /start asks for is a function of the
// session, so that two who start it at once, or one who lost the answer, get the
// same run. A session is for one delegation: when it is over, /start is refused.
//
// Nobody is asked here who they are. Whoever can reach the handler can have our
// agents work, and read and end what others have started.
//
// No agent runs here. As in package chat a request becomes a command on a queue,
// or an answer or a wish to stop in an inbox, and a worker does the rest.
package agentserver
