// Package consumers reads records back from the log.
//
// Replay gives one session to its present end, Follow gives it and then goes
// on live, ReplayTree and Tree do the same for a root with all its sub-agents.
// They keep nothing on the server, so a reader may vanish at any time. A
// Firehose gives every record of a filter at least once and remembers how far
// it came. Feed is the raw material of a hub: a whole partition, live, parsed
// only where somebody looks.
//
//	for rec, err := range reader.Follow(ctx, session, lastSeen) {
//		if errors.Is(err, chunk.ErrTruncated) {
//			return startAgainFromSnapshot(session)
//		}
//		if err != nil {
//			return err
//		}
//		show(rec)
//	}
//
// # What is proved
//
// Every record carries its ordinal, its number in its session, and a reader
// checks it: what comes next must be the next one. A hole is legal only when a
// truncated record says that a clean-up made it, and then only for readers
// that began after the clean-up. Everything else that is missing ends the
// iteration with a *chunk.TruncatedError, after everything before it was
// delivered and nothing beyond. When each case can be noticed:
//
//	expired    the reader begins below the floor: at once, before any record;
//	           retention or a purge takes what lies ahead of a reader: at the
//	           next record of the session, whose ordinal shows it
//	gap        records are missing in the middle: at the next record
//	cleanup    a clean-up takes what lies ahead of a reader: at the hole, or at
//	           the truncated record; what was already on its way to the reader
//	           is still delivered
//	future     the cursor is beyond the end of the log: at once
//	foreign    the cursor is a record of another session: at once
//	recreated  the stream was deleted and made again, or restored from an older
//	           copy: at once when a cursor is verified; under a live reader when
//	           the server ends its consumer, at the latest after three heartbeats
//
// JetStream itself says nothing in any of these cases. A purge after which
// nothing more is written cannot be seen by a reader who had everything: it
// misses nothing. What a writer of a lower epoch managed to store is dropped.
//
// A position that is proved by ordinals cannot tell more than they do: of a log
// that was rolled back and written again with the same ordinals, a new reader
// sees the new writing. A reader under way notices, by the time of storing.
//
// # The firehose
//
// A durable Firehose is a consumer on the server that remembers what was
// acknowledged. One program at a time gets its messages; it begins at the first
// unacknowledged one, in the order of the log. So what is handled twice, after
// a crash, is handled twice in order, and nothing is handled before something
// older of its session. It needs nats-server 2.14; the rest needs 2.12.
//
// # What it costs
//
// Each read is one ephemeral pull consumer in the server's memory, deleted when
// the iteration ends, whichever way; should the request get lost in a dying
// server, after 30 seconds. A server allows a thousand per stream by default, so
// services that watch many sessions take a Feed and divide it. The history of a
// tree of up to four sessions takes one for each, since a consumer that looks for
// one subject passes over most of the stream; a larger tree takes one wildcard.
// A read holds at most 16 MiB of messages that are on their way.
package consumers
