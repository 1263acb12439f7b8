// Package retention decides how long data is kept. It has three parts:
//
//   - An Eraser deletes sessions permanently from the log, the snapshots and all copies; with a root it deletes all sessions of its tree.
//   - DeadLetters keeps messages of the log that could not be folded.
//   - Every is the loop of a sweep, which a Lease lets one of several processes run.
//
// # Dead letters
//
// The Runner of a projector reports records to DeadLetters as its projector.DeadLetterSink, and the Source reports messages that are not records.
// DeadLetters reads the message from the log and stores its bytes unchanged, headers included, with its position in the log and the reason. Adding a
// message twice stores one entry: the subject of an entry is made of the position of the message in the log and the time at which the log stored it, and a
// subject takes one message. So a Runner that was killed may report the same message again.
//
// An entry ends when it expires, when it is dropped, or when a newer build can fold its message:
//
//	for i, err := range dead.Replay(ctx, entries, snapshots, log) {
//		if errors.Is(err, retention.ErrStillUnreadable) {
//			// this build cannot read entries[i] either
//		}
//	}
//
// Replay refolds the whole session, because the record has its position between others. The content of an entry is untrusted input: quote it when you
// print it.
//
// # The order of a deletion
//
// A session is deleted in five steps. Each is idempotent, and a process may crash after any of them: the next Delete or Sweep completes the deletion.
//
//  0. Its commands and deadlines are removed from the queue, between two records as in step 1 if there are any: a worker that has got a command and has read
//     that there is no data cannot start the run. A command that stayed would be redelivered to another worker when the first one is fenced,
//     and start the session again. Sub-agents that its open calls wait for are deleted before it.
//  1. A last record is appended to the log by compare-and-set: stream_failed with the code session_deleted and a higher epoch. It fences the writer,
//     which gets chunk.ErrFenced at its next chunk, and ends the streams of attached readers, which do not notice the removal of records that they have
//     read. It expires after 48 hours, before the tombstone, so that a consumer of all records that was stopped reads it.
//  2. A tombstone at that record replaces the snapshot head. From now on a request for the snapshot returns chunk.ErrUnknownSession.
//  3. The log is purged up to the last record, then its dead letters and the inbox of its runs. A reader at an earlier position gets
//     chunk.ErrTruncated, requests a snapshot and gets chunk.ErrUnknownSession.
//  4. Messages and objects are removed. Then the tombstone gets a TTL.
//
// The tombstone prevents that the session reappears. Without it, or if the log were deleted first:
//  1. a projector has received records that it has not saved yet,
//  2. log and snapshot are deleted,
//  3. the projector saves its records as a new session, which nothing removes.
//
// With the tombstone the save of the projector fails its compare-and-set, because the head has changed. The projector loads the tombstone and ignores
// every record up to its position.
//
// A new run of the session may start at any time, also during the deletion: its records follow the last record and are folded onto the tombstone.
//
// # Permissions for a deletion
//
// The account must be allowed to publish to the session's subject, $KV.TR_SNAPSHOTS.> and $O.TR_OBJECTS.>; and to call $JS.API.STREAM.INFO,
// STREAM.MSG.GET, STREAM.PURGE, CONSUMER.CREATE and CONSUMER.DELETE of TR_CHUNKS_<p>, KV_TR_SNAPSHOTS and OBJ_TR_OBJECTS; STREAM.PURGE of TR_DEADLETTERS
// and KV_TR_INBOX; STREAM.INFO, STREAM.MSG.GET and STREAM.MSG.DELETE of TR_COMMANDS and TR_DEADLINES. An edge or a worker that does not delete sessions
// needs no STREAM.PURGE.
package retention
