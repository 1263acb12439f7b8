package consumers

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tailrace/tailrace/chunk"
)

// marker is a truncated record: the word of a writer that a clean-up removed
// certain records.
type marker struct {
	seq  chunk.Seq
	body chunk.Truncated
}

// hole is a run of ordinals, both ends included, that a reader did not find.
type hole struct{ first, last chunk.Ordinal }

// explains reports whether the markers together list every ordinal of h.
func explains(markers []marker, h hole) bool {
	var ranges []hole
	for _, m := range markers {
		for _, r := range m.body.Removed {
			if r.First >= 1 && r.Last >= r.First {
				ranges = append(ranges, hole{chunk.Ordinal(r.First), chunk.Ordinal(r.Last)})
			}
		}
	}
	slices.SortFunc(ranges, func(a, b hole) int { return cmp.Compare(a.first, b.first) })
	next := h.first // the first ordinal that nobody has explained yet
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

// upTo is the markers that were in the log when it ended at seq.
func upTo(markers []marker, seq chunk.Seq) []marker {
	i, _ := slices.BinarySearchFunc(markers, seq+1, func(m marker, seq chunk.Seq) int { return cmp.Compare(m.seq, seq) })
	return markers[:i]
}

// overlaps reports whether m lists an ordinal of h.
func (m marker) overlaps(h hole) bool {
	return slices.ContainsFunc(m.body.Removed, func(r chunk.OrdinalRange) bool {
		return r.First <= r.Last && r.Last >= 1 && chunk.Ordinal(r.Last) >= h.first && chunk.Ordinal(max(r.First, 0)) <= h.last
	})
}

// markers reads a tape to its end for truncated records. It also says how far
// it read.
func (r *Reader) markers(ctx context.Context, spec tapeSpec) ([]marker, chunk.Seq, error) {
	t := r.newTape(spec)
	defer t.close()
	if err := t.open(ctx); err != nil {
		return nil, 0, err
	}
	end := t.state.last // of now: a writer may be faster than this
	var found []marker
	fences := map[string]chunk.Epoch{}
	for {
		e, err := t.next(ctx)
		if errors.Is(err, errEnd) {
			err = r.reallyTheEnd(ctx, t, end)
			if errors.Is(err, errEnd) {
				return found, t.last(), nil
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, 0, err
		}
		if overtaken(fences, &e) {
			continue
		}
		if m, ok := r.marker(&e); ok {
			found = append(found, m)
		}
	}
}

// overtaken reports whether the writer of e was, by what was seen of its
// session. The word of such a writer explains nothing.
func overtaken(fences map[string]chunk.Epoch, e *entry) bool {
	epoch, _, ok := chunk.ParseEventID(e.header.Get("ce-id"))
	if !ok {
		return false
	}
	highest := fences[e.subject]
	if epoch > highest {
		fences[e.subject] = epoch
	}
	return epoch < highest
}

// marker reads e if it is a truncated record. Whatever is none, or is broken,
// explains nothing.
func (r *Reader) marker(e *entry) (marker, bool) {
	if t := typeOf(e.header); t != "" && t != chunk.TypeTruncated {
		return marker{}, false
	}
	s, err := r.sessionOf(e.subject)
	if err != nil {
		return marker{}, false
	}
	rec, err := e.record(s)
	if err != nil {
		return marker{}, false
	}
	return markerOf(rec)
}

func markerOf(rec chunk.Record) (marker, bool) {
	if rec.Type != chunk.TypeTruncated {
		return marker{}, false
	}
	c, err := rec.Decode()
	if err != nil {
		return marker{}, false
	}
	body, ok := c.Body.(chunk.Truncated)
	return marker{seq: rec.Seq, body: body}, ok
}

// lookout is what was found by reading ahead in one session.
type lookout struct {
	markers []marker
	read    chunk.Seq // everything up to here was looked at
}

// lookAhead gives the markers of a session from seq to the present end, and
// perhaps earlier ones. Several holes are looked into for little more than the
// price of one.
func (rd *reading) lookAhead(ctx context.Context, subject string, seq chunk.Seq) ([]marker, error) {
	l := rd.ahead[subject]
	if l == nil {
		if rd.ahead == nil {
			rd.ahead = make(map[string]*lookout)
		}
		l = &lookout{}
		rd.ahead[subject] = l
	}
	found, read, err := rd.markers(ctx, tapeSpec{stream: rd.stream, filter: subject, after: max(l.read, seq-1)})
	if err != nil {
		return nil, err
	}
	l.markers = append(l.markers, found...)
	l.read = max(l.read, read)
	return l.markers, nil
}

// blame says in err that the clean-up of m is the reason.
func blame(err *chunk.TruncatedError, m marker) {
	step := int(m.body.TruncatedAtStep)
	err.Reason = chunk.TruncatedCleanup
	err.Step = &step
	err.AtSeq = chunk.Seq(m.body.AtSequence)
}
