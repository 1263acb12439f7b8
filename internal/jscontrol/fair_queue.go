package jscontrol

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"
)

// fairQueue holds fetched commands that wait for a slot of this process, and decides which of them starts next: that of the tenant with the fewest commands in
// progress in this process; among these, tenants take turns; and of one tenant the oldest. It is safe for concurrent use.
type fairQueue struct {
	mu      sync.Mutex
	tenants map[string]*tenant // with commands that wait or are in progress
	next    turnHeap           // of tenants with commands that wait
	waiting map[uint64]*fetched
	bytes   int    // of the messages that wait
	turns   uint64 // last one that was given
}

// tenant is what a fairQueue knows about a tenant.
type tenant struct {
	name    string
	waiting []*fetched // by sequence
	running int
	turn    uint64 // increases with each command that starts
	index   int    // in the heap
}

// compare is negative if t starts its next command before another tenant.
func (t *tenant) compare(other *tenant) int {
	return cmp.Or(cmp.Compare(t.running, other.running), cmp.Compare(t.turn, other.turn))
}

// fetched is a command that was delivered to this process and has not been started.
type fetched struct {
	msg     delivery
	tenant  string
	seq     uint64
	size    int       // of its body
	renewed time.Time // when its AckWait began at the earliest
}

func newFairQueue() *fairQueue {
	return &fairQueue{tenants: map[string]*tenant{}, waiting: map[uint64]*fetched{}}
}

// size returns the number and the bytes of the commands that wait.
func (q *fairQueue) size() (commands, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.bytes
}

// add adds a command. A redelivery replaces the earlier delivery.
func (q *fairQueue) add(f *fetched) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if old, ok := q.waiting[f.seq]; ok {
		old.msg, old.renewed = f.msg, f.renewed
		return
	}
	q.waiting[f.seq] = f
	q.bytes += f.size
	t := q.tenant(f.tenant)
	if len(t.waiting) == 0 {
		q.giveTurn(t)
		heap.Push(&q.next, t)
	}
	at, _ := slices.BinarySearchFunc(t.waiting, f.seq, func(w *fetched, seq uint64) int { return cmp.Compare(w.seq, seq) })
	t.waiting = slices.Insert(t.waiting, at, f)
}

// take removes the command that starts next, and counts it as in progress until done; nil if none waits.
func (q *fairQueue) take() *fetched {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.next) == 0 {
		return nil
	}
	f := q.pop(q.next[0])
	q.started(f.tenant)
	return f
}

// start counts a command as in progress that did not wait.
func (q *fairQueue) start(tenant string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.started(tenant)
}

// done ends a command of a tenant that take or start has counted.
func (q *fairQueue) done(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenant(name)
	t.running--
	q.update(t)
}

// remove removes and returns up to n commands in the order in which they would start.
func (q *fairQueue) remove(n int) []*fetched {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*fetched
	for len(all) < n && len(q.next) > 0 {
		all = append(all, q.pop(q.next[0]))
	}
	return all
}

// removeOfEach removes and returns the next command of each tenant, for up to n tenants in the order in which they would start.
func (q *fairQueue) removeOfEach(n int) []*fetched {
	q.mu.Lock()
	defer q.mu.Unlock()
	tenants := slices.Clone(q.next)
	slices.SortFunc(tenants, (*tenant).compare)
	var all []*fetched
	for _, t := range tenants[:min(n, len(tenants))] {
		all = append(all, q.pop(t))
	}
	return all
}

// drop removes the commands that satisfy a condition.
func (q *fairQueue) drop(unwanted func(*fetched) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range slices.Clone(q.next) {
		t.waiting = slices.DeleteFunc(t.waiting, func(f *fetched) bool {
			if !unwanted(f) {
				return false
			}
			q.forget(f)
			return true
		})
		q.update(t)
	}
}

// all returns the commands that wait, in no order.
func (q *fairQueue) all() []*fetched {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]*fetched, 0, len(q.waiting))
	for _, f := range q.waiting {
		list = append(list, f)
	}
	return list
}

func (q *fairQueue) tenant(name string) *tenant {
	t, ok := q.tenants[name]
	if !ok {
		t = &tenant{name: name, index: -1}
		q.tenants[name] = t
	}
	return t
}

func (q *fairQueue) giveTurn(t *tenant) {
	q.turns++
	t.turn = q.turns
}

// pop removes the oldest command of a tenant that has one, and gives the tenant its next turn.
func (q *fairQueue) pop(t *tenant) *fetched {
	f := t.waiting[0]
	t.waiting[0] = nil
	t.waiting = t.waiting[1:]
	q.forget(f)
	q.giveTurn(t)
	q.update(t)
	return f
}

func (q *fairQueue) forget(f *fetched) {
	delete(q.waiting, f.seq)
	q.bytes -= f.size
}

func (q *fairQueue) started(name string) {
	t := q.tenant(name)
	t.running++
	q.update(t)
}

// update restores the heap after a change of t, and removes a tenant without commands.
func (q *fairQueue) update(t *tenant) {
	switch {
	case t.index >= 0 && len(t.waiting) == 0:
		heap.Remove(&q.next, t.index)
	case t.index >= 0:
		heap.Fix(&q.next, t.index)
	}
	if t.running == 0 && len(t.waiting) == 0 {
		delete(q.tenants, t.name)
	}
}

// turnHeap orders tenants: the first one starts the next command.
type turnHeap []*tenant //nolint:recvcheck // as heap.Interface needs it

func (h turnHeap) Len() int { return len(h) }

func (h turnHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }

func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *turnHeap) Push(x any) {
	t := x.(*tenant) //nolint:forcetypeassert,errcheck // only tenants are pushed
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *turnHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
