// Package producers writes the chunks of agents to the session log.
//
// A Producer uses one NATS connection. Start opens a run of a session and returns a Run, which is the only writer of the session until a newer run
// fences it:
//
//	run, err := producer.Start(ctx, session, chunk.RunStarted{Mode: "execute"})
//	if err != nil {
//		return err
//	}
//	defer run.Close()
//	for token := range model {
//		if err := run.EmitBody(ctx, chunk.TextDelta{Delta: token}); err != nil {
//			return err
//		}
//	}
//	return run.End(ctx, nil) // nil: every chunk is stored
//
// Emit and EmitBody queue a chunk and return. Write, Flush and End block until the record is stored. If a queued chunk cannot be stored, the next call returns
// the error. A run merges adjacent deltas that are emitted within Config.Pace of the record before, or while that is being stored. The first delta of a block is
// published without delay. What is queued meanwhile is stored next: as one atomic batch if the stream has more than one replica and allows it, otherwise one record
// after the other.
//
// # Errors
//
// Every error of a Run is one of:
//   - chunk.ErrNotStored: the record is not in the log. The wrapped cause gives the reason: chunk.ErrInvalid, chunk.ErrTooLarge, ErrEnded, ErrSessionLimit,
//     or chunk.ErrNoStorage, after two seconds of retries. You can continue to use the run.
//   - chunk.ErrFenced: a newer writer owns the session. No later write of this run is stored. Stop.
//   - chunk.ErrUnknownOutcome: the server did not confirm or reject the write within Config.RetryTimeout. Stop, and start a new run when the server is
//     available; the log then shows whether the record was stored. The cause is chunk.ErrNoStorage if the server cannot write the stream.
//   - the error of the context. The chunk stays queued; if it fails, the next call returns the error.
//
// A Run retries timeouts, lost connections and leader elections itself. All attempts carry the same messages and the same expected sequence,
// so a record is stored at most once.
package producers
