package control

import (
	"errors"
	"fmt"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/subjects"
)

// CommandKind is the kind of a command. A kind that this build does not know is left to a newer worker.
type CommandKind string

// The kinds of commands.
const (
	// Execute starts the run RunID, which answers Input.
	Execute CommandKind = "execute"

	// Resume starts the run RunID, which continues the run Resumes that is paused or was interrupted. The answers are in the inbox of the run Resumes.
	Resume CommandKind = "resume"

	// Abort fails the run RunID. It is for a paused run: a run in progress is aborted through its inbox, because its own command occupies the queue.
	Abort CommandKind = "abort"

	// Expire reports that a deadline of the paused run RunID has passed. PublishAt sends it; it does not replace the command of the session.
	Expire CommandKind = "expire"
)

// Command is a request for a worker.
type Command struct {
	Kind      CommandKind
	Session   chunk.Session
	AgentType string // name of the agent's definition; passes subjects.CheckToken

	// RunID is the run that starts (Execute, Resume) or that waits (Abort, Expire). With Kind and Session, and the Deadline of an Expire, it identifies the
	// command. It passes subjects.CheckToken. ExecuteRunID, RegenerateRunID and ResumeRunID return the ids of runs that start.
	RunID string

	Resumes  string    // the run that a Resume continues; passes subjects.CheckToken
	Mode     string    // of a Resume, as in run_resumed: "continue", "with_message", …; of an Execute ModeQueued or ""
	Replaces string    // id of the message that the answer of an Execute replaces; "" for none
	Parent   *Parent   // the caller of the sub-agent that an Execute starts; nil for a user
	Reason   string    // of an Abort: the reason
	Deadline time.Time // of an Expire, to the millisecond

	Input  []chunk.InputMessage // of an Execute, and of a Resume with a message
	By     *chunk.Principal     // the client that requested an Execute, Resume or Abort; nil if it is not known
	Params chunk.Value          // any JSON for the agent, at most MaxParams bytes; the zero Value is null
	Issued time.Time            // when it was requested, to the millisecond; set when it is published

	TraceParent string // the W3C traceparent of the span that requested it; "" for none
}

// Parent is the call that waits for a sub-agent, in a session of the same tree. The worker of the sub-agent stores the result in the inbox of that run.
type Parent struct {
	Session   string // its id; tenant and root are the command's
	AgentType string
	RunID     string // the run that is suspended on the call
	CallID    string // at most MaxID bytes
	ToolName  string // at most MaxID bytes
}

const (
	// MaxID limits in bytes the ids of models and other systems.
	MaxID = 1024

	// MaxParams limits Params in bytes. A run that is suspended writes them into the log for the run that continues it, where a record has at most 512 KiB; the
	// rest is reserved for its other members.
	MaxParams = 496 << 10

	// MaxReason limits a Reason in bytes.
	MaxReason = 8 << 10
)

var (
	// ErrMalformed reports a command, an answer or a stop request that no version can read. Such a command is removed from the queue; such a value counts as
	// missing and may be replaced: otherwise one invalid write would keep a run waiting indefinitely.
	ErrMalformed = errors.New("malformed")

	// ErrUnsupported reports a command, an answer or a stop request of a version or kind that this build does not know.
	ErrUnsupported = errors.New("not supported by this build")

	// ErrBusy reports a session whose command is not acknowledged yet. A *BusyError wraps it and holds that command.
	ErrBusy = errors.New("session has another command")

	// ErrTooManyRuns reports a tenant with as many commands on the queue as it may have runs.
	ErrTooManyRuns = errors.New("tenant has too many runs")

	// ErrNoCommand reports a session without a command.
	ErrNoCommand = errors.New("session has no command")
)

// BusyError is ErrBusy with the existing command.
type BusyError struct {
	// Command is pending or running. If this build cannot read it, only Session and AgentType are set.
	Command Command

	// Revision is its position. Pass it to Request if the log shows that the run of Command has ended.
	Revision Revision

	// Unreadable is ErrUnsupported or ErrMalformed if this build cannot read Command, otherwise nil.
	Unreadable error
}

func (e *BusyError) Error() string {
	if e.Unreadable != nil {
		return fmt.Sprintf("%s: %v: %v", e.Command.Session, ErrBusy, e.Unreadable)
	}
	return fmt.Sprintf("%s: %v: %s", e.Command.Session, ErrBusy, e.Command.EventID())
}

// Is makes a BusyError an ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// Revision is the position of a command on the queue. The zero Revision means no command.
type Revision uint64

// Validate returns an error that names the invalid field.
func (c Command) Validate() error {
	if err := names.CheckSession(c.Session); err != nil {
		return err
	}
	if err := subjects.CheckToken("agent type", c.AgentType); err != nil {
		return err
	}
	if err := subjects.CheckToken("run", c.RunID); err != nil {
		return err
	}
	if err := c.checkMembers(); err != nil {
		return err
	}
	if err := c.checkParams(); err != nil {
		return err
	}
	if err := checkPrincipal(c.By); err != nil {
		return err
	}
	if c.Parent != nil {
		return c.Parent.validate()
	}
	return nil
}

// checkMembers checks the members that only some kinds have.
func (c Command) checkMembers() error {
	switch c.Kind {
	case Execute:
		if err := checkText("Mode", c.Mode, MaxID); err != nil {
			return err
		}
		return checkText("Replaces", c.Replaces, MaxID)
	case Resume:
		if err := subjects.CheckToken("resumed run", c.Resumes); err != nil {
			return err
		}
		if c.Resumes == c.RunID {
			return fmt.Errorf("run %q resumes itself, want a run of its own: %w", c.RunID, chunk.ErrInvalid)
		}
		return checkText("Mode", c.Mode, MaxID)
	case Abort:
		return checkText("Reason", c.Reason, MaxReason)
	case Expire:
		if c.Deadline.UnixMilli() <= 0 {
			return fmt.Errorf("Deadline is missing: %w", chunk.ErrInvalid)
		}
	default:
		return fmt.Errorf("kind %.80q: want %q, %q, %q or %q: %w", c.Kind, Execute, Resume, Abort, Expire, ErrUnsupported)
	}
	return nil
}

// checkParams rejects params that the log would reject with a marker around them.
func (c Command) checkParams() error {
	if len(c.Params) > MaxParams {
		return fmt.Errorf("Params has %d bytes, want at most %d: %w", len(c.Params), MaxParams, chunk.ErrTooLarge)
	}
	if c.Params.IsNull() {
		return nil
	}
	marker := append(append([]byte(`{"":{"":`), c.Params...), `}}`...)
	record := chunk.Chunk{AgentID: "a", AgentType: "a", Timestamp: 1, Body: chunk.Custom{EventName: "params", Data: marker}}
	if _, err := record.AppendJSON(nil); err != nil {
		return fmt.Errorf("Params: %w", err)
	}
	return nil
}

// MemberBy is the name of the member of ByMember. A client must not send it.
const MemberBy = "by"

// ByMember returns the member "by" of a record that shows the effect of a request, none if it is not known who made it. It is not part of the schema of these
// records, so a view hides it unless it shows all such members. The token id is not in it.
func ByMember(p *chunk.Principal) []chunk.Member {
	if p == nil {
		return nil
	}
	value, err := chunk.ValueOf(bodyPrincipal{Subject: p.Subject, Issuer: p.Issuer})
	if err != nil { // unreachable: the texts were checked
		return nil
	}
	return []chunk.Member{{Name: MemberBy, Value: value}}
}

// checkPrincipal rejects a principal that a run_started record could not have.
func checkPrincipal(p *chunk.Principal) error {
	if p == nil {
		return nil
	}
	if p.Subject == "" {
		return fmt.Errorf("By has no subject: %w", chunk.ErrInvalid)
	}
	if err := checkText("By", p.Subject, MaxID); err != nil {
		return err
	}
	if err := checkText("token id of By", p.TokenID, MaxID); err != nil || p.Issuer == nil {
		return err
	}
	return checkText("issuer of By", *p.Issuer, MaxID)
}

func (p *Parent) validate() error {
	if err := subjects.CheckID("parent's session", p.Session); err != nil {
		return err
	}
	if err := subjects.CheckToken("parent's agent type", p.AgentType); err != nil {
		return err
	}
	if err := subjects.CheckToken("parent's run", p.RunID); err != nil {
		return err
	}
	if p.CallID == "" {
		return fmt.Errorf("parent's call is missing: %w", chunk.ErrInvalid)
	}
	if err := checkText("parent's call", p.CallID, MaxID); err != nil {
		return err
	}
	return checkText("parent's tool name", p.ToolName, MaxID)
}

// checkText rejects text that JSON does not preserve: two ids that differ only in invalid UTF-8 would become equal.
func checkText(field, s string, maxBytes int) error {
	if len(s) > maxBytes {
		return fmt.Errorf("%s has %d bytes, want at most %d: %w", field, len(s), maxBytes, chunk.ErrInvalid)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %.80q: want UTF-8: %w", field, s, chunk.ErrInvalid)
	}
	return nil
}

// EventID is unique within the session: one run is executed or resumed once, may be aborted once, and has one Expire for each deadline.
func (c Command) EventID() string {
	id := string(c.Kind) + "/" + c.RunID
	if c.Kind == Expire {
		id += fmt.Sprintf("/%d", c.Deadline.UnixMilli())
	}
	return id
}

// ID is unique in the stream, whose duplicate window compares it. Its parts hold no slash, so no two commands share one.
func (c Command) ID() string {
	return c.Session.Tenant + "/" + url.PathEscape(c.Session.ID) + "/" + c.EventID()
}
