package hub

import "errors"

var (
	// ErrEnded reports that the session is complete and that the position is at or
	// after its last record: no record follows until a new run opens the session.
	ErrEnded = errors.New("session ended before the position")

	// ErrClosed reports a Hub whose Run has returned.
	ErrClosed = errors.New("hub closed")

	// errTopicReplaced reports a dropped topic whose cursors continue in a new one.
	errTopicReplaced = errors.New("topic replaced")

	errFeedEnded      = errors.New("feed ended")
	errFeedOutOfOrder = errors.New("feed out of order")
	errCancelled      = errors.New("page read canceled")
	errMissedRecord   = errors.New("record missing in memory")
	errShortRead      = errors.New("log ended before the position of the feed")
	errOver           = errors.New("all records of a complete session were taken")
)
