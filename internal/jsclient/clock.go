package jsclient

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrClock reports that the clocks of this host and of the server differ by more than maxClockDifference.
var ErrClock = errors.New("clock differs from that of the server")

const (
	maxClockDifference = time.Minute
	clockBudget        = 10 * time.Second // of the request for the time
)

// Now returns the time of the server that leads a stream, which has set the times of its messages.
func (c *Client) Now(ctx context.Context, stream string) (time.Time, error) {
	state, err := Retry(ctx, c.Reading(clockBudget), func(ctx context.Context) (State, error) { return c.State(ctx, stream, "") })
	if err != nil {
		return time.Time{}, fmt.Errorf("time of %s: %w", stream, err)
	}
	return state.Now, nil
}

// SweepTime is Now for a sweep, which removes what is old by that time: with the clock of a host that is 90 days fast it would remove the only copies of what
// is a day old. host is the clock of this process, which only a test replaces. The error is ErrClock if the two differ by more than a minute: one of them is
// wrong, and the process cannot know which.
func (c *Client) SweepTime(ctx context.Context, stream string, host func() time.Time) (time.Time, error) {
	before := host()
	now, err := c.Now(ctx, stream)
	if err != nil {
		return now, err
	}
	if after := host(); now.Before(before.Add(-maxClockDifference)) || now.After(after.Add(maxClockDifference)) {
		return time.Time{}, fmt.Errorf("%w: host %s, leader of %s %s, want a difference of at most %s", ErrClock,
			after.UTC().Format(time.RFC3339), stream, now.UTC().Format(time.RFC3339), maxClockDifference)
	}
	return now, nil
}
