package producers

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

var (
	// ErrRunning reports a session whose last run has neither ended nor paused.
	// A *RunningError wraps it. Start with TakeOver if that run is dead.
	ErrRunning = errors.New("another run of the session is still open")

	// ErrMoved reports a session that has gone on behind the record that Behind
	// named. Look again.
	ErrMoved = errors.New("the session has moved on")

	// ErrEnded reports a write to a run that has ended or failed, or is about
	// to. Start a new run.
	ErrEnded = errors.New("the run has ended")

	// ErrPaused reports a write to a paused run. Activate it first.
	ErrPaused = errors.New("the run is paused")

	// ErrClosed reports a call to a closed Run or Producer.
	ErrClosed = errors.New("closed")
)

// RunningError is ErrRunning with what the log says last. Nothing was written.
type RunningError struct {
	Session chunk.Session
	Epoch   chunk.Epoch    // of the open run
	Last    chunk.Position // its last record so far
	Type    chunk.Type     // and what that is
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("session %s: epoch %d is at %s, sequence %d: %v", e.Session, e.Epoch, e.Type, e.Last.Seq, ErrRunning)
}

// Is makes a RunningError an ErrRunning and an ErrNotStored.
func (e *RunningError) Is(target error) bool {
	return target == ErrRunning || target == chunk.ErrNotStored
}

// NotStoredError is chunk.ErrNotStored with the reason, which errors.Is and
// errors.As find in it.
type NotStoredError struct {
	Session chunk.Session
	Type    chunk.Type
	Cause   error

	// halts: what refused this record refuses all; what waits behind it is
	// given up with it, so that nothing later passes before the run knows.
	halts bool
}

func (e *NotStoredError) Error() string {
	return fmt.Sprintf("session %s: %s %v: %v", e.Session, e.Type, chunk.ErrNotStored, e.Cause)
}

// Is makes a NotStoredError a chunk.ErrNotStored.
func (e *NotStoredError) Is(target error) bool { return target == chunk.ErrNotStored }

// Unwrap gives the reason.
func (e *NotStoredError) Unwrap() error { return e.Cause }

// FencedError is chunk.ErrFenced with what was found in the log.
type FencedError struct {
	Session chunk.Session
	Epoch   chunk.Epoch // of the writer that was fenced
	By      chunk.Epoch // of the record found instead; 0 when there is none, or it is no record
	At      chunk.Seq   // its sequence; 0 when what this writer wrote is gone
}

func (e *FencedError) Error() string {
	switch {
	case e.At == 0:
		return fmt.Sprintf("session %s: what epoch %d wrote is gone from the log, expired, purged or lost: %v", e.Session, e.Epoch, chunk.ErrFenced)
	case e.By > e.Epoch:
		return fmt.Sprintf("session %s: epoch %d was overtaken by epoch %d at sequence %d: %v", e.Session, e.Epoch, e.By, e.At, chunk.ErrFenced)
	}
	return fmt.Sprintf("session %s: sequence %d is not of the writer of epoch %d: %v", e.Session, e.At, e.Epoch, chunk.ErrFenced)
}

// Is makes a FencedError a chunk.ErrFenced.
func (e *FencedError) Is(target error) bool { return target == chunk.ErrFenced }

// UnknownOutcomeError is chunk.ErrUnknownOutcome with the record in question
// and the last thing that went wrong.
type UnknownOutcomeError struct {
	Session chunk.Session
	Epoch   chunk.Epoch
	Ordinal chunk.Ordinal
	Type    chunk.Type
	Cause   error
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("session %s: %s %s: %v: %v", e.Session, e.Type, chunk.EventID(e.Epoch, e.Ordinal), chunk.ErrUnknownOutcome, e.Cause)
}

// Is makes an UnknownOutcomeError a chunk.ErrUnknownOutcome.
func (e *UnknownOutcomeError) Is(target error) bool { return target == chunk.ErrUnknownOutcome }

// Unwrap gives the last thing that went wrong.
func (e *UnknownOutcomeError) Unwrap() error { return e.Cause }

// sticky errors end a run: every later call returns the same.
func sticky(err error) bool {
	return errors.Is(err, chunk.ErrFenced) || errors.Is(err, chunk.ErrUnknownOutcome)
}
