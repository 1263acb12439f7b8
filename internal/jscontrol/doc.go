// Package jscontrol is the JetStream adapter of package control: the queue of commands with their deadlines, and the inbox of runs.
//
// # Queue
//
// A command is kept in the stream TR_COMMANDS, on tr.commands.<tenant>.<agentType>.<session>, until a worker has done it. A session has one command at a time:
//
//	queue, err := jscontrol.NewQueue(js, jscontrol.QueueConfig{})
//	err = queue.Request(ctx, control.Command{Kind: control.Execute, Session: session, AgentType: "support", RunID: run}, 0)
//	if busy, ok := errors.AsType[*control.BusyError](err); ok {
//		return conflict(busy.Command) // another command is waiting or in progress
//	}
//
// Any number of workers share an agent type:
//
//	err = queue.Serve(ctx, []string{"support"}, func(ctx context.Context, c control.Command) error {
//		return answer(ctx, c) // nil: done, the command is removed
//	})
//
// A worker that pauses a run until a deadline calls PublishAt. The Expire is delivered to a worker that is running then, in addition to the command of the session.
//
// Handling a command must be idempotent: delivery is at least once. A command is redelivered within AckWait after its worker failed, at once when its worker
// stops, and after a delay when the handler returns an error. The log of the session shows how far the last attempt came, and the epoch of its writer fences a
// worker that was only assumed to have failed (docs/protocol/guarantees.md#design-3).
//
// # Inbox
//
// The bucket TR_INBOX keeps the answers to the calls of a run, and the request to stop it. An answer is written once, by compare-and-set: of fifty clients that
// answer at the same time one is stored, and the others get that answer as a *control.AnsweredError. The client that stored the last answer which the run
// waits for requests the resume. If that client crashes first, the next process that inspects the run requests it. The request is idempotent.
//
// A worker reads Answers when it resumes a run, and StopRequest at every step boundary. Watch notifies it of new values; a notification can be lost, so the
// worker also polls. A value can be read as soon as its notification arrives.
//
// All reads ask the leader of the bucket. A replica that lags could miss an answer whose client has requested the resume already; the run would pause again
// and never be resumed.
package jscontrol
