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
	cfg    Config
	trees  map[chunk.Session]*list.Element // of *tree
	recent *list.List                      // the tree that was used last is at the front
	bytes  int                             // of all trees

	// of the record that is being appended:
	t     *tree
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
	return &Folder{cfg: cfg, trees: map[chunk.Session]*list.Element{}, recent: list.New()}
}

// tree is the state of a root session and its sub-agents. They are kept together, because the row of a sub-agent's run names the call of its parent.
type tree struct {
	root     chunk.Session
	sessions map[string]*session
	bytes    int
}

// Missing reports whether the earlier records of the tree of rec must be loaded before rec is appended.
func (f *Folder) Missing(rec chunk.Record) bool {
	return f.trees[rec.Session.Tree()] == nil && (rec.Ordinal > 1 || !rec.Session.IsRoot())
}

// Load begins a tree whose state is not in memory; the caller then appends its records with a nil batch, in the order of the log.
func (f *Folder) Load(root chunk.Session) { f.tree(root) }

// Append adds the rows of the next record of the partition to b. Records of a tree that Load has begun are appended with a nil batch, which adds no rows.
func (f *Folder) Append(b *row.Batch, rec chunk.Record) {
	if b == nil {
		b = &row.Batch{}
	}
	t := f.tree(rec.Session)
	s := t.session(rec.Session)
	f.b, f.rec, f.place, f.c, f.shown, f.asked = b, rec, row.PlaceOf(f.cfg.Position, rec), chunk.Chunk{}, nil, false
	f.t = t
	defer f.account(s)
	if s.restarts(rec) {
		f.forgetOpen(s)
		s.reset()
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

// tree returns the state of the tree of a session, which is empty for one that is not known.
func (f *Folder) tree(of chunk.Session) *tree {
	root := of.Tree()
	if e := f.trees[root]; e != nil {
		f.recent.MoveToFront(e)
		t, _ := e.Value.(*tree)
		return t
	}
	t := &tree{root: root, sessions: map[string]*session{}}
	f.trees[root] = f.recent.PushFront(t)
	return t
}

func (t *tree) session(key chunk.Session) *session {
	s := t.sessions[key.ID]
	if s == nil {
		s = newSession(key)
		t.sessions[key.ID] = s
	}
	return s
}

// account updates the bytes of a session, and forgets the trees that were used least recently if there are too many bytes.
func (f *Folder) account(s *session) {
	more := s.size() - s.bytes
	s.bytes += more
	f.t.bytes += more
	f.bytes += more
	for f.bytes > f.cfg.Memory && f.recent.Len() > 1 {
		was, _ := f.recent.Remove(f.recent.Back()).(*tree)
		delete(f.trees, was.root)
		f.bytes -= was.bytes
	}
}

// State returns the number of trees in memory and their bytes, by estimate.
func (f *Folder) State() (trees, bytes int) { return len(f.trees), f.bytes }
