package hub

import "errors"

var (
	// ErrEnded reports a session that is complete and a position at or behind
	// its last word: there is nothing to stream, now or later, until a new run
	// opens the session.
	ErrEnded = errors.New("the session has ended and nothing follows the position")

	// ErrClosed reports a Hub whose Run has returned.
	ErrClosed = errors.New("the hub is closed")

	// errRestart is why a topic was dropped when its cursors may go on in a new one.
	errRestart = errors.New("memory ends here, the log goes on")

	errFeedEnded     = errors.New("the feed ended")
	errFeedBackwards = errors.New("the feed went backwards")
	errCancelled     = errors.New("nobody waits for the page any more")
	errOverlooked    = errors.New("the log has a record that memory has not")
	errShort         = errors.New("the log ended before the position that the feed had reached")
)
