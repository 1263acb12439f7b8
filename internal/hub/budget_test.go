package hub

import (
	"runtime"
	"testing"

	"github.com/tailrace/tailrace/chunk"
)

const (
	testLimit = 1000 // of the memory
	testSize  = 600  // of a segment
)

// fullHub returns a hub with a topic of two closed segments. It has counted the first.
func fullHub(t *testing.T) *Hub {
	t.Helper()
	feed := ByPartition(nil, 1, func(chunk.Session) int { return 0 })
	h, err := New(nil, feed, Config{Encode: func(dst []byte, _ chunk.Record, _ chunk.Scope) []byte { return dst }, MaxMemory: testLimit})
	if err != nil {
		t.Fatal(err)
	}
	root, p := chunk.RootSession("acme", "s1"), h.feeds.all()[0]
	watched := newTopic(p, root, "")
	watched.tree = []*segment{{from: 1, memory: testSize}, {from: 2, memory: testSize}}
	p.topics[key{root.Tenant, root.Root}] = []*topic{watched}
	h.addMemory(testSize)
	return h
}

// TestMemoryGrowsDuringAnEviction checks that memory that is added while another goroutine evicts is evicted too. The other one may have found already that
// enough is free.
func TestMemoryGrowsDuringAnEviction(t *testing.T) {
	h := fullHub(t)
	h.shrinking.Lock()
	added := make(chan struct{})
	go func() {
		h.addMemory(testSize)
		close(added)
	}()
	for h.bytes.Load() <= testLimit {
		runtime.Gosched()
	}
	h.shrinking.Unlock()
	<-added
	if n := h.bytes.Load(); n != testSize {
		t.Errorf("%d bytes, want %d", n, testSize)
	}
}

// TestSmallerTopicEvictsNothing checks that a topic that becomes smaller evicts nothing: its caller may hold the lock of the feeds, which an eviction needs.
func TestSmallerTopicEvictsNothing(t *testing.T) {
	h := fullHub(t)
	h.bytes.Store(2000)
	h.addMemory(-500)
	if n := h.bytes.Load(); n != 1500 {
		t.Errorf("%d bytes, want 1500", n)
	}
}
