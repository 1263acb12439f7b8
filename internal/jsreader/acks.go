package jsreader

import (
	"cmp"
	"slices"
	"sync"
)

// ackTracker tracks the position up to which all deliveries are acknowledged. Its memory is bounded by the number of deliveries without acknowledgement, and
// does not grow with the deliveries that were acknowledged after the first of them:
//  1. one record is not acknowledged for an hour, because its session cannot be saved,
//  2. all later records are delivered and acknowledged.
type ackTracker struct {
	mu       sync.Mutex
	closed   bool
	ackFloor uint64 // everything up to here is acknowledged
	highest  uint64 // delivered

	// tracked are the deliveries since the first one without acknowledgement, in order. Those that are acknowledged are removed when they are more than half:
	// a projector acknowledges a session at a time, so that removing each one would move up to 20,000 others.
	tracked []trackedDelivery
	acked   int // of tracked

	// untracked: deliveries are not contiguous from the ack floor on, so only the server knows it.
	untracked bool
}

// trackedDelivery is a delivered message.
type trackedDelivery struct {
	seq    uint64
	before uint64 // sequence of the delivery before it
	acked  bool
}

// deliver adds a delivery unless it is a redelivery. It reports whether, as far as known, the message is not acknowledged yet.
func (t *ackTracker) deliver(seq uint64) (unacked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.untracked:
		return true
	case seq <= t.ackFloor:
		return false
	case seq <= t.highest:
		return t.find(seq) != nil
	}
	t.tracked = append(t.tracked, trackedDelivery{seq: seq, before: t.highest})
	t.highest = seq
	return true
}

// find returns a delivery without acknowledgement, or nil.
func (t *ackTracker) find(seq uint64) *trackedDelivery {
	i, ok := slices.BinarySearchFunc(t.tracked, seq, func(d trackedDelivery, seq uint64) int { return cmp.Compare(d.seq, seq) })
	if !ok || t.tracked[i].acked {
		return nil
	}
	return &t.tracked[i]
}

// acknowledge removes a delivery. One that was acknowledged before changes nothing.
func (t *ackTracker) acknowledge(seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.find(seq)
	if d == nil {
		return
	}
	d.acked = true
	t.acked++
	if 2*t.acked > len(t.tracked) {
		t.tracked, t.acked = slices.DeleteFunc(t.tracked, func(d trackedDelivery) bool { return d.acked }), 0
	}
	t.advance()
}

// raise sets the position to that of the server, if that is higher.
func (t *ackTracker) raise(ackFloor uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ackFloor <= t.ackFloor {
		return
	}
	t.ackFloor = ackFloor
	for i := 0; i < len(t.tracked) && t.tracked[i].seq <= ackFloor; i++ {
		if d := &t.tracked[i]; !d.acked {
			d.acked = true
			t.acked++
		}
	}
	t.advance()
}

// advance moves the position to the delivery before the first one without acknowledgement.
func (t *ackTracker) advance() {
	for len(t.tracked) > 0 && t.tracked[0].acked {
		t.tracked = t.tracked[1:]
		t.acked--
	}
	last := t.highest
	if len(t.tracked) > 0 {
		last = t.tracked[0].before
	}
	t.ackFloor = max(t.ackFloor, last)
}

// restart is called before the server redelivers everything after its ack floor, contiguous or not. After a contiguous restart the tracker still has the
// acknowledgements above the ack floor: the reader repeats them, and the caller does not get those messages again.
func (t *ackTracker) restart(contiguous bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.untracked = !contiguous; t.untracked {
		t.tracked, t.acked, t.highest = nil, 0, 0
	}
}

// clear removes all deliveries.
func (t *ackTracker) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ackFloor, t.highest, t.tracked, t.acked = 0, 0, nil, 0
}

func (t *ackTracker) acknowledged() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ackFloor
}

func (t *ackTracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

func (t *ackTracker) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Acknowledged returns the sequence up to which everything is acknowledged, as far as this reader knows. It may be called at any time.
func (p *Pinned) Acknowledged() uint64 { return p.acks.acknowledged() }

// Receipt acknowledges one delivery.
type Receipt struct {
	seq   uint64
	reply string
}

// Receipt returns the Receipt that acknowledges e; it does not keep the content of e.
func (e *Entry) Receipt() Receipt { return Receipt{seq: e.Seq, reply: e.reply} }

// Ack acknowledges deliveries, in any order and from any goroutine, also after Run has returned. A lost acknowledgement causes a redelivery; an acknowledgement
// after a reset, or by a previous client, acknowledges only its message. ErrRecreated: the deliveries are of a stream that was deleted, and an acknowledgement
// would acknowledge another message.
func (p *Pinned) Ack(receipts ...Receipt) error {
	if p.acks.isClosed() {
		return ErrRecreated
	}
	for _, r := range receipts {
		if err := p.conn.Publish(r.reply, nil); err != nil {
			return err
		}
		p.acks.acknowledge(r.seq)
	}
	return nil
}
