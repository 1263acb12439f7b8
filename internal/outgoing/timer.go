package outgoing

import "time"

// Timer calls a function after a time that can be started again.
type Timer struct {
	after time.Duration
	timer *time.Timer // nil for a time without an end
}

// NewTimer returns a Timer that is not started. One of 0 or less never calls f.
func NewTimer(after time.Duration, f func()) *Timer {
	t := &Timer{after: after}
	if after > 0 {
		t.timer = time.AfterFunc(after, f)
		t.timer.Stop()
	}
	return t
}

// Start starts the time from its beginning.
func (t *Timer) Start() {
	if t.timer != nil {
		t.timer.Reset(t.after)
	}
}

// Stop stops the time.
func (t *Timer) Stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
