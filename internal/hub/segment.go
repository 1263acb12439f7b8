package hub

import (
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/tailrace/tailrace/chunk"
)

// frame is one encoded record: its position in the log, the offsets of its bytes in the segment, and what filters depend on. It
// has no pointers, so that the garbage collector does not scan frames.
type frame struct {
	seq        chunk.Seq
	ordinal    chunk.Ordinal
	after      chunk.Ordinal // a reader that has this ordinal of the session, or a later one, misses no record before this
	prev       chunk.Seq     // the previous record of its session, if the feed delivered both; else 0
	anchor     chunk.Anchor
	off        uint32 // wire[off:end] is for readers of the tree, and of the session if sessionEnd == end
	end        uint32
	sessionEnd uint32 // wire[end:sessionEnd] is for readers of the session alone, if different
	index      uint32 // index in topic.members
	kind       uint16 // index in topic.kinds
	flags      trait
}

type trait uint8

const (
	ofStream trait = 1 << iota // about the stream itself: not hidden by filters
	terminal                   // closes its session until a new run opens it
	proved                     // the log has found the previous record
)

const frameSize = int64(unsafe.Sizeof(frame{}))

// Sizes of a segment in bytes. A short session costs little memory; a long one is split into segments that are evicted, and
// retained by a slow client, one at a time.
const (
	firstSegment = 2 << 10
	maxSegment   = 64 << 10
)

// maxFrames bounds the frames of a segment, for frames without bytes: records that the encoding hides do not fill it.
const maxFrames = maxSegment / int(frameSize)

// segment is a contiguous part of a tree or of one session: it has every record with from < seq <= to. The last segment of a
// topic is open: it has no end yet, and the feed appends to it.
//
// Published bytes and frames are never overwritten; when they grow, readers keep the old arrays.
type segment struct {
	from   chunk.Seq
	to     chunk.Seq // for a closed segment
	open   bool
	frames []frame
	wire   []byte       // the frames' bytes, back to back
	used   atomic.Int64 // Hub.clock when a client last read it
	memory int64        // bytes that are counted for it in Hub.bytes
}

// covers reports whether the record after seq, if there is one, is in this segment.
func (g *segment) covers(seq chunk.Seq) bool {
	return g.from <= seq && (g.open || seq < g.to)
}

// last returns the sequence of the last record, or the start of the segment.
func (g *segment) last() chunk.Seq {
	if n := len(g.frames); n > 0 {
		return g.frames[n-1].seq
	}
	return g.from
}

// after returns the index of the first frame after seq.
func (g *segment) after(seq chunk.Seq) int {
	return sort.Search(len(g.frames), func(i int) bool { return g.frames[i].seq > seq })
}

// shown returns the offsets of the bytes of f for a reader of the scope.
func (f *frame) shown(scope chunk.Scope) (from, to uint32) {
	if scope == chunk.ScopeSession && f.sessionEnd > f.end {
		return f.end, f.sessionEnd
	}
	return f.off, f.end
}

// fits reports whether a frame of n bytes fits without reallocation of the bytes.
func (g *segment) fits(n int) bool {
	return len(g.frames) == 0 || len(g.frames) < maxFrames && (g.wire == nil || len(g.wire)+n <= cap(g.wire))
}

// nextSize returns the capacity of the segment after this one.
func (g *segment) nextSize() int { return min(max(2*cap(g.wire), firstSegment), maxSegment) }

// add appends a frame with its bytes; size is the capacity of a new segment.
func (g *segment) add(f frame, enc *encoded, size int) {
	if g.wire == nil && enc.size() > 0 {
		g.wire = make([]byte, 0, max(size, enc.size()))
	}
	f.off = uint32(len(g.wire))
	g.wire = append(g.wire, enc.tree...)
	f.end = uint32(len(g.wire))
	g.wire = append(g.wire, enc.alone...)
	f.sessionEnd = uint32(len(g.wire))
	g.frames = append(g.frames, f)
}

// size returns the approximate memory of the segment in bytes.
func (g *segment) size() int64 {
	return int64(unsafe.Sizeof(segment{})) + int64(cap(g.wire)) + int64(cap(g.frames))*frameSize
}
