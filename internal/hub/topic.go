package hub

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// topic holds one root in one encoding: segments of the tree, the last of which the
// feed fills, and segments of single sessions that were read for clients of that
// session alone.
type topic struct {
	feed     *follower
	root     chunk.Session
	encoding string
	encode   Encode
	from     chunk.Seq // the feed delivers all records after this
	stream   int       // number of the stream, as the partition counts …
	epoch    string    // … and its epoch, as reported by the log

	watchers int       // guarded by feed.mu
	idle     time.Time // guarded by feed.mu: when the last watcher left

	served atomic.Bool // a record of the tree is known

	mu             sync.Mutex // guards everything below
	tree           []*segment // by from, not overlapping; the last one is open
	pages          map[string][]*segment
	ids            []string // sessions of the tree, by index; append only
	members        []member // their state, by the same index
	index          map[string]uint32
	kinds          []chunk.Type // types met so far, by index; append only
	kindOf         map[chunk.Type]uint16
	newest         time.Time // when the log stored the last record of the feed
	wakeups        wakeups
	reads          map[string]*read         // running reads, by page set
	pendingLookups map[string]chan struct{} // requests for the last record, by session
	contiguous     map[chunk.Seq]struct{}   // frames whose predecessor is not in memory but was found in the log
	generation     int                      // incremented when memory is dropped because it may differ from the log
	closedErr      error                    // why the topic was dropped
}

// member is one session of the tree.
type member struct {
	lastFed  chunk.Position // the last record of the feed, or zero …
	fedEpoch chunk.Epoch    // … and its epoch
	epoch    chunk.Epoch    // the highest seen
	last     lastRecord

	// removed are the ordinals that cleanups removed since the topic was created, in
	// order. The deletes follow the truncation record: a page that is read in between still has
	// the records, and would show them to later readers.
	removed []chunk.OrdinalRange
}

// lastRecord is the newest known record of a session: read from the leader once, then
// kept up to date by the feed.
type lastRecord struct {
	known    bool
	at       chunk.Position
	epoch    chunk.Epoch
	terminal bool
	deleted  bool // it is a deletion record
}

func lastOfRecord(rec chunk.Record) lastRecord {
	return lastRecord{known: true, at: rec.Position(), epoch: rec.Epoch, terminal: rec.Type.Terminal(), deleted: rec.IsDeletion()}
}

// treePageSet is the key of the tree in reads; sessions have non-empty ids.
const treePageSet = ""

// newTopic returns a topic that starts at the position of the feed. The caller holds
// the lock of the partition.
func newTopic(p *follower, root chunk.Session, encoding string) *topic {
	t := &topic{
		feed:           p,
		root:           root,
		encoding:       encoding,
		encode:         p.hub.encode(encoding),
		from:           p.pos,
		stream:         p.stream,
		epoch:          p.epoch,
		pages:          make(map[string][]*segment),
		index:          make(map[string]uint32),
		kindOf:         make(map[chunk.Type]uint16),
		reads:          make(map[string]*read),
		pendingLookups: make(map[string]chan struct{}),
		contiguous:     make(map[chunk.Seq]struct{}),
	}
	t.tree = []*segment{{from: t.from, open: true}}
	t.memberIndex(root.ID)
	return t
}

// append adds a record of the feed.
func (t *topic) append(rec chunk.Record, enc *encoded) {
	t.mu.Lock()
	grown := t.push(rec, enc)
	t.changed()
	t.mu.Unlock()
	t.feed.hub.addMemory(grown)
}

func (t *topic) push(rec chunk.Record, enc *encoded) int64 {
	if t.closedErr != nil {
		return 0
	}
	index := t.memberIndex(rec.Session.ID)
	m := &t.members[index]
	var cleared int64
	if m.restarts(rec) {
		*m = member{}
		cleared = t.clear(rec.Seq - 1)
	}
	if !t.served.Load() {
		t.served.Store(true)
	}
	if rec.Epoch < m.epoch || (m.last.known && m.last.at.Seq < rec.Seq && rec.Epoch < m.last.epoch) {
		return cleared // from a fenced writer: every reader drops it
	}
	grown, prev := t.checkPredecessor(m, rec)
	m.epoch, m.fedEpoch, m.lastFed = rec.Epoch, rec.Epoch, rec.Position()
	t.newest = rec.StoredAt
	if m.last.at.Seq < rec.Seq {
		m.last = lastOfRecord(rec)
	}

	f := frame{
		seq: rec.Seq, ordinal: rec.Ordinal, after: rec.Ordinal - 1, prev: prev, anchor: rec.Anchor(),
		index: index, kind: t.kind(rec.Type), flags: traitsOf(rec.Type),
	}
	if rec.Type == chunk.TypeTruncated && m.remove(removedBy(rec)) {
		t.generation++ // pages that are being read may have the removed records
		grown += t.dropRemoved(index, &f)
	}
	tail := t.tail()
	before := tail.memory
	size := firstSegment
	if !tail.fits(enc.size()) {
		tail.open, tail.to = false, tail.last()
		size = tail.nextSize()
		tail = &segment{from: tail.to, open: true}
		before = 0
		t.tree = append(t.tree, tail)
	}
	tail.used.Store(t.feed.hub.clock.Load())
	tail.add(f, enc, size)
	tail.memory = tail.size()
	return cleared + grown + tail.memory - before
}

// restarts reports whether rec starts a run that uses ordinals of earlier records: they
// have all expired, and its writer did not know them. What is known of them does not
// apply to the new ones; cursors read from the log which records they miss.
func (m *member) restarts(rec chunk.Record) bool {
	return rec.Type == chunk.TypeRunStarted && (rec.Ordinal <= m.lastFed.Ordinal || m.last.at.Seq < rec.Seq && rec.Ordinal <= m.last.at.Ordinal)
}

// checkPredecessor returns the sequence of the record before rec in its session, if
// known, and drops memory that may no longer match the log:
//   - the feed has missed a record, so the segments have a gap,
//   - the session was deleted: later readers must not get its records, not even
//     before those of a new run.
//
// Cursors at the tip stay there. Others read the log, which has the missing record, or
// the remaining ones.
func (t *topic) checkPredecessor(m *member, rec chunk.Record) (grown int64, prev chunk.Seq) {
	before, gap := t.predecessor(m, rec)
	switch {
	case gap:
		t.feed.hub.counters.gaps.Add(1)
		t.feed.hub.cfg.Log.Warn("gap in feed", "session", rec.Session.String(),
			"sequence", uint64(rec.Seq), "ordinal", uint64(rec.Ordinal), "after", uint64(before.Ordinal))
		return t.clear(rec.Seq - 1), 0
	case m.last.deleted || rec.IsDeletion():
		return t.clear(t.tail().last()), before.Seq
	}
	return 0, before.Seq
}

// predecessor returns the record before rec in its session: the last one of the feed,
// or the one that the leader returned as the last if the feed has delivered none. The
// latter must lie before the topic, or the feed would have delivered it.
func (t *topic) predecessor(m *member, rec chunk.Record) (before chunk.Position, gap bool) {
	var epoch chunk.Epoch
	switch {
	case m.lastFed.Ordinal != 0:
		before, epoch = m.lastFed, m.fedEpoch
	case m.last.known && m.last.at.Seq < rec.Seq:
		before, epoch, gap = m.last.at, m.last.epoch, m.last.at.Seq > t.from
	default:
		return chunk.Position{}, false
	}
	// Each epoch is one higher than the one before and begins with run_started. If a record of the fenced writer has its ordinal, only the epoch shows the gap.
	begins := rec.Type == chunk.TypeRunStarted && rec.Epoch == epoch+1 || rec.IsDeletion()
	return before, gap || rec.Ordinal != before.Ordinal+1 || rec.Epoch != epoch && !begins
}

// clear drops all segments and adds an open one that starts after from.
func (t *topic) clear(from chunk.Seq) int64 {
	var freed int64
	for _, g := range t.tree {
		freed += g.memory
	}
	for _, pages := range t.pages {
		for _, g := range pages {
			freed += g.memory
		}
	}
	clear(t.pages)
	clear(t.contiguous)
	t.tree = []*segment{{from: from, open: true}}
	t.generation++
	return -freed
}

// invalidate drops memory because a cursor has found that it differs from the log.
func (t *topic) invalidate() {
	t.mu.Lock()
	grown := t.clear(t.tail().last())
	t.changed()
	t.mu.Unlock()
	t.feed.hub.addMemory(grown)
}

// drop closes the topic. Its cursors get err.
func (t *topic) drop(err error) {
	t.mu.Lock()
	var grown int64
	if t.closedErr == nil {
		grown = t.clear(t.tail().last())
		t.closedErr = err
	}
	t.cancelReads()
	t.wakeups.wake()
	t.mu.Unlock()
	t.feed.hub.addMemory(grown)
}

// unwatched cancels the reads of a topic without watchers.
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

func (t *topic) memberIndex(id string) uint32 {
	index, known := t.index[id]
	if !known {
		index = uint32(len(t.members))
		t.ids = append(t.ids, id)
		t.members = append(t.members, member{})
		t.index[id] = index
	}
	return index
}

// kind returns the index of a type. A topic with more than 65,535 types, which no
// agent has, uses the last index for the rest.
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

// find returns the segment that covers at, or nil and the start of the next segment.
func (t *topic) find(pageSet string, at chunk.Seq) (*segment, chunk.Seq) {
	g, next := search(t.tree, at)
	if g != nil || pageSet == treePageSet {
		return g, next
	}
	g, nextPage := search(t.pages[pageSet], at)
	if nextPage != 0 {
		next = min(next, nextPage)
	}
	return g, next
}

// search returns the segment that covers at, or nil and the start of the next one, 0
// if there is none.
func search(segments []*segment, at chunk.Seq) (*segment, chunk.Seq) {
	i := sort.Search(len(segments), func(i int) bool { return segments[i].from > at })
	if i > 0 && segments[i-1].covers(at) {
		return segments[i-1], 0
	}
	if i < len(segments) {
		return nil, segments[i].from
	}
	return nil, 0
}

// addPages adds pages that were read between two segments.
func (t *topic) addPages(pageSet string, pages []*segment) int64 {
	if len(pages) == 0 {
		return 0
	}
	var grown int64
	for _, g := range pages {
		g.memory = g.size()
		grown += g.memory
	}
	segments := t.tree
	if pageSet != treePageSet {
		segments = t.pages[pageSet]
	}
	i, _ := slices.BinarySearchFunc(segments, pages[0].from, func(g *segment, from chunk.Seq) int {
		return cmp.Compare(g.from, from)
	})
	segments = slices.Insert(segments, i, pages...)
	if pageSet == treePageSet {
		t.tree = segments
	} else {
		t.pages[pageSet] = segments
	}
	return grown
}

// position looks a record up in memory. This saves a request to the log for clients
// that reconnect.
func (t *topic) position(scope chunk.Scope, id string, at chunk.Cursor) (index uint32, pos chunk.Position, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Seq == 0 {
		return 0, chunk.Position{}, false
	}
	g, _ := t.find(treePageSet, at.Seq-1)
	if g == nil {
		return 0, chunk.Position{}, false
	}
	i := g.after(at.Seq - 1)
	if i == len(g.frames) || g.frames[i].seq != at.Seq {
		return 0, chunk.Position{}, false
	}
	f := g.frames[i]
	if scope == chunk.ScopeSession && t.ids[f.index] != id || at.Anchor != 0 && at.Anchor != f.anchor {
		return 0, chunk.Position{}, false // the log decides, which may have been rolled back since
	}
	return f.index, chunk.Position{Seq: f.seq, Ordinal: f.ordinal}, true
}
