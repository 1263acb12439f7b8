package control

import (
	"fmt"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// StopKind is the kind of a stop request.
type StopKind string

// The kinds of stop requests. A StopInterrupt may be replaced by a StopAbort, but not the other way round.
const (
	// StopInterrupt ends the run at its next step boundary and keeps its output; it can be resumed.
	StopInterrupt StopKind = "interrupt"

	// StopAbort fails the run as soon as its worker reads it.
	StopAbort StopKind = "abort"
)

// Stop is a request to stop a run.
type Stop struct {
	Session chunk.Session
	RunID   string // passes subjects.CheckToken
	Kind    StopKind
	Reason  string           // the reason; at most MaxError bytes
	By      *chunk.Principal // the client that requested it; nil if it is not known, or for a worker
	At      time.Time        // when it was requested, to the millisecond; Stop sets it
}

// Validate returns an error that names the invalid field.
func (s Stop) Validate() error {
	if s.Kind != StopInterrupt && s.Kind != StopAbort {
		return invalid("Kind", fmt.Sprintf("is %.80q, want %q or %q", s.Kind, StopInterrupt, StopAbort))
	}
	if err := checkPrincipal(s.By); err != nil {
		return err
	}
	return checkText("Reason", s.Reason, MaxError)
}

// Escalates reports whether s replaces the stored kind.
func (s Stop) Escalates(there Stop) bool { return s.Kind == StopAbort && there.Kind == StopInterrupt }
