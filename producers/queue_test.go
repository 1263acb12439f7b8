package producers

import (
	"testing"
	"time"
)

// The queue of a run that is never idle keeps the order of its items, and no places for those that were taken.
func TestQueueIsCompacted(t *testing.T) {
	q := queue{limit: 1 << 20, maxBytes: 1 << 30}
	const waiting, all = 100, 100_000
	next := int64(0)
	for i := range int64(all) {
		q.push(&item{timestamp: i})
		if q.waiting() <= waiting {
			continue
		}
		it, _ := q.take(time.Time{})
		if it.timestamp != next {
			t.Fatalf("took item %d, want %d", it.timestamp, next)
		}
		next++
	}
	if got := cap(q.items); got > 4*waiting {
		t.Errorf("%d places for %d items", got, waiting)
	}
	for i, it := range q.drain() {
		if it.timestamp != next+int64(i) {
			t.Fatalf("drained item %d, want %d", it.timestamp, next+int64(i))
		}
	}
}
