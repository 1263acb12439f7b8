package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// session is the state of a session.
type session struct {
	key        chunk.Session
	last       chunk.Ordinal
	epoch      chunk.Epoch // highest
	incomplete bool        // its beginning has left the log
	bytes      int         // of the state, see account

	turn            int // number of turns so far
	turnID, traceID string
	owner           *chunk.Principal // the client that requested the present run, or the run of the root
	parent          parent
	agentType       string

	run   *run // the present one, or the last one
	calls map[string]*call
}

func newSession(key chunk.Session) *session { return &session{key: key, calls: map[string]*call{}} }

// reset forgets everything but what account needs.
func (s *session) reset() {
	bytes := s.bytes
	*s = *newSession(s.key)
	s.bytes = bytes
}

// parent is the call that a sub-agent runs for.
type parent struct {
	session, call string
	id, spanID    string // of the row of the call, "" if it is not known
	depth         int64  // of the sub-agent
}

// restarts reports whether the session begins again: its earlier records were deleted, or have expired before a writer that did not know them.
func (s *session) restarts(rec chunk.Record) bool {
	return s.last > 0 && rec.Ordinal <= s.last && (rec.Ordinal == 1 || rec.Type == chunk.TypeRunStarted || rec.Epoch > s.epoch)
}

// accept makes rec the last record.
func (s *session) accept(rec chunk.Record) {
	if s.last == 0 && rec.Ordinal > 1 {
		s.incomplete = true
	}
	s.last, s.epoch = rec.Ordinal, max(s.epoch, rec.Epoch)
}

// size estimates the bytes of s.
func (s *session) size() int {
	const perSession, perCall, perRun, perMark = 600, 1500, 1500, 100
	n := perSession + len(s.calls)*perCall
	for _, c := range s.calls {
		n += len(c.row.Input) + len(c.row.Output)
	}
	if s.run != nil {
		n += perRun + len(s.run.marks)*perMark + len(s.run.row.Input) + len(s.run.row.Output) + len(s.run.text.bytes) + s.run.final.bytes()
		if s.run.step != nil {
			n += perRun + len(s.run.step.text.bytes) + len(s.run.step.calls)*perMark
		}
	}
	return n
}

// newRow returns the row of something that begins with the present record.
func (f *Folder) newRow(s *session, kind row.Kind, typ, name, call string) row.Observation {
	id := f.id(kind, call)
	o := row.Observation{
		ID: id, SpanID: id[:16], TraceID: s.traceID, Kind: kind, Type: typ, Name: row.Text(name), Level: levelDefault, StartTime: f.time(),
		SessionID: row.Text(s.key.Root), AgentType: s.agentType, TurnID: s.turnID, Step: f.c.Step, Depth: s.parent.depth,
		ParentSession: s.parent.session, ParentCallID: s.parent.call,
		FirstSeq: int64(f.rec.Seq), FirstOrdinal: int64(f.rec.Ordinal), Incomplete: s.incomplete,
	}
	if s.owner != nil {
		o.UserID = row.Text(s.owner.Subject)
		if s.owner.Issuer != nil {
			o.UserIssuer = row.Text(*s.owner.Issuer)
		}
	}
	if s.run != nil {
		o.RunID = s.run.row.RunID
	}
	return o
}

// The values of Observation.Level.
const (
	levelDefault = "DEFAULT"
	levelError   = "ERROR"
)

// id returns the id of something that begins with the present record: 32 hex digits.
func (f *Folder) id(kind row.Kind, call string) string {
	return hashOf(string(kind), f.rec, call)
}

// hashOf returns 32 hex digits that name a record, in every reader and also after the log was restored.
func hashOf(what string, rec chunk.Record, call string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%d\n%d\n%s", rec.Session.Tenant, rec.Session.Root, rec.Session.ID, what, rec.Ordinal, rec.Anchor(), call))
	return hex.EncodeToString(sum[:16])
}

// emit adds the present version of a row.
func (f *Folder) emit(o *row.Observation) {
	o.Place, o.LastOrdinal = f.place, int64(f.rec.Ordinal)
	f.b.Observations = append(f.b.Observations, *o)
}

// end sets the end of a row to the time of the present record.
func (f *Folder) end(o *row.Observation, status row.Status) {
	at := f.time()
	o.Status, o.EndTime, o.DurationMS = status, &at, nil
	if d := at.Sub(o.StartTime).Milliseconds(); d >= 0 {
		o.DurationMS = &d
	}
}

// fail sets the error of a row. The text is what the view shows of it.
func fail(o *row.Observation, text, code string) {
	o.Level, o.StatusMessage, o.ErrorCode = levelError, row.Text(text), row.Text(code)
}

// forgetOpen writes what has not ended as unknown: its records have left the log.
func (f *Folder) forgetOpen(s *session) {
	for _, c := range s.openCalls() {
		f.endCall(c, row.Unknown)
	}
	f.endStep(s, row.Unknown)
	if s.run != nil && !s.run.ended {
		f.endRun(s, row.Unknown)
	}
}
