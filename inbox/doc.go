// Package inbox keeps what people, browsers and sub-agents say to a run while
// it works or waits: the answers to its calls, and the wish that it stops.
//
// It is the bucket TR_INBOX. An answer is written once and never again, by
// compare-and-set: of fifty who answer at once one is stored, and the others
// hear what it said:
//
//	err := box.Answer(ctx, inbox.Answer{
//		Session: session, RunID: "run-7", CallID: "call_1",
//		Kind: inbox.Approval, ApprovalID: "run-7::call_1", Approved: true,
//	})
//	if first, ok := errors.AsType[*inbox.AnsweredError](err); ok {
//		return conflict(first.Answer)
//	}
//
// Whoever stored the last answer that the run waits for asks for the run to be
// resumed (package commands). Should he die before that, whoever looks next does
// it: that is harmless to repeat.
//
// A worker reads Answers when it resumes a run, and Stopped at every step
// boundary. Watch gives it hints that there is something new. A hint can be
// lost, so it is no reason to stop looking now and then; that it comes says that
// what it is about can be read.
//
// All reads ask the leader of the bucket. A replica that lags could say that
// there is no answer yet, after the one who stored it has asked for the run to
// be resumed; the run would pause again, and nobody would wake it.
package inbox
