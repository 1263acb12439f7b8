package chunk

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrInvalid reports a chunk that does not match the schema. A *FieldError wraps it and names the field. Nothing was stored.
	ErrInvalid = errors.New("chunk is not valid")

	// ErrTooLarge reports a chunk over the size limit. Nothing was sent.
	ErrTooLarge = errors.New("chunk is too large")

	// ErrUnknownSession reports a session without records in the log.
	ErrUnknownSession = errors.New("no such session")

	// ErrUnknownCheckpoint reports a checkpoint that no record of the session contains.
	ErrUnknownCheckpoint = errors.New("no such checkpoint")

	// ErrUnknownMessage reports the id of a message that the conversation does not have.
	ErrUnknownMessage = errors.New("no such message")

	// ErrUnknownValue reports a large value that its session does not have: it was deleted with the session, or never stored.
	ErrUnknownValue = errors.New("no such value")

	// ErrTruncated reports that the log does not contain all requested records. A *TruncatedError wraps it and has the reason. Start again from a snapshot.
	ErrTruncated = errors.New("part of the session is not in the log")

	// ErrFailed reports that the stream ended in failure. Everything before it was delivered, and the record stream_failed too.
	ErrFailed = errors.New("stream failed")

	// ErrFenced reports that a newer writer has fenced this one. None of its later writes is stored; it must stop.
	ErrFenced = errors.New("fenced by a newer writer")

	// ErrNotStored reports a write that is certainly not in the log.
	ErrNotStored = errors.New("not stored")

	// ErrNoStorage reports that the server cannot store messages: a limit of the stream, of the account or of the server is reached, its disk is full, or it
	// cannot write its files. It is the cause of an ErrNotStored or ErrUnknownOutcome. Reads are not affected.
	ErrNoStorage = errors.New("no storage for messages")

	// ErrNotPermitted reports that the NATS user of the process lacks a permission, which the text of the error names. A retry fails until the server has it.
	ErrNotPermitted = errors.New("not permitted to the NATS user")

	// ErrUnknownOutcome reports a write that may or may not be in the log: the server did not respond in time.
	ErrUnknownOutcome = errors.New("write outcome unknown")
)

// FieldError reports an invalid member of a chunk. It is ErrInvalid.
type FieldError struct {
	Type  Type   // type of the chunk, "" if the type is missing
	Field string // JSON pointer without the leading slash, e.g. "errorDetail/message"
	Want  string // what was expected, e.g. "a string"
	Got   string // what was found, e.g. "a number"; "" if the member is missing
}

func (e *FieldError) Error() string {
	where := cmp.Or(string(e.Type), "chunk")
	if e.Field != "" {
		where += "." + printable(e.Field)
	}
	if e.Got == "" {
		return fmt.Sprintf("%s: want %s", where, e.Want)
	}
	return fmt.Sprintf("%s: want %s, got %s", where, e.Want, e.Got)
}

// printable quotes a path whose names could break a log line.
func printable(path string) string {
	plain := func(r rune) bool { return r > ' ' && r < 0x7F && r != '"' }
	if strings.ContainsFunc(path, func(r rune) bool { return !plain(r) }) {
		return strconv.QuoteToASCII(path)
	}
	return path
}

// Is makes a FieldError an ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

// TruncationReason is the reason why a position cannot be served.
type TruncationReason string

// The reasons of a TruncatedError.
const (
	TruncatedExpired      TruncationReason = "expired"   // before the first sequence: removed by age, limits or a purge
	TruncatedFuture       TruncationReason = "future"    // beyond the end of the log
	TruncatedWrongSession TruncationReason = "foreign"   // the position belongs to another session
	TruncatedRecreated    TruncationReason = "recreated" // the stream was deleted and recreated
	TruncatedCleanup      TruncationReason = "cleanup"   // a cleanup removed records ahead of the reader
	TruncatedGap          TruncationReason = "gap"       // records are missing in the middle
)

// TruncatedError is ErrTruncated with its reason. The iterator that yields it has yielded everything up to After and nothing later.
type TruncatedError struct {
	Session       Session
	Reason        TruncationReason
	After         Seq  // last position of the reader
	FirstSeq      Seq  // first sequence that is still there, 0 if unknown
	Step          *int // truncatedAtStep of a cleanup, nil otherwise
	HighWatermark Seq  // high-water mark of a cleanup, 0 otherwise
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("session %s after %d: %s: %v", e.Session, e.After, e.Reason, ErrTruncated)
}

// Is makes a TruncatedError an ErrTruncated.
func (e *TruncatedError) Is(target error) bool { return target == ErrTruncated }
