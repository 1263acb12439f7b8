// Package projector maintains session snapshots and serves them up to date.
//
// A Runner consumes a Source, folds its records and saves snapshots to a Store. A Reader loads the stored snapshot and applies the rest of the log, so it
// returns the current state even if the Runner lags or is down. A Runner only makes reads cheaper:
//
//	runner, err := projector.NewRunner(source, store, log, projector.Config{})
//	go runner.Run(ctx) // until ctx ends
//
//	reader := projector.NewReader(store, log)
//	snap, err := reader.Snapshot(ctx, session)
//	if errors.Is(err, chunk.ErrUnknownSession) {
//		return notFound()
//	}
//	page := aisdk.Snapshot(snap, aisdk.SnapshotOptions{Timestamp: now})
//
// Reader.MessagePage returns a page of messages at a cost that does not depend on the length of the session.
//
// # Exactly-once effect
//
// The Source may redeliver, delay or reorder records and may stop at any time. The Runner applies a record only if its ordinal is the next one and reads
// missing records from the Log. It acknowledges a delivery after it has saved the snapshot that contains it. A save is a compare-and-set: if two Runners
// process one session, one save fails, and that Runner reloads the stored snapshot and continues from it. After a crash at any point the next owner
// arrives at the same snapshots. A record that cannot be folded is counted, sent to the DeadLetterSink, recorded as a fault in the snapshot and skipped.
//
// Source, Store and Log are interfaces of this package, implemented by internal/jssnapshots. Package storetest holds
// the contract tests of a Store.
package projector
