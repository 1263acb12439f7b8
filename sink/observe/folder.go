package observe

import (
	"cmp"
	"container/list"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// Config shapes a Folder.
type Config struct {
	// Position is where the records begin: its partition and history are in each row.
	Position row.Position

	// Show returns what the view of the sink shows of a record, and false for a record without content. Nil shows everything.
	Show func(chunk.Record) (chunk.Record, bool)

	// Deltas adds the pieces of text, reasoning and arguments to the rows of events.
	Deltas bool

	// Price returns the cost of a step by a price list, and its currency; false without a price. Nil has no prices.
	Price func(Priced) (row.Money, string, bool)

	// Memory is the most bytes of state that the Folder keeps, by estimate. Defaults to 64 MiB.
	Memory int
}

// Priced is what the price of a step depends on.
type Priced struct {
	Model, Provider string
	At              time.Time // end of the step
	Input, Output   int64     // tokens; Input includes Cached and Written
	Cached, Written int64
}

// Folder folds the records of one partition in the order of the log. It has one owner.
type Folder struct {
	cfg      Config
	sessions map[chunk.Session]*list.Element // of *session
	recent   *list.List                      // the session that was used last is at the front
	bytes    int                             // of all sessions

	// of the record that is being appended:
	b     *row.Batch
	rec   chunk.Record
	place row.Place
	c     chunk.Chunk
	shown *chunk.Chunk // nil: nothing is shown, or it is not decoded yet
	asked bool         // shown is decoded
}

// New returns a Folder.
func New(cfg Config) *Folder {
	cfg.Memory = cmp.Or(cfg.Memory, 64<<20)
	return &Folder{cfg: cfg, sessions: map[chunk.Session]*list.Element{}, recent: list.New()}
}

// Missing returns a session whose earlier records must be loaded before rec is appended: that of rec, or the one of a parent.
func (f *Folder) Missing(rec chunk.Record) (chunk.Session, bool) {
	if f.sessions[rec.Session] == nil && rec.Ordinal > 1 {
		return rec.Session, true
	}
	if rec.Type != chunk.TypeRunStarted || rec.Session.IsRoot() {
		return chunk.Session{}, false
	}
	b, ok := chunk.BodyOf[chunk.RunStarted](rec)
	if !ok || b.Parent == nil {
		return chunk.Session{}, false
	}
	parent := rec.Session.Child(b.Parent.SessionID)
	return parent, f.sessions[parent] == nil
}

// Load begins a session whose state is not in memory; the caller then appends its records with a nil batch, in their order. Those of the session
// before them have expired if the first of them is not the first of the session.
func (f *Folder) Load(s chunk.Session) { f.session(s) }

// Append adds the rows of the next record of the partition to b. Records of sessions that Load has begun are appended with a nil batch, which adds no rows.
func (f *Folder) Append(b *row.Batch, rec chunk.Record) {
	if b == nil {
		b = &row.Batch{}
	}
	s := f.session(rec.Session)
	f.b, f.rec, f.place, f.c, f.shown, f.asked = b, rec, row.PlaceOf(f.cfg.Position, rec), chunk.Chunk{}, nil, false
	defer f.account(s)
	if s.restarts(rec) {
		f.forgetOpen(s)
		*s = session{key: s.key, calls: map[string]*call{}}
	}
	fenced := rec.Epoch < s.epoch
	if !fenced {
		s.accept(rec)
		f.apply(s)
	}
	f.event(s, fenced)
}

// isPiece reports whether a record is a piece of a text, whose number is a multiple of that of all other records.
func isPiece(t chunk.Type) bool {
	return t == chunk.TypeTextDelta || t == chunk.TypeThinking || t == chunk.TypeToolArgStreamDelta
}

// decode reads the chunk, and reports whether it is valid.
func (f *Folder) decode() bool {
	if f.c.Body == nil {
		c, err := f.rec.Decode()
		if err != nil || c.Type() != f.rec.Type {
			return false
		}
		f.c = c
	}
	return true
}

// content returns what the view shows of the record, nil for nothing.
func (f *Folder) content() *chunk.Chunk {
	switch {
	case f.asked:
	case f.cfg.Show == nil:
		if f.decode() {
			f.shown = &f.c
		}
	default:
		if rec, ok := f.cfg.Show(f.rec); ok {
			if c, err := rec.Decode(); err == nil {
				f.shown = &c
			}
		}
	}
	f.asked = true
	return f.shown
}

// shownBody returns the body of what the view shows.
func shownBody[T chunk.Body](f *Folder) (T, bool) {
	if c := f.content(); c != nil {
		return chunk.As[T](*c)
	}
	var zero T
	return zero, false
}

// time returns when the record was written, by the clock of its writer.
func (f *Folder) time() time.Time {
	if f.decode() && f.c.Timestamp > 0 {
		return time.UnixMilli(f.c.Timestamp).UTC()
	}
	return f.rec.StoredAt.UTC()
}

// event adds the row of the record.
func (f *Folder) event(s *session, fenced bool) {
	if isPiece(f.rec.Type) && !f.cfg.Deltas {
		f.decode()
		if b, ok := chunk.As[chunk.Thinking](f.c); !ok || !b.IsComplete {
			return
		}
	}
	e := row.Event{
		Place: f.place, Epoch: int64(f.rec.Epoch), Ordinal: int64(f.rec.Ordinal), Type: row.Text(string(f.rec.Type)), Time: f.time(),
		Fenced: fenced, Bytes: int64(len(f.rec.Data)), TurnID: s.turnID, TraceID: s.traceID,
	}
	if f.decode() {
		e.AgentType, e.Step = row.Text(f.c.AgentType), f.c.Step
	}
	if s.run != nil {
		e.RunID = s.run.row.RunID
	}
	if f.cfg.Show == nil {
		e.Body = row.JSON(f.rec.Data)
	} else if shown, ok := f.cfg.Show(f.rec); ok {
		e.Body = row.JSON(shown.Data)
	}
	f.b.Events = append(f.b.Events, e)
}

// session returns the state of a session, which is empty for one that is not known.
func (f *Folder) session(key chunk.Session) *session {
	if e := f.sessions[key]; e != nil {
		f.recent.MoveToFront(e)
		s, _ := e.Value.(*session)
		return s
	}
	s := &session{key: key, calls: map[string]*call{}}
	f.sessions[key] = f.recent.PushFront(s)
	return s
}

// parentOf returns the state of the session with this id in the same tree, nil if it is not in memory.
func (f *Folder) parentOf(key chunk.Session, id string) *session {
	if e := f.sessions[key.Child(id)]; e != nil {
		s, _ := e.Value.(*session)
		return s
	}
	return nil
}

// account updates the bytes of a session, and forgets the sessions that were used least recently if there are too many bytes.
func (f *Folder) account(s *session) {
	f.bytes += s.size() - s.bytes
	s.bytes = s.size()
	for f.bytes > f.cfg.Memory && f.recent.Len() > 1 {
		oldest := f.recent.Back()
		f.recent.Remove(oldest)
		was, _ := oldest.Value.(*session)
		delete(f.sessions, was.key)
		f.bytes -= was.bytes
	}
}

// Sessions returns the number of sessions in memory and their bytes, by estimate.
func (f *Folder) Sessions() (n, bytes int) { return len(f.sessions), f.bytes }
