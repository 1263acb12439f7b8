package hub

import "github.com/tailrace/tailrace/chunk"

// pageBuilder cuts what is read into segments.
type pageBuilder struct {
	t     *topic
	enc   encoded
	pages []*segment
	tails map[uint32]chunk.Ordinal // last ordinal of each member in the page
	lasts map[uint32]chunk.Seq
	bytes int
}

func (b *pageBuilder) add(rec chunk.Record) {
	f := frame{seq: rec.Seq, ordinal: rec.Ordinal, after: rec.Ordinal - 1, traits: traitsOf(rec.Type) | proved}
	var removed bool
	f.who, f.kind, removed = b.t.name(rec)
	if removed {
		if _, seen := b.tails[f.who]; !seen {
			b.tails[f.who] = f.after // what comes next follows what came before
		}
		return
	}
	// The log explains the holes it yields, and has found what lies before the
	// page; but only a cursor knows whether its client got that.
	if tail, seen := b.tails[f.who]; seen {
		f.after = tail
	}
	if rec.Type == chunk.TypeTruncated {
		b.t.part.hub.charge(b.t.meetMark(rec, b.pages))
	}
	b.tails[f.who] = rec.Ordinal
	b.lasts[f.who] = rec.Seq

	g := b.pages[len(b.pages)-1]
	size := firstSegment
	if !g.fits(b.enc.size()) {
		g.to = g.last()
		size = min(2*cap(g.wire), maxSegment)
		g = &segment{from: g.to}
		b.pages = append(b.pages, g)
	}
	g.used.Store(b.t.part.hub.clock.Load())
	g.add(f, &b.enc, size)
	b.bytes += b.enc.size()
}

func (b *pageBuilder) finish(to chunk.Seq) []*segment {
	b.pages[len(b.pages)-1].to = to
	return b.pages
}

// name numbers the session and the type of a record that was read, and tells
// whether a clean-up is about to remove it.
func (t *topic) name(rec chunk.Record) (who uint32, kind uint16, removed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	who = t.who(rec.Session.ID)
	m := &t.members[who]
	m.epoch = max(m.epoch, rec.Epoch)
	return who, t.kind(rec.Type), m.isRemoved(rec.Ordinal)
}
