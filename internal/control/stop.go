package control

import (
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// StopKind says how a run is to stop.
type StopKind string

// The kinds of stops. An StopInterrupt may be raised to an StopAbort, never the other
// way round.
const (
	// StopInterrupt ends the run at its next step boundary, with what is done so
	// far; it can be resumed.
	StopInterrupt StopKind = "interrupt"

	// StopAbort fails the run as soon as its worker reads it.
	StopAbort StopKind = "abort"
)

// Stop is the request that a run stops.
type Stop struct {
	Session chunk.Session
	RunID   string // passes subjects.CheckToken
	Kind    StopKind
	Reason  string    // in words; at most MaxError bytes
	At      time.Time // when it was asked for, to the millisecond; Stop fills it in
}

// Validate names the field that is wrong.
func (s Stop) Validate() error {
	if s.Kind != StopInterrupt && s.Kind != StopAbort {
		return invalid("Kind", fmt.Sprintf("is %.80q, want %q or %q", s.Kind, StopInterrupt, StopAbort))
	}
	return checkWords("Reason", s.Reason)
}

// Escalates reports whether s is more than there is already.
func (s Stop) Escalates(there Stop) bool { return s.Kind == StopAbort && there.Kind == StopInterrupt }
