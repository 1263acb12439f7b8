package ingestion

import (
	"context"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
)

// Runs opens and continues the runs of sessions.
type Runs interface {
	// Open opens a run. existed: the run with this id is the last one of the session already.
	Open(ctx context.Context, o Opening) (s State, existed bool, err error)

	// State returns the state of a run.
	State(ctx context.Context, of Run) (State, error)

	// Attach returns a writer for the lines of one request. Close it.
	Attach(ctx context.Context, r Request) (Writer, error)
}

// Run identifies a run of a session.
type Run struct {
	Session chunk.Session
	ID      string
	Epoch   chunk.Epoch // 0 for State: not known
}

// Opening is a run to open.
type Opening struct {
	Session   chunk.Session
	AgentType string // "" is the default of producers
	Started   chunk.RunStarted
	TakeOver  bool
	Fresh     bool // only if the session does not exist; otherwise ReasonNoRun
}

// Request is one request that writes to a run.
type Request struct {
	Run

	Dialect string // "" or "native" for chunks of the log
	Lax     bool   // unknown types, and lines that look like another dialect's, are accepted
	First   int64  // number of the first line; 0: the lines are new ones, which follow what is stored
}

// Status is the state of a run.
type Status string

// The states.
const (
	Active Status = "active"
	Paused Status = "paused"
	Ended  Status = "ended"
	Failed Status = "failed"
)

// State is what is stored of a run.
type State struct {
	Run      string       `json:"runId"`
	Epoch    chunk.Epoch  `json:"epoch"`
	Stored   int64        `json:"stored"` // all lines up to this one
	Next     int64        `json:"next"`   // first line of the next request
	Position chunk.Cursor `json:"-"`
	Status   Status       `json:"status"`
}

// Writer writes the lines of one request. Its methods are called by one goroutine, except Progress.
type Writer interface {
	// Line queues the chunks of a line with a number in the request, from 1, and blocks while the queue is full. The error is a *RefusalError.
	Line(ctx context.Context, number int64, text []byte) error

	// EndOfBody queues what follows from the end of the body, whose last line has a number.
	EndOfBody(ctx context.Context, number int64) error

	// Events queues events. All of them have a sequence, or none has. ReasonSuperseded says that another request has stored events meanwhile: attach again.
	Events(ctx context.Context, events []Event) error

	// Flush blocks until everything that was queued is stored. It may be called beside the goroutine.
	Flush(ctx context.Context) error

	// Progress returns what is stored.
	Progress() Progress

	// End, Fail, Pause and Cleanup change the state of the run. Repeating one has no effect.
	End(ctx context.Context, output chunk.Value) error
	Fail(ctx context.Context, message string, detail *chunk.ErrorDetail) error
	Pause(ctx context.Context, reason string) error
	Cleanup(ctx context.Context, step int64, after chunk.Seq) (removed int, err error)

	// Close drops what is queued. If the run has ended, it requests the run of a message that waits for that.
	Close(ctx context.Context) error
}

// Progress is what a Writer has stored.
type Progress struct {
	First  int64        // number of the first line of the request, 0 if it is not known yet
	Line   int64        // all lines up to this one are stored
	At     chunk.Cursor // behind them
	Queued bool         // more lines are queued
	Held   bool         // a stream_end waits for the next line, the end of the body or Flush
	Warned []Warning    // at most MaxWarnings
	Err    error        // for which queued lines are not stored, nil for none
}

// Event is a CloudEvent with a chunk.
type Event struct {
	Source, ID string
	Sequence   int64 // number of its line, 0 for none
	Text       []byte
}

// Reason is why a request is refused.
type Reason int

// The reasons.
const (
	ReasonUnavailable  Reason = iota // the log does not answer, or the outcome is not known: repeat
	ReasonNoRun                      // the run is not known
	ReasonOpen                       // another run is open
	ReasonFenced                     // another run has begun
	ReasonSuperseded                 // a later request writes the same run
	ReasonFirstLine                  // the body must begin with another line
	ReasonEnded                      // the run has ended
	ReasonPaused                     // the run is paused
	ReasonInvalid                    // the line is no chunk
	ReasonTooLarge                   // the line is too large
	ReasonLimit                      // the session has reached its limit
	ReasonNoStorage                  // nothing can be stored
	ReasonDialect                    // there is no such dialect
	ReasonOtherDialect               // the first line looks like another dialect's
	ReasonType                       // there is no such type
)

// RefusalError is the error of a request.
type RefusalError struct {
	Reason  Reason
	Line    int64       // that is refused, or that is wanted; 0 for none
	Epoch   chunk.Epoch // of the other run
	Run     string      // of the other run, "" if it is not known
	Text    string      // for clients
	Nearest string      // the name that was probably meant, "" for none
	Cause   error
}

// Error implements error.
func (r *RefusalError) Error() string {
	return fmt.Sprintf("reason %d, line %d: %s: %v", r.Reason, r.Line, r.Text, r.Cause)
}

// Unwrap returns the cause.
func (r *RefusalError) Unwrap() error { return r.Cause }
