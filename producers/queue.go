package producers

import (
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// item is a record that is queued or in flight. The mutex of the Run guards it until it is taken from the queue; the result fields are final once done is
// closed.
type item struct {
	typ       chunk.Type
	timestamp int64
	c         chunk.Chunk
	body      []byte               // its JSON; nil for a merged delta
	input     *codec.InputPosition // nil for none

	delta  bool
	size   int  // bytes of the text of a delta
	urgent bool // a call waits: it is not paced

	reportLater bool          // emitted: a later call reports the failure
	done        chan struct{} // closed with the result; nil if no call waits
	inline      bool          // stored on the goroutine of the caller, see publishInline
	seq         chunk.Seq
	err         error

	prevPart   *item       // the previous part of a split delta
	transition *transition // the change of state that the record makes
	deletes    []chunk.Seq // messages to delete after this is stored
}

// queue holds the queued items in order. It has no lock and no clock.
type queue struct {
	pace     time.Duration
	maxDelta int
	limit    int
	maxBytes int

	bytes   int // of all queued items
	items   []*item
	head    int
	block   blockKey  // of the last record taken; a delta with the same key continues it
	takenAt time.Time // of that record
}

func (q *queue) waiting() int { return len(q.items) - q.head }

func (q *queue) full() bool { return q.waiting() >= q.limit || q.bytes >= q.maxBytes }

// memory returns the variable part of the memory of a queued item.
func (it *item) memory() int { return len(it.body) + it.size }

// tail returns the newest item, nil if the queue is empty.
func (q *queue) tail() *item {
	if q.waiting() == 0 {
		return nil
	}
	return q.items[len(q.items)-1]
}

func (q *queue) push(it *item) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		// A run that is never idle would otherwise keep a place for each record that it has written.
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, it)
	q.bytes += it.memory()
}

// unshift returns items that were taken to the head of the queue, in order. They may exceed the limits.
func (q *queue) unshift(items []*item) {
	q.items = slices.Insert(q.items, q.head, items...)
	for _, it := range items {
		q.bytes += it.memory()
	}
}

// pushParts pushes all parts of a split delta in order. They may exceed the limits.
func (q *queue) pushParts(last *item) {
	if last.prevPart != nil {
		q.pushParts(last.prevPart)
	}
	q.push(last)
}

// merge merges a delta into the tail, if it continues the tail and both fit into one message. The tail then represents both.
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
	t.c, t.body, t.input = c, nil, it.input // all of the input up to the end of the merged text is stored with it
	t.size += it.size
	t.reportLater = t.reportLater || it.reportLater
	return true
}

// keptItems is the largest capacity of the queue that an idle run keeps.
const keptItems = 32

// take removes the oldest item if it is due. Otherwise it returns the time until then; 0 if the queue is empty.
func (q *queue) take(now time.Time) (*item, time.Duration) {
	if q.waiting() == 0 {
		return nil, 0
	}
	it := q.items[q.head]
	if wait := q.dueIn(it, now); wait > 0 {
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
	q.bytes -= it.memory()
	q.block, q.takenAt = keyOf(it), now
	return it, 0
}

// dueIn returns how long the oldest item still waits for deltas to merge with: a delta that continues a block is due when the pace has passed since the record
// before it. An item after it was not merged with it and ends the wait.
func (q *queue) dueIn(it *item, now time.Time) time.Duration {
	if !it.delta || it.urgent || q.waiting() > 1 || it.size >= q.maxDelta || keyOf(it) != q.block {
		return 0
	}
	return q.takenAt.Add(q.pace).Sub(now)
}

// drain removes and returns all items.
func (q *queue) drain() []*item {
	all := q.items[q.head:]
	q.items, q.head, q.bytes = nil, 0, 0
	return all
}
