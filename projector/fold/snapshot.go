package fold

import (
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// Version is the version of the stored form. ParseHead rejects any other with ErrVersion; the snapshot is then refolded from the log.
//
// A build that increases it must read the versions of earlier releases, because a session whose log has expired cannot be refolded.
const Version = 1

// Status is the status of a session.
type Status string

// The statuses, as sent to clients.
const (
	Active Status = "active" // a run is running
	Paused Status = "paused" // waiting for users or sub-agents, or interrupted
	Ended  Status = "ended"  // the last run completed; also a session without runs
	Failed Status = "failed" // the last run failed; see Failure
)

// Snapshot is the state of one session up to a record. It is read-only, and no Folder changes it. The zero value is not usable;
// a new Folder returns the snapshot before the first record.
type Snapshot struct { //nolint:recvcheck // callers hold values; the steps of the fold change their one copy in place
	Session   chunk.Session
	AgentType string // name of the agent's definition, "" until a record contains it

	// Owner requested the first run. It is nil if that run does not have it, if the session began without a run, and if the log had lost the first record
	// before it was folded: a later run may be of another user.
	Owner *chunk.Principal

	// Origin is the point of another session that a fork continues, nil for a session that is not a fork.
	Origin *chunk.ForkOrigin

	// Position is the position of the last record of the snapshot, which is the fold of all records up to it and none after it.
	Position chunk.Position

	// Anchor is that of the record at Position; 0 if it is unknown, as in a tombstone.
	Anchor chunk.Anchor

	// Epoch is the highest epoch so far. Records of a lower epoch change nothing.
	Epoch chunk.Epoch

	// Created is the time at which the log stored the first folded record, in milliseconds since 1970 UTC; 0 before it.
	Created int64

	SessionBytes int64 // of the last record, see chunk.Record

	Status  Status
	Failure *Failure // the reason of Failed, nil otherwise
	Run     Run      // the latest run, zero before the first

	// PastRuns are the earlier runs, oldest first, at most MaxPastRuns.
	PastRuns []Run

	// Errors are the errors that the agent reported without ending its stream, the latest maxErrors of them.
	Errors []Error

	// CheckpointID is the latest checkpoint of the session, nil if there is none.
	CheckpointID *string

	Usage Usage // of all runs

	// State is the custom state, nil before the first patch. It is one JSON value without white space, at most MaxState bytes.
	State chunk.Value

	Pending []PendingCall // oldest first, without inputs, see PendingCalls
	Faults  Faults        // records that could not be folded

	counts       counts // of a Summary
	messages     history
	streams      streams              // structured data
	chain        Chain                // of the records folded
	removedAhead []chunk.OrdinalRange // removed by truncated records that are still ahead
	turn         *Snapshot            // state when the turn opened, nil before the first
	step         *Snapshot            // state before the latest step, nil if that is turn
	stepStart    bool                 // a step was opened that has no output yet
	branches     []branch             // turns that do not follow the one before them, by their first message
	tip          *int                 // last message of the selected branch, nil for the latest one; not stored
	deleted      bool                 // see NewTombstone
}

// Run is one execution of the session.
type Run struct {
	ID           string
	Status       RunStatus
	Epoch        chunk.Epoch
	Mode         string    // execute, takeover, or a mode of chunk.RunResumed
	StartSeq     chunk.Seq // of its run_started record; 0 if there was none
	StartedAt    int64     // time at which the log stored that, in milliseconds since 1970 UTC
	Step         int64     // highest step so far
	CheckpointID *string   // the checkpoint it started from, nil for none
	FinishReason string    // of the last step that has one
	Interrupted  bool      // it was interrupted and may be resumed
	Usage        Usage
	Output       chunk.Value   // final structured output, nil for none
	Parent       *chunk.Parent // the call that started a sub-agent, nil in a root session
}

// RunStatus is the current or the last status of a run.
type RunStatus string

// The statuses of a run.
const (
	RunRunning     RunStatus = "running"
	RunSuspended   RunStatus = "suspended"   // waiting for users or sub-agents
	RunInterrupted RunStatus = "interrupted" // interrupted; it may be resumed
	RunEnded       RunStatus = "ended"
	RunFailed      RunStatus = "failed"
	RunSuperseded  RunStatus = "superseded" // another run or executor replaced it while it was running
)

// MaxPastRuns is the maximum number of past runs in a snapshot.
const MaxPastRuns = 8

// Error is an error that the agent reported without ending its stream.
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

// Usage counts tokens. Sums are limited to the largest integer that JavaScript represents exactly (2^53-1).
type Usage struct { //nolint:recvcheck // only add changes it
	Input      int64 `json:"input,omitempty"`
	Output     int64 `json:"output,omitempty"`
	Cached     int64 `json:"cached,omitempty"`
	CacheWrite int64 `json:"written,omitempty"`
}

// Failure is the reason why a run failed.
type Failure struct {
	Message string
	Detail  *chunk.ErrorDetail // nil if the record has none
}

// PendingKind is the kind of answer that a pending call waits for.
type PendingKind string

// The kinds of a pending call.
const (
	PendingApproval PendingKind = "approval"    // a user must approve it
	PendingClient   PendingKind = "client-tool" // the client must execute it
)

// PendingCall is a call that waits for an answer.
type PendingCall struct {
	Kind       PendingKind
	CallID     string
	ToolName   string
	RunID      string      // the run that made the call
	ApprovalID string      // of an approval, "" otherwise
	Deadline   int64       // in milliseconds since 1970 UTC, 0 for none
	Input      chunk.Value // nil if unknown, and in Snapshot.Pending, because the message has it
}

// Faults counts the records that could not be folded. They do not stop the session.
type Faults struct {
	Skipped         int64 // invalid records, see Folder.Skip
	RejectedPatches int64 // state patches that were rejected as a whole
	RejectedPieces  int64 // pieces of structured data that were rejected
	Lost            int64 // records that had expired before they were folded
	Recent          []Fault
}

// Fault describes one fault. A snapshot has only the latest maxFaults.
type Fault struct {
	Position chunk.Position
	Type     chunk.Type
	Reason   string // one line
}

const maxFaults = 16

// newSnapshot returns the snapshot of s before its first record.
func newSnapshot(s chunk.Session) Snapshot {
	return Snapshot{Session: s, Status: Ended, messages: history{shown: noMessage}, chain: Chain{FirstOrdinal: 1}}
}

// NewTombstone returns an empty snapshot that marks s as deleted up to position at. It is stored like any other snapshot, so a
// late writer cannot restore the deleted session: records up to at change nothing, and a head that was loaded earlier cannot
// replace the tombstone. The first record after at makes it a normal snapshot.
func NewTombstone(s chunk.Session, at chunk.Position, e chunk.Epoch) Snapshot {
	tombstone := newSnapshot(s)
	tombstone.Position, tombstone.Epoch, tombstone.deleted = at, e, true
	tombstone.startChain(at.Ordinal + 1)
	return tombstone
}

// Deleted reports whether s is a tombstone, see NewTombstone.
func (s Snapshot) Deleted() bool { return s.deleted }

// WasDeleted reports whether the last record of s is that of its deletion. A record after it starts the session again, without the content of s: a process that
// has loaded s before the deletion may read on after it.
func (s Snapshot) WasDeleted() bool { return s.Failure != nil && s.Failure.Detail.IsDeletion() }

// HasUnexplainedGap reports whether records before the position are missing whose truncated record is still ahead.
func (s Snapshot) HasUnexplainedGap() bool { return len(s.removedAhead) > 0 }

// inFlight reports whether an answer is in flight: a turn is open and a run is active.
func (s Snapshot) inFlight() bool { return s.Status == Active && s.turn != nil }

// BeforeAnswer returns the state just before the answer in flight, s itself if there is none. The stream after its position has
// the whole answer, with the same ids.
func (s Snapshot) BeforeAnswer() Snapshot {
	if s.inFlight() {
		at := s.restore(s.turn)
		if s.tip != nil && *s.tip < at.messages.count() {
			at.tip = s.tip
		}
		return at
	}
	return s
}

// PendingCalls returns the pending calls with their inputs, oldest first.
func (s Snapshot) PendingCalls() []PendingCall {
	all := slices.Clone(s.Pending)
	for i := range all {
		if t, _ := s.find(all[i].CallID); t != nil {
			all[i].Input = t.Input
		}
	}
	return all
}

// OpenData returns the structured data that is not final yet, as structured.Stream.AppendShown writes it.
func (s Snapshot) OpenData() []chunk.Value { return s.streams.openStreams() }

// TurnStart returns the position of the record that opened the turn: the cursor just before the answer. It is zero if the
// session started without a run_started record.
func (s Snapshot) TurnStart() chunk.Position {
	if s.turn == nil {
		return chunk.Position{}
	}
	return s.turn.Position
}

// TurnState returns the custom state when the turn opened, nil before the first patch.
func (s Snapshot) TurnState() chunk.Value {
	if s.turn == nil {
		return nil
	}
	return s.turn.State
}

// TurnMessages returns the number of messages of the session after the inputs of the turn: the answer is shown as
// msg-<TurnMessages>.
func (s Snapshot) TurnMessages() int {
	if s.turn == nil {
		return s.messages.count()
	}
	if s.turn.messages.shown != noMessage { // a fork continues an answer
		return s.turn.messages.shown
	}
	return s.turn.messages.count()
}

func (s *Snapshot) fault(rec chunk.Record, reason string) {
	f := Fault{Position: rec.Position(), Type: rec.Type, Reason: clip(oneLine(reason))}
	s.Faults.Recent = latestOf(s.Faults.Recent, f, maxFaults)
}
