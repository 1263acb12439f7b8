package consumers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// confirmations are the records of a Firehose that were handled and are not confirmed.
type confirmations struct {
	slots chan struct{} // has an element for each of these records; nil if records need no confirmation

	mu         sync.Mutex // guards partitions
	partitions []unconfirmed
}

// unconfirmed are those of one partition, in order.
type unconfirmed struct {
	pinned    *jsreader.Pinned // that delivered them; nil while none runs
	records   []deliveredRecord
	first     chunk.Seq // record of this Run, 0 before it
	confirmed chunk.Seq // the last record that was confirmed
}

// deliveredRecord is a record that waits for its confirmation.
type deliveredRecord struct {
	cursor  chunk.Cursor
	receipt jsreader.Receipt
}

// Confirm acknowledges a record that handle got in this Run, and all before it in that partition; see FirehoseConfig.Unconfirmed. A second confirmation of a
// record has no effect. The error reports a position of no such record, or a connection that is closed. Confirm may be called by any goroutine, also while
// handle runs for the record.
func (f *Firehose) Confirm(at PartitionPosition) error {
	c := &f.confirmations
	if c.slots == nil || at.Partition >= len(f.filters) {
		return fmt.Errorf("position %s was not delivered: no record of partition %d waits for a confirmation", at, at.Partition)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.partitions[at.Partition]
	if p.first <= at.Cursor.Seq && at.Cursor.Seq <= p.confirmed {
		return nil
	}
	i, ok := slices.BinarySearchFunc(p.records, at.Cursor.Seq, func(r deliveredRecord, seq chunk.Seq) int { return cmp.Compare(r.cursor.Seq, seq) })
	if !ok || at.Cursor.Anchor != 0 && at.Cursor.Anchor != p.records[i].cursor.Anchor {
		return fmt.Errorf("position %s was not delivered", at)
	}
	return c.confirm(p, i+1)
}

// confirm acknowledges the first n records of a partition. The caller holds the lock.
func (c *confirmations) confirm(p *unconfirmed, n int) error {
	receipts := make([]jsreader.Receipt, n)
	for i, r := range p.records[:n] {
		receipts[i] = r.receipt
	}
	if err := p.pinned.Ack(receipts...); err != nil {
		return err
	}
	p.confirmed = p.records[n-1].cursor.Seq
	c.remove(p, n)
	return nil
}

// AllConfirmed reports whether no record that handle got in this Run waits for its confirmation.
func (f *Firehose) AllConfirmed() bool {
	for p := range f.filters {
		if f.confirmations.wait(p) {
			return false
		}
	}
	return true
}

// wait reports whether records of a partition wait for their confirmation.
func (c *confirmations) wait(partition int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots != nil && len(c.partitions[partition].records) > 0
}

// remove forgets the first n records of a partition, so that others may be handled.
func (c *confirmations) remove(p *unconfirmed, n int) {
	p.records = p.records[n:]
	for range n {
		<-c.slots
	}
}

// begin prepares a partition for the records of a Run.
func (c *confirmations) begin(partition int, pinned *jsreader.Pinned) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitions[partition] = unconfirmed{pinned: pinned}
}

// end forgets the records of a partition. The next Run gets them again.
func (c *confirmations) end(partition int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.partitions[partition]
	c.remove(p, len(p.records))
}

// deliver waits until a record may be handled, and adds it: the confirmation may come before handle returns.
func (c *confirmations) deliver(ctx context.Context, partition int, e *jsreader.Entry) error {
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.partitions[partition]
	if p.first == 0 {
		p.first = chunk.Seq(e.Seq)
	}
	p.records = append(p.records, deliveredRecord{
		cursor: cursorOf(e), receipt: e.Receipt(),
	})
	return nil
}
