// Package turn turns the records of one turn of a session into events, and passes them to the printer of a dialect. It has no clock and no I/O.
//
// A Machine follows what all dialects need to know of a turn: which records belong to it, its agents, the open texts, the calls and their outcomes, the questions to
// the client, structured data, and what is left after records were removed. A Printer writes the events as frames. It keeps only what it has written; everything
// else is in the event.
//
//	m := turn.New(printer, turn.Rules{}, turn.Config{})
//	for rec := range records {
//		frames = m.Append(frames[:0], rec)
//	}
//
// A dialect is a Printer, and the Rules for what the dialects decide differently.
package turn
