// Package kvstore keeps snapshots in a JetStream key-value bucket.
//
//	store, err := kvstore.New(js, kvstore.Config{})
//	revision, err := store.Save(ctx, snapshot, 0)
//	if errors.Is(err, projector.ErrConflict) {
//		// somebody else has saved: load it, fold on, save again
//	}
//
// A session has one head, which is replaced by compare-and-set, and one value for
// each finished message, written once before the first head that counts it and
// shared by all later ones:
//
//	h.<tenant>.<root>.<session>          the head
//	m.<tenant>.<root>.<session>.<n>      finished message
//
// The number n of a message is its index; behind a mark that took messages back
// it is its generation, the mark's ordinal, times 2^24 plus the index, so that
// one key has one content for ever. A process that dies between the messages
// and the head leaves nothing wrong behind: whoever comes next writes the same
// values under the same keys.
//
// What was read is proved by the head's hash over its messages. A message that
// is not there yet, as on a replica that lags, is fold.ErrTorn.
//
// A head or message larger than a value may be is a *projector.TooLargeError;
// the previous head stays, and whoever reads folds more of the log on it.
package kvstore
