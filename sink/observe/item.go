package observe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// item is a run, a step, a call or a wait.
type item struct {
	id      string
	row     *row.Observation // nil when it is final and written: only a cleanup changes it, which computes it again
	in, out *value
	sig     uint64 // of the entries that have changed it
	written uint64 // sig when its row was written, 0 before: with equal ones the rows are equal
	version int    // see session
	final   bool   // no later record changes it

	run  *runState
	step *stepState
	call *callState
}

// ref names an item of a session by its number from 1. 0 is none.
type ref int

// at returns an item, nil for none.
func (s *session) at(r ref) *item {
	if n := int(r) - 1 - s.first; n >= 0 && n < len(s.items) {
		return s.items[n]
	}
	return nil
}

// edit returns an item that the present entry changes.
func (s *session) edit(r ref) *item {
	it := s.own(r)
	it.sign(uint64(s.e.ordinal))
	return it
}

// own returns an item that no earlier state shares.
func (s *session) own(r ref) *item {
	it := s.at(r)
	if it.version != s.version {
		it = it.clone()
		it.version = s.version
		s.items[int(r)-1-s.first] = it
	}
	return it
}

// retire releases the run before another one.
func (s *session) retire(r ref) {
	if s.at(r) != nil {
		s.release(s.own(r))
	}
}

func (it *item) clone() *item {
	c := *it
	if c.row != nil {
		c.row = new(*it.row)
	}
	switch {
	case c.run != nil:
		c.run = new(*it.run)
	case c.step != nil:
		c.step = new(*it.step)
	case c.call != nil:
		c.call = new(*it.call)
	}
	return &c
}

func (it *item) sign(n uint64) {
	const prime = 1099511628211 // of FNV-1a
	it.sig = (it.sig ^ n) * prime
}

// add adds an item that begins with the present entry.
func (s *session) add(kind row.Kind, typ, name, call string) (ref, *item) {
	e := s.e
	o := &row.Observation{
		Place: row.Place{Session: row.Text(s.key.ID)},
		ID:    idOf(s.key, string(kind), e, call), TraceID: s.traceID, Kind: kind, Type: typ, Name: row.Text(name), Status: row.Running, Level: levelDefault,
		StartTime: e.at, SessionID: row.Text(s.key.Root), AgentType: s.agentType, TurnID: s.turnID, Step: e.step, Depth: s.parent.depth,
		ParentSession: s.parent.session, ParentCallID: s.parent.call, FirstSeq: int64(e.seq), FirstOrdinal: int64(e.ordinal), LastOrdinal: int64(e.ordinal),
		Incomplete: s.incomplete, Metadata: e.meta,
	}
	o.SpanID = o.ID[:16]
	if s.owner != nil {
		o.UserID, o.UserIssuer = row.Text(s.owner.Subject), textOf(s.owner.Issuer)
	}
	if run := s.at(s.run); run != nil {
		o.RunID = run.row.RunID
	}
	it := &item{id: o.ID, row: o, version: s.version}
	it.sign(uint64(e.ordinal))
	s.items = append(s.items, it)
	s.live++
	return ref(s.first + len(s.items)), it
}

// The values of Observation.Level.
const (
	levelDefault = "DEFAULT"
	levelError   = "ERROR"
)

// idOf returns 32 hex digits that name what begins with an entry, in every reader and also after the log was restored.
func idOf(s chunk.Session, what string, e *entry, call string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n%d\n%d\n%s", s.Tenant, s.Root, s.ID, what, e.ordinal, e.anchor, call))
	return hex.EncodeToString(sum[:16])
}

// write writes the present version of a row.
func (s *session) write(it *item) {
	it.written = it.sig
	it.row.LastOrdinal = int64(s.e.ordinal)
	if !s.quiet {
		s.f.emit(it)
	}
}

// emit adds a row to the batch.
func (f *Folder) emit(it *item) {
	if f.b == nil {
		return
	}
	o := *it.row
	o.Place = f.place()
	o.Session = it.row.Session // the record may be one of another session of the tree
	if v := it.in; v != nil {
		o.Input, o.InputBytes = v.json, new(int64(v.size))
		o.ContentTruncated = v.cut
	}
	if v := it.out; v != nil {
		o.Output, o.OutputBytes = v.json, new(int64(v.size))
		o.ContentTruncated = o.ContentTruncated || v.cut
	}
	f.b.Observations = append(f.b.Observations, o)
}

// end sets the end of a row to the time of the present entry.
func (s *session) end(it *item, status row.Status) {
	at, o := s.e.at, it.row
	o.Status, o.EndTime, o.DurationMS = status, &at, nil
	if d := at.Sub(o.StartTime).Milliseconds(); d >= 0 {
		o.DurationMS = &d
	}
}

// finish writes the row of an item that no later record changes.
func (s *session) finish(it *item) {
	s.write(it)
	s.release(it)
}

// release forgets the row of an item that no later record changes.
func (s *session) release(it *item) {
	it.final = true
	if !s.quiet && it.row != nil {
		it.row, it.in, it.out = nil, nil, nil
		s.live--
	}
}

// fail sets the error of a row. The text is what the view shows of it.
func fail(o *row.Observation, text, code string) {
	o.Level, o.StatusMessage, o.ErrorCode = levelError, row.Text(text), row.Text(code)
}

func textOf(s *string) string { return row.Text(orEmpty(s)) }
