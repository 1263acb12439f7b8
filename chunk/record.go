package chunk

import (
	"strconv"
	"strings"
	"time"

	"github.com/tailrace/tailrace/internal/idtoken"
)

// Session names one log. A root session has Root == ID; the session of a sub-agent has the ID of its root in Root.
type Session struct {
	Tenant string
	Root   string
	ID     string
}

// RootSession is the session of a root agent.
func RootSession(tenant, id string) Session { return Session{Tenant: tenant, Root: id, ID: id} }

// Child is the session of a sub-agent of the same root.
func (s Session) Child(id string) Session { return Session{Tenant: s.Tenant, Root: s.Root, ID: id} }

// IsRoot reports whether s is the session of a root agent.
func (s Session) IsRoot() bool { return s.Root == s.ID }

// Tree is the root of s: the scope that holds s and all sub-agents beside it.
func (s Session) Tree() Session { return Session{Tenant: s.Tenant, Root: s.Root, ID: s.Root} }

// String is the CloudEvents source of the session: /tenant/root/session, with the tokens that its subject has.
func (s Session) String() string {
	return "/" + s.Tenant + "/" + idtoken.Of(s.Root) + "/" + idtoken.Of(s.ID)
}

// Seq is a JetStream stream sequence: the number of a Cursor and the position of a snapshot. Within a session it rises, with gaps. The zero Seq is before the
// first record.
type Seq uint64

// Tip is the end of a stream.
type Tip struct {
	Seq Seq // the last sequence, 0 when the stream is empty

	// StreamEpoch identifies the history of the stream: 11 to 16 lower-case letters and digits, which change when the stream is deleted and recreated, or
	// restored from a backup with `tailrace epoch --new`. A copy of the whole history has the same one. A Seq is valid in one history only.
	StreamEpoch string
}

// Ordinal is the number of a record in its session: 1, 2, 3 …, assigned by the session's one writer. It is not a cursor: a reader that has received 1..N
// without a gap has missed no record.
type Ordinal uint64

// Epoch is the fence of a writer. Each run, and each takeover of a run, has a higher epoch than the one before.
type Epoch uint64

// Position is a place in one session. With an Ordinal it can be proved against what follows; a Position with Ordinal 0 and a Seq is a bare cursor that must be
// verified against the log first. The zero Position is before the first record.
type Position struct {
	Seq     Seq
	Ordinal Ordinal
}

// Before returns the position directly before the record at p: the After of a Range that begins with that record. It is the zero position before the first record
// of a session, because a position without an ordinal must be that of a record.
func (p Position) Before() Position {
	if p.Ordinal <= 1 {
		return Position{}
	}
	return Position{Seq: p.Seq - 1, Ordinal: p.Ordinal - 1}
}

// Range selects records of the log: those of one session, or of a tree, between two positions. The zero fields are the whole session up to the present end.
// A method that does not support a field returns an error if it is set.
type Range struct {
	Session Session

	// Tree selects the records of the whole tree that Session belongs to: its root and all sub-agents, merged in the order of the stream. One sequence is
	// a cursor for the whole tree, so After has no Ordinal then.
	Tree bool

	// After is the position before the first record that is selected.
	After Position

	// Anchor is that of the record at After, 0 if it is unknown. If the log has another record there, the range is a *TruncatedError with the reason
	// "recreated".
	Anchor Anchor

	// Through is the last sequence that is selected; the records end before it if the log does. 0 is the present end.
	Through Seq

	// FromOldest begins at the first record after After that the log still has, whatever is missing in between. Without it, a session whose beginning has
	// expired is a *TruncatedError before any record, and so is a position at the edge of a gap.
	FromOldest bool

	// AllowCleanup is for a reader that had the record at After while the log had it: a cleanup may remove that record, and records of the range while they are
	// read. The truncation record that names them follows. Without it, both are a *TruncatedError with the reason "cleanup".
	AllowCleanup bool

	// KeepOpen lets a reader that follows the log continue after a terminal record, also of a failure, and wait for the next run of the session.
	KeepOpen bool
}

// EventID is the ce-id of a record: "<epoch>-<ordinal>". Together with the source (the session) it is unique, as CloudEvents asks.
func EventID(e Epoch, o Ordinal) string {
	b := make([]byte, 0, 24)
	b = strconv.AppendUint(b, uint64(e), 10)
	b = append(b, '-')
	b = strconv.AppendUint(b, uint64(o), 10)
	return string(b)
}

// ParseEventID reads what EventID wrote. Epoch and ordinal start at 1 and are written without leading zeros, so that one record has one id.
func ParseEventID(s string) (Epoch, Ordinal, bool) {
	es, os, ok := strings.Cut(s, "-")
	if !ok {
		return 0, 0, false
	}
	e, ok1 := parsePositive(es)
	o, ok2 := parsePositive(os)
	return Epoch(e), Ordinal(o), ok1 && ok2
}

func parsePositive(s string) (uint64, bool) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// Record is a chunk at its position in the log. Data is the body as JSON, byte for byte as stored if the producer wrote JSON. Do not modify Data. Decode
// reads it.
type Record struct {
	Seq      Seq
	Session  Session
	Epoch    Epoch
	Ordinal  Ordinal
	Type     Type
	StoredAt time.Time // when JetStream stored it
	Data     []byte

	// SessionBytes is the size of the stored bodies of all records of the session up to this one, as its writers count it from one record to the next: also of
	// those that a cleanup has removed. 0 is unknown.
	SessionBytes int64
}

// Position of the record in its session.
func (r Record) Position() Position { return Position{Seq: r.Seq, Ordinal: r.Ordinal} }

// Decode reads the chunk in r.Data.
func (r Record) Decode() (Chunk, error) { return Decode(r.Data) }

// IsDeletion reports whether r is the last record of a deleted session, see CodeSessionDeleted.
func (r Record) IsDeletion() bool {
	if r.Type != TypeStreamFailed {
		return false
	}
	b, _ := BodyOf[StreamFailed](r)
	return b.ErrorDetail.IsDeletion()
}

// Scope says how much of a tree a reader wants.
type Scope int

// The scopes. The zero Scope is the tree, as agents' readers expect.
const (
	ScopeTree    Scope = iota // a root session and all its sub-agents
	ScopeSession              // one session alone
)
