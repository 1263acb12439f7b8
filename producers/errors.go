package producers

import (
	"errors"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

var (
	// ErrRunning reports a session whose last run has neither ended nor paused. A *RunningError wraps it. Start with TakeOver if the writer of that run has
	// crashed.
	ErrRunning = errors.New("another run of the session is open")

	// ErrPositionMismatch reports a session with records after the position of ExpectPosition. Read the session again.
	ErrPositionMismatch = errors.New("session has newer records")

	// ErrEnded reports a write to a run that has ended or failed, or whose end is queued. Start a new run.
	ErrEnded = errors.New("run has ended")

	// ErrPaused reports a write to a paused run. Activate it first.
	ErrPaused = errors.New("run is paused")

	// ErrSessionLimit reports a record over Config.MaxSessionChunks or Config.MaxSessionBytes. It was not sent. End the run; End and Fail are still stored.
	ErrSessionLimit = errors.New("session has reached its limit")

	// ErrClosed reports a call to a closed Run or Producer.
	ErrClosed = errors.New("closed")
)

// RunningError is ErrRunning with the last record of the log. Nothing was written.
type RunningError struct {
	Session chunk.Session
	Epoch   chunk.Epoch    // of the open run
	Last    chunk.Position // its last record
	Type    chunk.Type     // of the last record
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("session %s: epoch %d is at %s, sequence %d: %v", e.Session, e.Epoch, e.Type, e.Last.Seq, ErrRunning)
}

// Is makes a RunningError an ErrRunning and an ErrNotStored.
func (e *RunningError) Is(target error) bool {
	return target == ErrRunning || target == chunk.ErrNotStored
}

// notStoredError is chunk.ErrNotStored with its cause.
type notStoredError struct {
	Session chunk.Session
	Type    chunk.Type
	Cause   error

	// halts reports that the cause applies to all records: the queued records fail with this one, so that no later record is stored before the caller gets
	// the error.
	halts bool
}

func (e *notStoredError) Error() string {
	return fmt.Sprintf("session %s: %s %v: %v", e.Session, e.Type, chunk.ErrNotStored, e.Cause)
}

// Is makes a notStoredError a chunk.ErrNotStored.
func (e *notStoredError) Is(target error) bool { return target == chunk.ErrNotStored }

// Unwrap returns the cause.
func (e *notStoredError) Unwrap() error { return e.Cause }

// FencedError is chunk.ErrFenced with the record that was found in the log.
type FencedError struct {
	Session chunk.Session
	Epoch   chunk.Epoch // of the writer that was fenced
	By      chunk.Epoch // of the record that was found; 0 if there is none or the message is malformed
	At      chunk.Seq   // its sequence; 0 if the records of this writer are missing
}

func (e *FencedError) Error() string {
	switch {
	case e.At == 0:
		return fmt.Sprintf("session %s: records of epoch %d missing from the log: %v", e.Session, e.Epoch, chunk.ErrFenced)
	case e.By > e.Epoch:
		return fmt.Sprintf("session %s: epoch %d fenced by epoch %d at sequence %d: %v", e.Session, e.Epoch, e.By, e.At, chunk.ErrFenced)
	}
	return fmt.Sprintf("session %s: sequence %d not written by the writer of epoch %d: %v", e.Session, e.At, e.Epoch, chunk.ErrFenced)
}

// Is makes a FencedError a chunk.ErrFenced.
func (e *FencedError) Is(target error) bool { return target == chunk.ErrFenced }

// sticky reports whether err ends a run: every later call returns the same error.
func sticky(err error) bool {
	return errors.Is(err, chunk.ErrFenced) || errors.Is(err, chunk.ErrUnknownOutcome)
}
