package fold

import (
	"github.com/tailrace/tailrace/chunk"
)

// Version is the version of the stored form. ParseHead reads the one before too,
// so that a session whose log has expired survives the change, and refuses any
// other with ErrVersion; the snapshot is then folded anew from the log.
//
// Who raises it copies the golden files to testdata/version<n> before anything
// else, and lets version_test read them.
const Version = 2

// Status says how a session stands.
type Status string

// The statuses, as a browser gets them.
const (
	Active Status = "active" // a run is at work
	Paused Status = "paused" // it waits for people or children, or was stopped softly
	Ended  Status = "ended"  // the last run ended well; also a session without any run
	Failed Status = "failed" // the last run ended badly; Failure says why
)

// Snapshot is what the log of one session says up to a record. The zero value
// is of no use; New makes the snapshot before the first record.
type Snapshot struct { //nolint:recvcheck // callers hold values; the steps of the fold change their one copy in place
	Session   chunk.Session
	AgentType string // name of the agent's definition, "" until a record said so

	// Position is the last record that counts: the snapshot is the fold of
	// everything up to it, of nothing beyond it.
	Position chunk.Position

	// Epoch is the highest seen. Records of a lower one change nothing.
	Epoch chunk.Epoch

	// Created is when the log stored the first record that was folded, in
	// milliseconds since 1970 UTC; 0 before it.
	Created int64

	Status  Status
	Failure *Failure // why Status is Failed, nil otherwise
	Run     Run      // the latest run, zero before the first

	// Past are the runs before it, oldest first, at most MaxPast of them.
	Past []Run

	// Errors are what the agent reported while its stream went on, the latest
	// maxErrors of them.
	Errors []Error

	// CheckpointID is the latest checkpoint the session stands on, nil when
	// there is none.
	CheckpointID *string

	Usage Usage // of all runs

	// State is the custom state, nil before the first patch. It is one JSON
	// value without white space, at most MaxState bytes.
	State chunk.Value

	Pending []Pending // calls that wait for somebody, oldest first
	Faults  Faults    // what could not be folded

	messages  history
	streams   streams              // structured data
	chain     Chain                // of the records folded
	gone      []chunk.OrdinalRange // taken back; the mark that says so is still ahead
	turn      *Snapshot            // how it stood when the turn opened, nil before the first
	step      *Snapshot            // how it stood before the latest step began, nil when that is the turn
	stepStart bool                 // a step was opened that has said nothing yet
	replaced  []stretch            // messages that others took the place of, in order
	deleted   bool                 // see Grave
}

// Run is one execution inside the session.
type Run struct {
	ID           string
	Status       RunStatus
	Epoch        chunk.Epoch
	Mode         string    // execute, takeover, or a mode of chunk.RunResumed
	Started      chunk.Seq // of its run_started record; 0 when there was none
	Began        int64     // when the log stored that, in milliseconds since 1970 UTC
	Step         int64     // highest step it reached
	CheckpointID *string   // the checkpoint it started from, nil for none
	FinishReason string    // of the last step that gave one
	Interrupted  bool      // it was stopped softly and may be resumed
	Usage        Usage
	Output       chunk.Value   // final structured output, nil for none
	Parent       *chunk.Parent // where a sub-agent was called from, nil in a root session
}

// RunStatus says how a run stands, or how it was left.
type RunStatus string

// The statuses of a run.
const (
	RunRunning     RunStatus = "running"
	RunSuspended   RunStatus = "suspended"   // it waits for people or children
	RunInterrupted RunStatus = "interrupted" // it was stopped softly and may be resumed
	RunEnded       RunStatus = "ended"
	RunFailed      RunStatus = "failed"
	RunSuperseded  RunStatus = "superseded" // another run, or another executor, took its place while it was running
)

// MaxPast is how many runs before the latest one a snapshot remembers.
const MaxPast = 8

// Error is an error that the agent reported while its stream went on.
type Error struct {
	Seq         chunk.Seq
	RunID       string // "" outside of a run
	Message     string // at most maxErrorText bytes
	Code        string // "" for none
	Recoverable bool
}

const (
	maxErrors    = 16
	maxErrorText = 1024
)

// Usage counts tokens. Sums stay at the largest integer a browser can hold
// (2^53-1) when they would go beyond it.
type Usage struct { //nolint:recvcheck // only add changes it
	Input, Output, Cached, CacheWrite int64
}

// Failure is why a run failed.
type Failure struct {
	Message string
	Detail  *chunk.ErrorDetail // nil when the record had none
}

// PendingKind says whom a pending call waits for.
type PendingKind string

// The kinds of a pending call.
const (
	PendingApproval PendingKind = "approval"    // somebody must allow it
	PendingClient   PendingKind = "client-tool" // the client must run it
)

// Pending is a call that waits for an answer. Its input is in the message.
type Pending struct {
	Kind       PendingKind
	CallID     string
	ToolName   string
	RunID      string // the run that asked
	ApprovalID string // of an approval, "" otherwise
	Deadline   int64  // in milliseconds since 1970 UTC, 0 for none
}

// Faults counts what the fold had to pass over. A session with faults goes on.
type Faults struct {
	Skipped int64 // records that could not be read, passed by Skip
	Patches int64 // state patches that were refused as a whole
	Streams int64 // pieces of structured data that were refused
	Lost    int64 // records that were gone from the log before they were folded
	Recent  []Mark
}

// Mark names one fault. Only the latest maxMarks are kept.
type Mark struct {
	Position chunk.Position
	Type     chunk.Type
	Reason   string // one line
}

const maxMarks = 16

// New is the snapshot of s before its first record.
func New(s chunk.Session) Snapshot {
	return Snapshot{Session: s, Status: Ended, messages: history{shown: noMessage}, chain: Chain{Since: 1}}
}

// Grave is what is left of a session that was deleted with everything up to a
// record: a snapshot of nothing that stands there. It is stored like others, so
// that nobody who comes late with what was deleted can bring it back: records up
// to there change nothing, and a head that was loaded before cannot be replaced.
// The first record behind it makes it a snapshot like others.
func Grave(s chunk.Session, at chunk.Position, e chunk.Epoch) Snapshot {
	g := New(s)
	g.Position, g.Epoch, g.deleted = at, e, true
	g.startChain(at.Ordinal + 1)
	return g
}

// Deleted reports whether s is a Grave.
func (s Snapshot) Deleted() bool { return s.deleted }

// Unexplained reports whether records before the snapshot's position are missing
// whose mark is still ahead.
func (s Snapshot) Unexplained() bool { return len(s.gone) > 0 }

// InFlight reports whether an answer is on its way: a turn is open and a run is
// at work on it. Frontend leaves that answer out.
func (s Snapshot) InFlight() bool { return s.Status == Active && s.turn != nil }

// TurnStart is the record that opened the turn: a cursor there is just before
// the answer. It is zero when the session began without a run_started record.
func (s Snapshot) TurnStart() chunk.Position {
	if s.turn == nil {
		return chunk.Position{}
	}
	return s.turn.Position
}

// TurnMessages is how many messages the session had when the turn's inputs were
// in: the answer is shown as msg-<TurnMessages>.
func (s Snapshot) TurnMessages() int {
	if s.turn == nil {
		return s.messages.count()
	}
	return s.turn.messages.count()
}

func (s *Snapshot) fault(rec chunk.Record, reason string) {
	m := Mark{Position: rec.Position(), Type: rec.Type, Reason: clip(oneLine(reason))}
	if len(s.Faults.Recent) == maxMarks {
		s.Faults.Recent = s.Faults.Recent[1:]
	}
	s.Faults.Recent = append(s.Faults.Recent, m)
}
