package observe

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
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

	// Price returns the cost of a step by a price list, and its currency; false without a price. Nil has no prices. It must be a pure function.
	Price func(Priced) (row.Money, string, bool)

	// Memory is the most bytes of state that the Folder keeps, by estimate. Defaults to 64 MiB. The tree of the last record is kept in any case.
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
	record // the one that is being appended

	cfg    Config
	trees  map[chunk.Session]*list.Element // of *tree
	recent *list.List                      // the tree that was used last is at the front
	bytes  int                             // of all trees
}

// New returns a Folder.
func New(cfg Config) *Folder {
	cfg.Memory = cmp.Or(cfg.Memory, 64<<20)
	return &Folder{cfg: cfg, trees: map[chunk.Session]*list.Element{}, recent: list.New()}
}

// Missing reports whether the earlier records of the tree of rec must be loaded before rec is appended.
func (f *Folder) Missing(rec chunk.Record) bool {
	return f.isUnknown(rec) && !f.addsNoRow(rec)
}

func (f *Folder) isUnknown(rec chunk.Record) bool {
	return f.trees[rec.Session.Tree()] == nil && (rec.Ordinal > 1 || !rec.Session.IsRoot())
}

// addsNoRow reports whether rec is a piece of a text that has no row. It only changes the state of its tree, so it is not appended to a tree that is not in memory: when the tree
// is loaded, for a later record, this one is loaded too.
func (f *Folder) addsNoRow(rec chunk.Record) bool {
	f.record = record{cfg: &f.cfg, rec: rec}
	return !f.cfg.Deltas && f.isPiece()
}

// Load begins a tree whose state is not in memory; the caller then appends its records with a nil batch, in the order of the log.
func (f *Folder) Load(root chunk.Session) { f.treeOf(root) }

// Append adds the rows of the next record of the partition to b. Records of a tree that Load has begun are appended with a nil batch, which adds no rows.
func (f *Folder) Append(b *row.Batch, rec chunk.Record) {
	if f.isUnknown(rec) && f.addsNoRow(rec) {
		return
	}
	t := f.treeOf(rec.Session)
	s := t.session(f, rec.Session)
	f.record = record{cfg: &f.cfg, b: b, rec: rec, tree: t}
	from := 0
	if b != nil {
		from = len(b.Observations)
	}
	if s.restarts(rec) {
		f.restart(s)
	}
	fenced := rec.Epoch < s.epoch
	if fenced {
		s.fenced = max(s.fenced, rec.Ordinal)
	} else {
		s.accept(rec)
		f.apply(s)
	}
	if b != nil {
		f.event(s, fenced)
	}
	f.account(s)
	if b != nil {
		b.Observations = newest(b.Observations, from)
	}
}

// newest leaves out the rows from an index on, those of one record, that a later one of the same observation replaces: of two rows with one sequence, no reader could know
// which one counts.
func newest(rows []row.Observation, from int) []row.Observation {
	if len(rows)-from < 2 {
		return rows
	}
	last := make(map[string]int, len(rows)-from)
	for i := from; i < len(rows); i++ {
		last[rows[i].ID] = i
	}
	left := rows[:from]
	for i := from; i < len(rows); i++ {
		if last[rows[i].ID] == i {
			left = append(left, rows[i])
		}
	}
	return left
}

// apply changes the state of s by the present record.
func (f *Folder) apply(s *session) {
	if f.rec.Type == chunk.TypeTextDelta {
		s.addText()
		return
	}
	e, ok := f.entry(s)
	if !ok {
		return
	}
	switch b := e.body.(type) {
	case chunk.Truncated:
		s.remove(b)
	case chunk.StreamFailed:
		if b.ErrorDetail.IsDeletion() {
			f.deleted(s)
			return
		}
		s.push(e)
	default:
		s.push(e)
	}
}

// deleted writes that the rows of the session are erased, and forgets it: with the root, the whole tree.
func (f *Folder) deleted(s *session) {
	f.gap(row.Gap{Reason: row.Deleted, ToSeq: new(int64(f.rec.Seq))})
	last, epoch, loaded := s.last, s.epoch, s.loaded
	s.reset()
	s.last, s.epoch, s.loaded = last, epoch, loaded
	if s.key.IsRoot() {
		f.forgetOthers(s)
	}
}

// restart writes what has not ended in a session that begins again, and forgets it: with the root, the whole tree.
func (f *Folder) restart(s *session) {
	s.forgetOpen()
	s.reset()
	if !s.key.IsRoot() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(f.tree.sessions)) {
		f.tree.sessions[id].forgetOpen()
	}
	f.forgetOthers(s)
}

// treeOf returns the state of the tree of a session, which is empty for one that is not known.
func (f *Folder) treeOf(of chunk.Session) *tree {
	root := of.Tree()
	if e := f.trees[root]; e != nil {
		f.recent.MoveToFront(e)
		t, _ := e.Value.(*tree)
		return t
	}
	t := newTree(root)
	f.trees[root] = f.recent.PushFront(t)
	return t
}

// Forget forgets the state of a tree.
func (f *Folder) Forget(root chunk.Session) {
	if e := f.trees[root]; e != nil {
		t, _ := f.recent.Remove(e).(*tree)
		delete(f.trees, root)
		f.bytes -= t.bytes
	}
}

// State returns the number of trees in memory and their bytes, by estimate.
func (f *Folder) State() (trees, bytes int) { return len(f.trees), f.bytes }
