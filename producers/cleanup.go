package producers

import (
	"context"
	"fmt"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
)

// CleanupToStep takes back the chunks of this session with a step higher than
// step and a sequence higher than floor (0: no floor), and returns how many.
// The stream's own records stay. (helix.md 3.5)
//
// It stores what is queued, then a truncated record that lists what goes, and
// then deletes the messages one by one. When nothing is to go it writes
// nothing. Nothing is written behind the mark before the last delete is done:
// if this process dies in between, the mark is the session's last record, and
// the next Start finds it and finishes. If the deletes fail for longer than
// Config.Patience, the error says so; the next write tries them again first.
//
// Chunks that others emit on this Run while it looks are not taken back.
func (r *Run) CleanupToStep(ctx context.Context, step int64, floor chunk.Seq) (removed int, err error) {
	select { // one at a time: two would promise the same deletes and count them twice
	case r.cleaning <- struct{}{}:
		defer func() { <-r.cleaning }()
	case <-ctx.Done():
		return 0, r.notStored(chunk.Chunk{Body: chunk.Truncated{}}, ctx.Err())
	}
	at, err := r.Flush(ctx)
	if err != nil {
		return 0, err
	}
	doomed, err := r.findDoomed(ctx, step, floor, at.Seq)
	if err != nil {
		return 0, r.notStored(chunk.Chunk{Body: chunk.Truncated{}}, fmt.Errorf("read the session: %w", err))
	}
	for piece := range slices.Chunk(doomed, maxRemoved) {
		mark := chunk.Truncated{
			TruncatedAtStep: step,
			MinSequence:     int64(floor),
			FromSequence:    int64(piece[0].Seq),
			AtSequence:      int64(at.Seq),
			Removed:         rangesOf(piece),
		}
		if err := r.writeMark(ctx, mark, piece); err != nil {
			return removed, err
		}
		removed += len(piece)
	}
	return removed, nil
}

// maxRemoved bounds the list of one mark: if no two ordinals were neighbours,
// it would have some fifty bytes for each.
const maxRemoved = 4096

// findDoomed reads the session after floor, up to and with through, and picks
// what a clean-up takes back.
func (r *Run) findDoomed(ctx context.Context, step int64, floor, through chunk.Seq) ([]chunk.Position, error) {
	var doomed []chunk.Position
	var highest chunk.Epoch
	for m, err := range r.log.scan(ctx, scanRange{after: floor, through: through}) {
		if err != nil {
			return nil, err
		}
		rec, err := codec.Decode(r.session, m.seq, m.stored, m.header, m.data)
		if err != nil || rec.Epoch < highest {
			continue // no record to any reader; its ordinal means nothing
		}
		highest = rec.Epoch
		if rec.Type.Control() {
			continue
		}
		if c, err := rec.Decode(); err == nil && c.Step > step {
			doomed = append(doomed, rec.Position())
		}
	}
	return doomed, nil
}

// rangesOf joins neighbours.
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

// writeMark queues the mark with the deletes that it promises, and waits for
// both. It goes past the limit of the queue and past losses.
func (r *Run) writeMark(ctx context.Context, mark chunk.Truncated, doomed []chunk.Position) error {
	c := r.chunk(mark)
	it, err := r.prepareWhole(c)
	if err != nil {
		return r.notStored(c, err)
	}
	for _, p := range doomed {
		it.owes = append(it.owes, p.Seq)
	}
	r.mu.Lock()
	err = r.refusal(it.typ)
	if err == nil {
		r.attend(it)
		r.queue.push(it)
		r.kick()
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.await(ctx, it)
}

// pay does the deletes that are owed, on the pump. What is done is not owed any
// more, whatever becomes of the rest.
func (r *Run) pay() error {
	if len(r.owed) == 0 {
		return nil
	}
	total := len(r.owed)
	err := r.delete(r.ctx, &r.owed)
	if err != nil {
		return fmt.Errorf("a clean-up is marked, and %d of its %d deletes are not done: %w", len(r.owed), total, err)
	}
	r.owed = nil
	return nil
}

func (r *Run) delete(ctx context.Context, seqs *[]chunk.Seq) error {
	for len(*seqs) > 0 {
		err := r.persist(ctx, func(ctx context.Context) error { return r.log.remove(ctx, (*seqs)[0]) })
		if err != nil {
			return err
		}
		*seqs = (*seqs)[1:]
	}
	return nil
}

// finishCleanup does the deletes that a mark at the end of the session
// promises. Its writer may have died among them. It comes before our
// run_started, because the mark can be found only while it is the last record;
// and whoever does it, and how often, makes no difference.
func (r *Run) finishCleanup(ctx context.Context, h head) error {
	if h.mark == nil {
		return nil
	}
	mark, ok := h.mark.Body.(chunk.Truncated)
	if !ok {
		return nil
	}
	var seqs []chunk.Seq
	err := r.persist(ctx, func(ctx context.Context) (err error) {
		seqs, err = r.findMarked(ctx, mark, h.pos.Seq)
		return err
	})
	if err == nil {
		err = r.delete(ctx, &seqs)
	}
	if err != nil {
		return fmt.Errorf("finish the clean-up marked at %d: %w", h.pos.Seq, err)
	}
	return nil
}

// findMarked finds what is left of the messages that a mark lists.
func (r *Run) findMarked(ctx context.Context, mark chunk.Truncated, at chunk.Seq) ([]chunk.Seq, error) {
	var seqs []chunk.Seq
	after := chunk.Seq(max(0, mark.FromSequence-1))
	for m, err := range r.log.scan(ctx, scanRange{after: after, through: at, headersOnly: true}) {
		if err != nil {
			return nil, err
		}
		_, ordinal, ok := chunk.ParseEventID(headerOf(m.header, headerID))
		if ok && !chunk.Type(headerOf(m.header, headerType)).Control() && listed(mark.Removed, ordinal) {
			seqs = append(seqs, m.seq)
		}
	}
	return seqs, nil
}

func listed(ranges []chunk.OrdinalRange, o chunk.Ordinal) bool {
	return slices.ContainsFunc(ranges, func(r chunk.OrdinalRange) bool {
		return r.First <= int64(o) && int64(o) <= r.Last
	})
}
