package inbox

import (
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// StopKind says how a run is to stop.
type StopKind string

// The kinds of stops. An Interrupt may be raised to an Abort, never the other
// way round.
const (
	// Interrupt ends the run at its next step boundary, with what is done so
	// far; it can be resumed.
	Interrupt StopKind = "interrupt"

	// Abort fails the run as soon as its worker hears of it.
	Abort StopKind = "abort"
)

// Stop is the wish that a run stops.
type Stop struct {
	Session chunk.Session
	RunID   string // passes subjects.CheckToken
	Kind    StopKind
	Reason  string    // in words; at most MaxError bytes
	At      time.Time // when it was asked for, to the millisecond; Stop fills it in
}

func (s Stop) validate() error {
	if s.Kind != Interrupt && s.Kind != Abort {
		return invalid("Kind", fmt.Sprintf("is %.80q, want %q or %q", s.Kind, Interrupt, Abort))
	}
	return checkWords("Reason", s.Reason)
}

// raises reports whether s is more than there is already.
func (s Stop) raises(there Stop) bool { return s.Kind == Abort && there.Kind == Interrupt }
