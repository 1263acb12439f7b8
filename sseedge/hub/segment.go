package hub

import (
	"sync/atomic"
	"unsafe"

	"github.com/tailrace/tailrace/chunk"
)

// frame is one record on its way to clients: where it stands in the log, where
// its bytes stand in the segment, and what a filter needs to know. It holds no
// pointer, so that a million of them cost the garbage collector nothing.
type frame struct {
	seq     chunk.Seq
	ordinal chunk.Ordinal
	after   chunk.Ordinal // a reader that saw this ordinal of the session, or a later one, misses nothing here
	prev    chunk.Seq     // the record before it in its session, where the feed brought both; 0 is not known
	off     uint32        // wire[off:end] is shown to readers of the tree, and to those of the session if alone == end
	end     uint32
	alone   uint32 // wire[end:alone] is shown to readers of the session alone, where that differs
	who     uint32 // index in topic.members
	kind    uint16 // index in topic.kinds
	traits  trait
}

type trait uint8

const (
	ofStream trait = 1 << iota // about the stream itself: no filter hides it
	terminal                   // closes its session until a new run opens it
	proved                     // the log found what comes before it, wherever that is
)

const frameSize = int64(unsafe.Sizeof(frame{}))

// The sizes of a segment's wire. A session that says little costs little; one
// that says much is cut into pieces that are dropped, and held by a slow client,
// one at a time.
const (
	firstSegment = 2 << 10
	maxSegment   = 64 << 10
)

// segment is an unbroken piece of a tree or of one session: every record with
// from < seq <= to is in it. The last segment of a topic is open: it has no end
// yet, and the feed appends to it.
//
// Bytes and frames that were handed out are never written again; growing them
// leaves the old ones to whoever reads them.
type segment struct {
	from   chunk.Seq
	to     chunk.Seq // for a closed segment
	open   bool
	frames []frame
	wire   []byte       // the frames' bytes, back to back
	used   atomic.Int64 // Hub.clock when a client last read it
	weight int64        // what the Hub's budget was charged for it
}

// covers reports whether a reader that has everything up to seq finds what
// comes next in this segment.
func (g *segment) covers(seq chunk.Seq) bool {
	return g.from <= seq && (g.open || seq < g.to)
}

// last is the sequence of the last record, or where the segment starts.
func (g *segment) last() chunk.Seq {
	if n := len(g.frames); n > 0 {
		return g.frames[n-1].seq
	}
	return g.from
}

// after returns the index of the first frame behind seq.
func (g *segment) after(seq chunk.Seq) int {
	lo, hi := 0, len(g.frames)
	for lo < hi {
		if mid := (lo + hi) / 2; g.frames[mid].seq > seq {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// shown returns where the bytes of f stand for a reader of the scope.
func (f *frame) shown(scope chunk.Scope) (from, to uint32) {
	if scope == chunk.ScopeSession && f.alone > f.end {
		return f.end, f.alone
	}
	return f.off, f.end
}

// fits reports whether n more bytes go into the wire without moving it.
func (g *segment) fits(n int) bool {
	return g.wire == nil || len(g.wire)+n <= cap(g.wire)
}

// add appends a frame with its bytes; size is the wire's capacity if it has none yet.
func (g *segment) add(f frame, enc *encoded, size int) {
	if g.wire == nil {
		g.wire = make([]byte, 0, max(size, enc.size()))
	}
	f.off = uint32(len(g.wire))
	g.wire = append(g.wire, enc.tree...)
	f.end = uint32(len(g.wire))
	g.wire = append(g.wire, enc.alone...)
	f.alone = uint32(len(g.wire))
	g.frames = append(g.frames, f)
}

// size is what the segment takes in memory, nearly.
func (g *segment) size() int64 {
	return int64(unsafe.Sizeof(segment{})) + int64(cap(g.wire)) + int64(cap(g.frames))*frameSize
}
