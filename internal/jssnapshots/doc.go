// Package jssnapshots stores snapshots in JetStream key-value buckets, one for each partition, and delivers the log to the projector that makes them.
//
//	store, err := jssnapshots.New(js, jssnapshots.Config{})
//	revision, err := store.Save(ctx, snapshot, 0)
//	if errors.Is(err, projector.ErrConflict) {
//		// the stored head is another one: load it, fold the rest of the log, save again
//	}
//
//	source, err := jssnapshots.NewSource(js, jssnapshots.SourceConfig{Partition: 0})
//	runner, err := projector.NewRunner(source, store, log, projector.Config{})
//	err = runner.Run(ctx)
//
// A session has one head, which is replaced by compare-and-set, and one value for each pack of finished messages, written once before the first head that counts
// it and shared by all later ones. The head has the messages after the last pack.
//
//	h.<tenant>.<root>.<session>            the head
//	m.<tenant>.<root>.<session>.p<n>       pack of finished messages and segments, n is the number of the first one, see pack.go
//	o.<tenant>.<root>.<session>.<object>   note of an object of the session
//	owner.<tenant>.<root>.<name>           owner of a root session, see owner.go
//	fork.<tenant>.<root>.<fork>            fork of a root session, see forks.go
//	turn.projector-<name>                  lease of a projector, see replicas.go
//
// The number n of a message is its fold.FinishedMessage.Index; after a truncated record that removed messages it is the generation, which is the ordinal of
// that record, times 2^24 plus the index, so that one key has one content until the session is deleted. If a process crashes after it has written the messages
// and before it has written the head, the store is consistent: the next process writes the same values under the same keys.
//
// The hash in the head proves all messages, and their sequences prove a part of them, see Store.read. A message that is missing, as on a replica that
// lags, is fold.ErrInconsistent.
//
// # Large values
//
// A head or message that exceeds the maximum size of a value is stored as an object in a bucket of its own, and the value is a pointer to it. Objects without
// a pointer are removed when the next head is saved, see value.go. Beyond Config.MaxValueBytes the error is a *projector.TooLargeError; the previous head
// stays stored, and a reader applies more records of the log to it.
//
// # Deletion and listing
//
// A session is deleted by saving a tombstone over its head and calling DeleteData; package erase does both, and deletes the log. Sessions lists the
// sessions of a tenant by headers that each head has.
package jssnapshots
