package structured

import "github.com/tailrace/tailrace/chunk"

// The limits of a State. A chunk that would exceed one of these is rejected.
const (
	MaxChunk    = 1 << 20 // bytes of one chunk's JSON
	MaxSegments = 64      // of a path
	MaxName     = 1024    // bytes of a path's segment, or of a name inside a value
	MaxGap      = 1024    // slots that a chunk may skip beyond the end of an array, which count as values; none if Strict
	MaxLabel    = 256     // bytes of a stream id, a data type or another label

	MaxStreams = 1000             // streams of one State
	MaxText    = 1 << 20          // bytes of names, strings and numbers in one stream
	MaxValues  = chunk.MaxValues  // values of one stream, skipped slots included
	MaxTexts   = 4 * MaxText      // the text of all streams together
	MaxTotal   = 4 * MaxValues    // the values of all streams together
	maxDepth   = MaxSegments + 32 // maximum nesting of a path and a value at its end
	maxFailure = 512              // bytes of LastError
)

// size has the quantities that the limits count.
type size struct {
	text   int // bytes
	values int
}

func (s size) plus(o size) size  { return size{s.text + o.text, s.values + o.values} }
func (s size) minus(o size) size { return size{s.text - o.text, s.values - o.values} }

func (s size) within(limit size) bool { return s.text <= limit.text && s.values <= limit.values }
