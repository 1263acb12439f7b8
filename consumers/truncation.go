package consumers

import (
	"cmp"
	"context"
	"slices"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// truncationRecord is a truncated record, by which a writer declares that a cleanup removed certain records.
type truncationRecord struct {
	seq  chunk.Seq
	body chunk.Truncated
}

// gap is a range of missing ordinals, both ends included.
type gap struct{ first, last chunk.Ordinal }

// removedBy returns the ordinals that the records list.
func removedBy(records []truncationRecord) (removed []chunk.OrdinalRange) {
	for _, m := range records {
		removed = append(removed, m.body.Removed...)
	}
	return removed
}

// covers reports whether removed has every ordinal of h.
func covers(removed []chunk.OrdinalRange, h gap) bool {
	var ranges []gap
	for _, r := range removed {
		if r.First >= 1 && r.Last >= r.First {
			ranges = append(ranges, gap{chunk.Ordinal(r.First), chunk.Ordinal(r.Last)})
		}
	}
	slices.SortFunc(ranges, func(a, b gap) int { return cmp.Compare(a.first, b.first) })
	next := h.first // the first ordinal that is not explained yet
	for _, r := range ranges {
		if r.first > next {
			return false
		}
		if r.last >= h.last {
			return true
		}
		next = max(next, r.last+1)
	}
	return false
}

// upTo returns the records up to a sequence.
func upTo(records []truncationRecord, seq chunk.Seq) []truncationRecord {
	i, _ := slices.BinarySearchFunc(records, seq+1, func(m truncationRecord, seq chunk.Seq) int { return cmp.Compare(m.seq, seq) })
	return records[:i]
}

// overlaps reports whether m lists an ordinal of h.
func (m truncationRecord) overlaps(h gap) bool {
	return slices.ContainsFunc(m.body.Removed, func(r chunk.OrdinalRange) bool {
		return r.First <= r.Last && r.Last >= 1 && chunk.Ordinal(r.Last) >= h.first && chunk.Ordinal(max(r.First, 0)) <= h.last
	})
}

// truncationRecords reads to the end and returns the truncated records, and the sequence up to which it read.
func (r *Reader) truncationRecords(ctx context.Context, cfg jsreader.OrderedConfig) ([]truncationRecord, chunk.Seq, error) {
	t := r.newOrdered(cfg)
	var found []truncationRecord
	fences := map[string]chunk.Epoch{}
	for e, err := range t.All(ctx) {
		if err != nil {
			return nil, 0, err
		}
		if isFenced(fences, &e) {
			continue
		}
		if m, ok := r.truncationRecord(&e); ok {
			found = append(found, m)
		}
	}
	return found, chunk.Seq(t.Last()), nil
}

// isFenced reports whether the writer of e was fenced, according to the earlier records of the session. Its truncated records explain nothing.
func isFenced(fences map[string]chunk.Epoch, e *jsreader.Entry) bool {
	epoch, _, ok := chunk.ParseEventID(e.Header.Get("ce-id"))
	if !ok {
		return false
	}
	highest := fences[e.Subject]
	if epoch > highest {
		fences[e.Subject] = epoch
	}
	return epoch < highest
}

// truncationRecord returns e if it is a valid truncated record.
func (r *Reader) truncationRecord(e *jsreader.Entry) (truncationRecord, bool) {
	if t := typeOf(e.Header); t != "" && t != chunk.TypeTruncated {
		return truncationRecord{}, false
	}
	s, err := r.cfg.Layout.Parse(e.Subject)
	if err != nil {
		return truncationRecord{}, false
	}
	rec, err := decode(e.Message, s)
	if err != nil || rec.Type != chunk.TypeTruncated {
		return truncationRecord{}, false
	}
	body, ok := chunk.BodyOf[chunk.Truncated](rec)
	return truncationRecord{seq: rec.Seq, body: body}, ok
}

// lookahead is the result of reading ahead in one session.
type lookahead struct {
	truncationRecords []truncationRecord
	read              chunk.Seq // everything up to here was read
}

// lookAhead returns the truncated records of a session from seq to the present end, and perhaps earlier ones. Several gaps cost little more than one.
func (rd *readState) lookAhead(ctx context.Context, subject string, seq chunk.Seq) ([]truncationRecord, error) {
	l := rd.lookaheads[subject]
	if l == nil {
		if rd.lookaheads == nil {
			rd.lookaheads = make(map[string]*lookahead)
		}
		l = &lookahead{}
		rd.lookaheads[subject] = l
	}
	found, read, err := rd.truncationRecords(ctx, jsreader.OrderedConfig{Stream: rd.stream, Filter: subject, After: uint64(max(l.read, seq-1))})
	if err != nil {
		return nil, err
	}
	l.truncationRecords = append(l.truncationRecords, found...)
	l.read = max(l.read, read)
	return l.truncationRecords, nil
}

// attributeTo sets the cleanup of m as the reason of err.
func attributeTo(err *chunk.TruncatedError, m truncationRecord) {
	step := int(m.body.TruncatedAtStep)
	err.Reason = chunk.TruncatedCleanup
	err.Step = &step
	err.HighWatermark = chunk.Seq(m.body.AtSequence)
}
