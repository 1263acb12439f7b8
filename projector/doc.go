// Package projector keeps snapshots of sessions and reads them fresh.
//
// A Runner folds what a Source delivers and saves it in a Store. A Reader gives
// the snapshot of a session as of now: what the Store has, and the rest of the
// log folded on top. So a snapshot is exact also when the Runner lags or is
// down; a Runner only makes reading cheaper.
//
//	runner, err := projector.NewRunner(source, store, log, projector.Config{})
//	go runner.Run(ctx) // until ctx ends
//
//	reader := projector.NewReader(store, log)
//	snap, err := reader.Snapshot(ctx, session)
//	if errors.Is(err, chunk.ErrUnknownSession) {
//		return notFound()
//	}
//	page := snap.Frontend(false, now)
//
// Reader.Page gives the last messages of a conversation, or those before one, at
// a cost that does not grow with the session.
//
// # Once, however often it is delivered
//
// The Source may deliver a record twice, late, or in any order, and stop
// anywhere. A record is applied only when its ordinal is the next one; what is
// missing before it is read from the Log. A delivery is acknowledged after the
// snapshot that holds it is saved. A save is a compare-and-set: of two Runners
// that work on one session one is refused, loads what the other saved and goes
// on from there. Killed anywhere, whoever comes next ends with the same
// snapshots.
//
// A record that cannot be folded is counted, reported to the DeadLetter, marked
// in the snapshot and passed.
//
// You hold a Source, a Store and a Log, which this package declares and others
// implement: projector/natssource, projector/kvstore, and consumers.Reader with
// a few lines in cmd. Package storetest is the contract of a Store.
package projector
