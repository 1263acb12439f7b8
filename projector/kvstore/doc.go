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
//	h.<tenant>.<root>.<session>            the head
//	m.<tenant>.<root>.<session>.<n>        finished message
//	o.<tenant>.<root>.<session>.<object>   it has this object
//
// The number n of a message is its index; behind a mark that took messages back
// it is its generation, the mark's ordinal, times 2^24 plus the index, so that
// one key has one content as long as the session is not deleted. A process that
// dies between the messages and the head leaves nothing wrong behind: whoever
// comes next writes the same values under the same keys.
//
// What was read is proved by the head's hash over its messages, a part of them by
// their sequences, see Store.read. A message that is not there yet, as on a replica
// that lags, is fold.ErrTorn.
//
// # What is large
//
// A head or message larger than a value may be is an object in a bucket of its
// own, and the value a pointer to it. Objects that nobody points to any more are
// removed when the next head is saved, see value.go. Beyond Config.Largest it is
// a *projector.TooLargeError; the previous head stays, and whoever reads folds
// more of the log on it.
//
// # What is deleted, and what is listed
//
// A session is deleted by saving a fold.Grave over its head and calling Clear;
// package erase does both, and the log. Sessions lists a tenant's sessions by
// headers that each head has.
package kvstore
