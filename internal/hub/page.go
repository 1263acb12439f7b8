package hub

import "github.com/tailrace/tailrace/chunk"

// pageBuilder splits the records of a read into segments.
type pageBuilder struct {
	t     *topic
	enc   encoded
	pages []*segment
	tails map[uint32]chunk.Ordinal // last ordinal of each member in the page
	lasts map[uint32]chunk.Seq
	bytes int
}

func (b *pageBuilder) add(rec chunk.Record) {
	f := frame{seq: rec.Seq, ordinal: rec.Ordinal, after: rec.Ordinal - 1, anchor: rec.Anchor(), flags: traitsOf(rec.Type) | proved}
	var removed bool
	f.index, f.kind, removed = b.t.name(rec)
	if removed {
		if _, seen := b.tails[f.index]; !seen {
			b.tails[f.index] = f.after // the next record follows the one before the removed ones
		}
		return
	}
	// The log has explained the gaps between the records that it yields, and knows
	// the record before the page; but only a cursor knows whether its client has it.
	if tail, seen := b.tails[f.index]; seen {
		f.after = tail
	}
	if rec.Type == chunk.TypeTruncated {
		b.t.feed.hub.addMemory(b.t.applyTruncation(rec, b.pages))
	}
	b.tails[f.index] = rec.Ordinal
	b.lasts[f.index] = rec.Seq

	g := b.pages[len(b.pages)-1]
	size := firstSegment
	if !g.fits(b.enc.size()) {
		g.to = g.last()
		size = g.nextSize()
		g = &segment{from: g.to}
		b.pages = append(b.pages, g)
	}
	g.used.Store(b.t.feed.hub.clock.Load())
	g.add(f, &b.enc, size)
	b.bytes += max(b.enc.size(), int(frameSize)) // a hidden record takes an index entry
}

func (b *pageBuilder) finish(to chunk.Seq) []*segment {
	b.pages[len(b.pages)-1].to = to
	return b.pages
}

// name returns the index of the session and of the type of a record, and reports
// whether a cleanup removes the record.
func (t *topic) name(rec chunk.Record) (index uint32, kind uint16, removed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	index = t.memberIndex(rec.Session.ID)
	m := &t.members[index]
	m.epoch = max(m.epoch, rec.Epoch)
	return index, t.kind(rec.Type), m.isRemoved(rec.Ordinal)
}
