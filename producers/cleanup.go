package producers

import (
	"context"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// CleanupToStep removes the chunks of this session with a step higher than step and a sequence higher than minSeq (0: no limit), and returns their number.
// Control records stay (docs/protocol/stream.md#helix-3.5), and so do, for a Run of Continue, the chunks of earlier runs: its input comes from a client that may
// write this run, which is not a right to delete the conversation before it.
//
// It stores the queued records, then a truncation record that lists the removed chunks, and then deletes the messages one by one. If there is nothing to
// remove it writes nothing. No record is written after the truncation record before the last delete is done: if this process crashes in between, the
// truncation record is the last of the session, and the next Start finds it and completes the deletes. If the deletes fail for longer than
// Config.RetryTimeout, the error reports it; the next write retries them first.
//
// Chunks that are emitted on this Run concurrently are not removed.
func (r *Run) CleanupToStep(ctx context.Context, step int64, minSeq chunk.Seq) (removed int, err error) {
	select { // one at a time: two would list the same chunks and count them twice
	case r.cleaning <- struct{}{}:
		defer func() { <-r.cleaning }()
	case <-ctx.Done():
		return 0, r.notStored(chunk.Chunk{Body: chunk.Truncated{}}, ctx.Err())
	}
	at, err := r.Flush(ctx)
	if err != nil {
		return 0, err
	}
	toRemove, minSeq, err := r.findRemovable(ctx, step, minSeq, at.Seq)
	if err != nil {
		return 0, r.notStored(chunk.Chunk{Body: chunk.Truncated{}}, fmt.Errorf("read the session: %w", err))
	}
	for piece := range slices.Chunk(toRemove, maxRemoved) {
		mark := chunk.Truncated{
			TruncatedAtStep: step,
			MinSequence:     int64(minSeq),
			FromSequence:    int64(piece[0].Seq),
			AtSequence:      int64(at.Seq),
			Removed:         rangesOf(piece),
		}
		if err := r.appendTruncation(ctx, mark, piece); err != nil {
			return removed, err
		}
		removed += len(piece)
	}
	return removed, nil
}

// maxRemoved limits the list of one truncation record: without adjacent ordinals it has about fifty bytes for each.
const maxRemoved = 4096

// findRemovable reads the session after minSeq through a sequence, and returns the chunks that a cleanup removes, and the sequence after which they are.
func (r *Run) findRemovable(ctx context.Context, step int64, minSeq, through chunk.Seq) (toRemove []chunk.Position, after chunk.Seq, err error) {
	var highest chunk.Epoch
	for m, err := range r.log.scan(ctx, scanRange{after: minSeq, through: through}) {
		if err != nil {
			return nil, 0, err
		}
		rec, err := codec.Decode(codec.Stored{Session: r.session, Seq: m.seq, At: m.stored, Header: m.header, Data: m.data})
		if err != nil || rec.Epoch < highest {
			continue // readers skip it, and its ordinal is not valid
		}
		highest = rec.Epoch
		if rec.Epoch < r.continues {
			minSeq = rec.Seq
			continue
		}
		if rec.Type.Control() {
			continue
		}
		if c, err := rec.Decode(); err == nil && c.Step > step {
			toRemove = append(toRemove, rec.Position())
		}
	}
	return toRemove, minSeq, nil
}

// rangesOf joins adjacent ordinals.
func rangesOf(ps []chunk.Position) []chunk.OrdinalRange {
	var all []chunk.OrdinalRange
	for _, p := range ps {
		o := int64(p.Ordinal)
		if n := len(all); n > 0 && all[n-1].Last+1 == o {
			all[n-1].Last = o
			continue
		}
		all = append(all, chunk.OrdinalRange{First: o, Last: o})
	}
	return all
}

// appendTruncation queues a truncation record with its deletes, and waits for both. It ignores the limit of the queue and earlier failures.
func (r *Run) appendTruncation(ctx context.Context, mark chunk.Truncated, toRemove []chunk.Position) error {
	c := r.chunk(mark)
	it, err := r.prepareWhole(ctx, c)
	if err != nil {
		return r.notStored(c, err)
	}
	for _, p := range toRemove {
		it.deletes = append(it.deletes, p.Seq)
	}
	r.mu.Lock()
	err = r.rejectReason(it.typ)
	if err == nil {
		r.expedite(it)
		r.queue.push(it)
		r.wakePump()
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.await(ctx, it)
}

// runDeletes runs the pending deletes, on the pump. Completed deletes are not repeated if a later one fails.
func (r *Run) runDeletes() error {
	if len(r.pendingDeletes) == 0 {
		return nil
	}
	total := len(r.pendingDeletes)
	err := r.delete(r.ctx, &r.pendingDeletes)
	if err != nil {
		return fmt.Errorf("cleanup: %d of %d deletes pending: %w", len(r.pendingDeletes), total, err)
	}
	r.pendingDeletes = nil
	return nil
}

func (r *Run) delete(ctx context.Context, seqs *[]chunk.Seq) error {
	for len(*seqs) > 0 {
		err := r.retry(ctx, func(ctx context.Context) error { return r.log.remove(ctx, (*seqs)[0]) })
		if err != nil {
			return err
		}
		*seqs = (*seqs)[1:]
	}
	return nil
}

// finishCleanup runs the deletes of a truncation record at the end of the session, whose writer may have crashed before it completed them. It runs before the
// run_started record is written, because the truncation record is found only while it is the last one. The deletes are idempotent.
func (r *Run) finishCleanup(ctx context.Context, h logEnd) error {
	if h.mark == nil {
		return nil
	}
	mark, ok := h.mark.Body.(chunk.Truncated)
	if !ok {
		return nil
	}
	var seqs []chunk.Seq
	err := r.retry(ctx, func(ctx context.Context) (err error) {
		seqs, err = r.findTruncated(ctx, mark, h.pos.Seq)
		return err
	})
	if err == nil {
		err = r.delete(ctx, &seqs)
	}
	if err != nil {
		return fmt.Errorf("finish the cleanup of sequence %d: %w", h.pos.Seq, err)
	}
	return nil
}

// findTruncated returns the remaining messages that a truncation record lists.
func (r *Run) findTruncated(ctx context.Context, mark chunk.Truncated, at chunk.Seq) ([]chunk.Seq, error) {
	var seqs []chunk.Seq
	after := chunk.Seq(max(0, mark.FromSequence-1))
	for m, err := range r.log.scan(ctx, scanRange{after: after, through: at, headersOnly: true}) {
		if err != nil {
			return nil, err
		}
		_, ordinal, ok := chunk.ParseEventID(headerOf(m.header, headerID))
		if ok && !chunk.Type(headerOf(m.header, headerType)).Control() && mark.Removes(ordinal) {
			seqs = append(seqs, m.seq)
		}
	}
	return seqs, nil
}
