package hub

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// topic is what memory holds of one root in one encoding: segments of the tree, the last of
// which the feed fills, and segments of single sessions that were read for those
// who asked for no more.
type topic struct {
	part     *partition
	root     chunk.Session
	encoding string
	encode   Encode
	from     chunk.Seq // the feed brings everything behind this
	stream   int       // which one, as the partition counts …
	epoch    string    // … and as the log names it

	watchers int       // guarded by part.mu
	idle     time.Time // guarded by part.mu: when the last watcher left

	mu      sync.Mutex // guards everything below
	tree    []*segment // by from, not overlapping; the last one is open
	pages   map[string][]*segment
	ids     []string // sessions of the tree, by index; append only, never changed
	members []member // what is known of them, by the same index
	index   map[string]uint32
	kinds   []chunk.Type // types that were seen, by index; append only
	kindOf  map[chunk.Type]uint16
	newest  time.Time                // when the log stored the last record that the feed brought
	wake    chan struct{}            // closed at the next change; nil while nobody waits
	reads   map[string]*read         // pages being read, by shelf
	asking  map[string]chan struct{} // last records being asked for, by session
	vouched map[chunk.Seq]struct{}   // frames whose predecessor is not known here but was found in the log
	era     int                      // rises when memory is dropped because it may not agree with the log
	gone    error                    // why the topic was dropped
}

// member is one session of the tree.
type member struct {
	fed   chunk.Position // the last record that the feed brought, zero when there was none
	epoch chunk.Epoch    // the highest that was seen
	last  lastRecord

	// removed are the ordinals that clean-ups took back since the topic began.
	// The deletes come after the mark: a page read in between still has them,
	// and would show them to readers who come when they are long gone.
	removed []chunk.OrdinalRange
}

// lastRecord is the newest record of a session as far as this node knows: asked
// from the leader once, then kept up to date by the feed.
type lastRecord struct {
	known    bool
	at       chunk.Position
	epoch    chunk.Epoch
	terminal bool
	deleted  bool // it says that the session was deleted
}

func lastOfRecord(rec chunk.Record) lastRecord {
	return lastRecord{known: true, at: rec.Position(), epoch: rec.Epoch, terminal: rec.Type.Terminal(), deleted: deletes(rec)}
}

// shelfOfTree is the key of the tree in reads; sessions have non-empty ids.
const shelfOfTree = ""

// newTopic begins where the feed stands. The caller holds the lock of the
// partition.
func newTopic(p *partition, root chunk.Session, encoding string) *topic {
	t := &topic{
		part:     p,
		root:     root,
		encoding: encoding,
		encode:   p.hub.encode(encoding),
		from:     p.pos,
		stream:   p.stream,
		epoch:    p.epoch,
		pages:    make(map[string][]*segment),
		index:    make(map[string]uint32),
		kindOf:   make(map[chunk.Type]uint16),
		reads:    make(map[string]*read),
		asking:   make(map[string]chan struct{}),
		vouched:  make(map[chunk.Seq]struct{}),
	}
	t.tree = []*segment{{from: t.from, open: true}}
	t.who(root.ID)
	return t
}

// append takes a record from the feed.
func (t *topic) append(rec chunk.Record, enc *encoded) {
	t.mu.Lock()
	grown := t.push(rec, enc)
	t.changed()
	t.mu.Unlock()
	t.part.hub.charge(grown)
}

func (t *topic) push(rec chunk.Record, enc *encoded) int64 {
	if t.gone != nil {
		return 0
	}
	who := t.who(rec.Session.ID)
	m := &t.members[who]
	if rec.Epoch < m.epoch || (m.last.known && m.last.at.Seq < rec.Seq && rec.Epoch < m.last.epoch) {
		return 0 // a writer that was overtaken: every reader drops it
	}
	grown, prev := t.agree(m, rec)
	m.epoch, m.fed = rec.Epoch, rec.Position()
	t.newest = rec.Stored
	if m.last.at.Seq < rec.Seq {
		m.last = lastOfRecord(rec)
	}

	tail := t.tail()
	before := tail.weight
	f := frame{
		seq: rec.Seq, ordinal: rec.Ordinal, after: rec.Ordinal - 1, prev: prev,
		who: who, kind: t.kind(rec.Type), traits: traitsOf(rec.Type),
	}
	size := firstSegment
	if !tail.fits(enc.size()) {
		tail.open, tail.to = false, tail.last()
		size = min(2*cap(tail.wire), maxSegment)
		tail = &segment{from: tail.to, open: true}
		before = 0
		t.tree = append(t.tree, tail)
	}
	tail.used.Store(t.part.hub.clock.Load())
	tail.add(f, enc, size)
	tail.weight = tail.size()
	return grown + tail.weight - before
}

// agree finds the record before rec in its session, as far as it is known, and
// drops what memory holds when it can no longer be what the log holds:
//   - the feed left a record out, so the segments have a hole somewhere,
//   - a clean-up is about to remove records that stand in them; a reader that
//     comes later must not be shown what the log does not have,
//   - the session was deleted: nobody who comes later may be shown it, also not
//     in front of a new run.
//
// Cursors at the tip stay there. Those behind it read the log, which has the
// missing record, or the survivors.
func (t *topic) agree(m *member, rec chunk.Record) (grown int64, prev chunk.Seq) {
	before, hole := t.predecessor(m, rec)
	switch {
	case hole:
		t.part.hub.counters.holes.Add(1)
		t.part.hub.cfg.Log.Warn("feed left something out", "session", rec.Session.String(),
			"seq", uint64(rec.Seq), "ordinal", uint64(rec.Ordinal), "behind", uint64(before.Ordinal))
		return t.clear(rec.Seq - 1), 0
	case rec.Type == chunk.TypeTruncated:
		m.remove(removedBy(rec))
		return t.clear(t.tail().last()), before.Seq
	case m.last.deleted || deletes(rec):
		return t.clear(t.tail().last()), before.Seq
	}
	return 0, before.Seq
}

// predecessor is the record before rec in its session: the one that the feed
// brought, or the one that the leader named as the last while the feed had
// brought none. That one must lie before the topic, or the feed would have it.
func (t *topic) predecessor(m *member, rec chunk.Record) (before chunk.Position, hole bool) {
	switch {
	case m.fed.Ordinal != 0:
		before = m.fed
	case m.last.known && m.last.at.Seq < rec.Seq:
		before, hole = m.last.at, m.last.at.Seq > t.from
	default:
		return chunk.Position{}, false
	}
	return before, hole || rec.Ordinal != before.Ordinal+1
}

// clear drops all segments and goes on with an open one behind from.
func (t *topic) clear(from chunk.Seq) int64 {
	var freed int64
	for _, g := range t.tree {
		freed += g.weight
	}
	for _, shelf := range t.pages {
		for _, g := range shelf {
			freed += g.weight
		}
	}
	clear(t.pages)
	clear(t.vouched)
	t.tree = []*segment{{from: from, open: true}}
	t.era++
	return -freed
}

// distrust drops memory because a cursor found that it is not what the log says.
func (t *topic) distrust() {
	t.mu.Lock()
	grown := t.clear(t.tail().last())
	t.changed()
	t.mu.Unlock()
	t.part.hub.charge(grown)
}

// drop ends the topic. Its cursors see why.
func (t *topic) drop(err error) {
	t.mu.Lock()
	var grown int64
	if t.gone == nil {
		grown = t.clear(t.tail().last())
		t.gone = err
	}
	t.cancelReads()
	t.changed()
	t.mu.Unlock()
	t.part.hub.charge(grown)
}

// unwatched ends what is only done for watchers.
func (t *topic) unwatched() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancelReads()
}

func (t *topic) cancelReads() {
	for _, r := range t.reads {
		r.cancel()
	}
}

func (t *topic) tail() *segment { return t.tree[len(t.tree)-1] }

// changed wakes those who wait. A waiter takes its channel under the same lock
// under which it found nothing to do, so it cannot sleep through a change.
func (t *topic) changed() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

func (t *topic) waiting() <-chan struct{} {
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

func (t *topic) who(id string) uint32 {
	who, known := t.index[id]
	if !known {
		who = uint32(len(t.members))
		t.ids = append(t.ids, id)
		t.members = append(t.members, member{})
		t.index[id] = who
	}
	return who
}

// kind numbers the types. A topic with more than 65,535 of them, which is no
// agent's, shows the rest under the last number.
func (t *topic) kind(typ chunk.Type) uint16 {
	k, known := t.kindOf[typ]
	if !known {
		if len(t.kinds) > 1<<16-2 {
			return 1<<16 - 2
		}
		k = uint16(len(t.kinds))
		t.kinds = append(t.kinds, typ)
		t.kindOf[typ] = k
	}
	return k
}

// find returns the segment that tells a reader at seq what comes next, or nil
// and the place where the next segment begins.
func (t *topic) find(shelf string, at chunk.Seq) (*segment, chunk.Seq) {
	g, next := search(t.tree, at)
	if g != nil || shelf == shelfOfTree {
		return g, next
	}
	g, nextPage := search(t.pages[shelf], at)
	if nextPage != 0 {
		next = min(next, nextPage)
	}
	return g, next
}

// search returns the segment that covers at, or where the first one behind it
// begins, 0 if there is none.
func search(segments []*segment, at chunk.Seq) (*segment, chunk.Seq) {
	i, _ := slices.BinarySearchFunc(segments, at, func(g *segment, at chunk.Seq) int {
		if g.from <= at {
			return -1
		}
		return 1
	})
	if i > 0 && segments[i-1].covers(at) {
		return segments[i-1], 0
	}
	if i < len(segments) {
		return nil, segments[i].from
	}
	return nil, 0
}

// shelve puts pages into memory that were read between two segments.
func (t *topic) shelve(shelf string, pages []*segment) int64 {
	if len(pages) == 0 {
		return 0
	}
	var grown int64
	for _, g := range pages {
		g.weight = g.size()
		grown += g.weight
	}
	segments := t.tree
	if shelf != shelfOfTree {
		segments = t.pages[shelf]
	}
	i, _ := slices.BinarySearchFunc(segments, pages[0].from, func(g *segment, from chunk.Seq) int {
		return cmp.Compare(g.from, from)
	})
	segments = slices.Insert(segments, i, pages...)
	if shelf == shelfOfTree {
		t.tree = segments
	} else {
		t.pages[shelf] = segments
	}
	return grown
}

// position looks for a record in memory. It saves asking the log about a cursor
// that was here a moment ago.
func (t *topic) position(scope chunk.Scope, id string, seq chunk.Seq) (who uint32, pos chunk.Position, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq == 0 {
		return 0, chunk.Position{}, false
	}
	g, _ := t.find(shelfOfTree, seq-1)
	if g == nil {
		return 0, chunk.Position{}, false
	}
	i := g.after(seq - 1)
	if i == len(g.frames) || g.frames[i].seq != seq {
		return 0, chunk.Position{}, false
	}
	f := g.frames[i]
	if scope == chunk.ScopeSession && t.ids[f.who] != id {
		return 0, chunk.Position{}, false
	}
	return f.who, chunk.Position{Seq: f.seq, Ordinal: f.ordinal}, true
}
