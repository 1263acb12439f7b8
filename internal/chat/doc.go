// Package chat serves chats to the stock client of the Vercel AI SDK: useChat with DefaultChatTransport, in its major versions 6 and 7.
//
//	POST /api/chat            a message, an edit, an answer to a call, or a regeneration
//	POST /api/chat/{id}       the same
//	GET  /api/chat/{id}       the answer in flight; 204 if there is none
//	GET  /api/chat/{id}/stream    the same
//	GET  /api/chat/{id}/snapshot  the state with which a page starts
//	POST /api/chat/{id}/stop      ends the answer in flight at its next step
//	POST /api/chat/{id}/answers   one answer to a call
//
// This package runs no agents. Package conversation converts a request to commands on a queue and answers in an inbox, and a worker runs the agent. The edge
// follows the records of the worker in the log and writes them as AI SDK frames (package codec/aisdk). So any edge serves any chat, and a closed connection
// does not stop a run.
//
// New mounts them on an Edge, which provides limits, metrics and live records; package runs assembles its logic:
//
//	logic, err := runs.New(js, runs.Config{Config: conversation.Config{AgentTypes: []string{"support"}}})
//	chats, err := chat.New(edge, logic, chat.Config{})
//
// # How a response ends
//
// A response ends cleanly after the last record of the message, or when the run waits for the user: the client sends no answer while a response is open. In
// every other case the connection is aborted, because the client takes a clean end for the complete answer.
package chat
