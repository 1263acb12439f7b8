// Package producers writes what agents say and do into the log.
//
// A Producer serves one NATS connection. Start opens a run of a session and
// gives a Run, the session's one writer until another one takes over. You hold
// it, hand it chunks, and end it:
//
//	run, err := producer.Start(ctx, session, chunk.RunStarted{Mode: "execute"})
//	if err != nil {
//		return err
//	}
//	defer run.Close()
//	for token := range model {
//		if err := run.Say(ctx, chunk.TextDelta{Delta: token}); err != nil {
//			return err
//		}
//	}
//	return run.End(ctx, nil) // nil: everything is stored
//
// Emit and Say queue a chunk and return; Write, Flush and End wait until the
// log has it. A queued chunk that was not stored is told by the next call. One
// message at a time is on its way; meanwhile neighbouring deltas merge, so a
// fast model costs few messages and the first token still leaves at once.
//
// # What an error says
//
// Every error of a Run is one of four:
//
//   - chunk.ErrNotStored: it is certainly not in the log. The cause inside says
//     why: chunk.ErrInvalid, chunk.ErrTooLarge, ErrEnded, a full store. The run
//     goes on; later chunks may be written.
//   - chunk.ErrFenced: another writer took the session over. Nothing written
//     after that is in the log. Stop.
//   - chunk.ErrUnknownOutcome: the server could not be asked for longer than
//     Config.Patience. Stop, and start a new run when it is back: the log then
//     tells what is in it.
//   - the error of the context that ended a wait. The chunk stays queued and
//     its failure, if it fails, is told by the next call.
//
// Retries are inside: timeouts, broken connections, elections and full stores
// are waited out, always with the same message and the same expected sequence,
// so that nothing is ever stored twice.
package producers
