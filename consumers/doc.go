// Package consumers reads records from the log.
//
// Replay returns the records of a chunk.Range: of one session, or of a root with all its sub-agents, up to the present end. Follow returns them and then
// continues live. These reads keep no state on the server, so a reader may stop at any time. A Firehose delivers every record of a filter at least once and
// remembers its position. Feed returns all messages of a partition, live and not parsed, for a hub.
//
//	for rec, err := range reader.Follow(ctx, chunk.Range{Session: session, After: lastSeen}) {
//		if errors.Is(err, chunk.ErrTruncated) {
//			return startAgainFromSnapshot(session)
//		}
//		if err != nil {
//			return err
//		}
//		show(rec)
//	}
//
// # Gaps
//
// Every record has its ordinal, its number in its session, and a reader checks that each record is the next one. A gap is accepted only if a truncated
// record explains it as a cleanup, and only by readers that began after the cleanup. Any other missing record ends the iteration with a
// *chunk.TruncatedError, after everything before the gap was delivered and nothing after it. When each reason is detected:
//
//	"expired"    the reader begins before the first sequence of the log: at once, before any record;
//	             retention or a purge removes records that the reader has not read: at the next record of the session, by its ordinal
//	"gap"        records are missing in the middle: at the next record
//	"cleanup"    a cleanup removes records that the reader has not read: at the gap, or at the truncated record; records in flight to the
//	             reader are still delivered
//	"future"     the cursor is beyond the end of the log: at once
//	"foreign"    the cursor is a record of another session: at once
//	"recreated"  the stream was deleted and created again, or restored from an older copy: at once when a cursor is checked; under a live reader
//	             when the server ends its consumer, after three heartbeats at the latest
//
// JetStream itself reports none of these cases. A reader that has everything does not detect a purge after which nothing is written: it misses nothing.
// Records of a fenced writer are dropped.
//
// Ordinals prove a position only as far as they differ: if a log was rolled back and written again with the same ordinals, a new reader gets the new
// records. A running reader detects the roll-back by the time at which its last message was stored.
//
// # The firehose
//
// A durable Firehose is a consumer on the server that remembers what was acknowledged. One program at a time gets its messages, from the first
// unacknowledged one on, in the order of the log. So records that are handled twice, after a crash, are handled twice in order, and no record is handled
// before an older one of its session. The firehose needs nats-server 2.14; the rest needs 2.12.
//
// # Cost
//
// Each read is one ephemeral pull consumer in the memory of the server. The read deletes it when the iteration ends; if the request is lost, the server
// deletes it after 30 seconds. A server allows a thousand consumers of a stream by default, so services that watch many sessions take a Feed and divide
// it. The history of a tree of up to four sessions takes one consumer for each, because a consumer with one literal subject skips most of the stream; a
// larger tree takes one wildcard. A read holds at most 16 MiB of messages.
package consumers
