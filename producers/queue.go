package producers

import (
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// item is a record that waits for its turn or is on its way. The Run's mutex
// guards it until it is taken from the queue; result fields are final once
// done is closed.
type item struct {
	typ       chunk.Type
	timestamp int64
	c         chunk.Chunk
	body      []byte // its JSON; nil for a delta that has grown

	delta  bool
	size   int       // bytes of a delta's text
	at     time.Time // when the delta came
	urgent bool      // somebody waits: no lingering

	unheard bool          // emitted: its failure is told by a later call
	done    chan struct{} // closed with the result; nil while nobody waits
	led     bool          // stored by the goroutine that waits for it, see lead
	seq     chunk.Seq
	err     error

	part *item       // the piece before this one, when a delta was split
	move *move       // the change of the run's state that comes with it
	owes []chunk.Seq // messages to delete as soon as this is stored
}

// queue holds what waits, in order. It has no lock and no clock of its own.
type queue struct {
	linger   time.Duration
	maxDelta int
	limit    int
	maxBytes int

	bytes int // of all that waits
	items []*item
	head  int
	block blockKey // of the record that left last; a delta of the same goes on with it
}

func (q *queue) waiting() int { return len(q.items) - q.head }

func (q *queue) full() bool { return q.waiting() >= q.limit || q.bytes >= q.maxBytes }

// weight is the memory that a waiting item takes, less what is the same for all.
func (it *item) weight() int { return len(it.body) + it.size }

// tail is the newest waiting item, nil when none waits.
func (q *queue) tail() *item {
	if q.waiting() == 0 {
		return nil
	}
	return q.items[len(q.items)-1]
}

func (q *queue) push(it *item) {
	q.items = append(q.items, it)
	q.bytes += it.weight()
}

// pushParts pushes the pieces of a split delta, first to last. They come
// together or not at all, so they may exceed the limits.
func (q *queue) pushParts(last *item) {
	if last.part != nil {
		q.pushParts(last.part)
	}
	q.push(last)
}

// merge puts a delta into the one that waits last, if it goes on with it and
// both fit into one message. It is then the same item: it is the tail.
func (q *queue) merge(it *item) bool {
	t := q.tail()
	if t == nil || !t.delta || !it.delta || t.size+it.size > q.maxDelta {
		return false
	}
	c, ok := chunk.Merge(t.c, it.c)
	if !ok {
		return false
	}
	q.bytes += it.size - len(t.body)
	t.c, t.body = c, nil
	t.size += it.size
	t.unheard = t.unheard || it.unheard
	return true
}

// keptItems is how much room an idle run keeps from busier times.
const keptItems = 32

// take removes the oldest item if it may go now. Otherwise it says how long to
// wait before asking again; 0 when nothing waits.
func (q *queue) take(now time.Time) (*item, time.Duration) {
	if q.waiting() == 0 {
		return nil, 0
	}
	it := q.items[q.head]
	if wait := q.hold(it, now); wait > 0 {
		return nil, wait
	}
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > keptItems {
			q.items = nil
		}
	}
	q.bytes -= it.weight()
	q.block = keyOf(it)
	return it, 0
}

// hold is how long the oldest item still waits for something to merge with.
// Whatever is behind it was not merged with it and pushes it out.
func (q *queue) hold(it *item, now time.Time) time.Duration {
	if !it.delta || it.urgent || q.linger <= 0 || q.waiting() > 1 || it.size >= q.maxDelta || keyOf(it) != q.block {
		return 0
	}
	return it.at.Add(q.linger).Sub(now)
}

// drain removes and returns everything that waits.
func (q *queue) drain() []*item {
	all := q.items[q.head:]
	q.items, q.head, q.bytes = nil, 0, 0
	return all
}
