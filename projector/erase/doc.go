// Package erase deletes sessions, for good and from everywhere: log, snapshot,
// objects; with a root all sessions of its tree.
//
//	eraser, err := erase.New(js, store, erase.Config{})
//	err = eraser.Delete(ctx, session)
//	if errors.Is(err, chunk.ErrUnknownSession) {
//		// there is nothing, or not any more
//	}
//
// # In which order, and why
//
// A session is deleted in five steps. Each can be repeated, and a process may die
// after any: whoever deletes again, or sweeps, goes on from there.
//
//  0. Its commands and deadlines are taken off the queue. One that stayed would
//     come to another worker when the first is fenced, and begin the session anew.
//  1. A last record is written into the log by compare-and-set: stream_failed
//     with the code session_deleted, of a higher epoch. It fences the writer,
//     which hears chunk.ErrFenced at its next chunk, and tells readers that are
//     attached, who would not notice when records that they have are removed. It
//     expires after two minutes.
//  2. A fold.Grave at that record takes the place of the head. From here on the
//     session is unknown to whoever asks for its snapshot.
//  3. The log is purged up to the last record, then its archive, its dead letters
//     and the inbox of its runs. A reader that
//     is still behind it gets chunk.ErrTruncated, asks for a snapshot and hears
//     that there is none.
//  4. Messages and objects are removed. Then the grave begins to expire.
//
// The grave is what keeps a session dead. Without it, or with the log first:
//  1. a projector has taken records that it has not saved yet,
//  2. log and snapshot are deleted,
//  3. it saves what it has, as a new session: there it is again, for ever.
//
// With it the projector's save is refused, because the head is not the one that it
// loaded, it loads the grave, and what it holds lies before that and changes
// nothing.
//
// A session may begin anew at any time, also while the old one is deleted: a new
// run is written behind the last record, and folded onto the grave.
//
// # What the account must be allowed
//
// To publish to the session's subject, $KV.TR_SNAPSHOTS.> and $O.TR_OBJECTS.>; and
// to ask $JS.API.STREAM.INFO, STREAM.MSG.GET, STREAM.PURGE, CONSUMER.CREATE and
// CONSUMER.DELETE of TR_CHUNKS_<p>, KV_TR_SNAPSHOTS and OBJ_TR_OBJECTS;
// STREAM.PURGE of TR_DEADLETTERS and KV_TR_INBOX; STREAM.INFO,
// STREAM.MSG.GET and STREAM.MSG.DELETE of TR_COMMANDS and TR_DEADLINES. An edge or
// worker that may not delete needs no STREAM.PURGE.
package erase
