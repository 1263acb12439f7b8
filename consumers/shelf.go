package consumers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/archive"
)

// shelf is the archive of one session under a read. It was held against the log
// when the read began: the log had then exactly what the archive has. What is
// removed from the log under the read is given out all the same, as by a
// consumer that had it on its way.
//
// Whatever goes wrong with an archive is no error of a read, which then goes on
// from the log where the archive ended.
type shelf struct {
	*Reader

	session chunk.Session
	index   *archive.Index
	next    int            // segment to be loaded next
	segment []chunk.Record // the one before
	loaded  []chunk.Record // of that, not given yet
	markers []marker       // all of the archive, once searched for
	search  bool           // markers are known
}

// openShelves begins a read from archives, as far as there are any; a session of
// the tree that has none is read from the log. It reports whether it did. After
// any doubt it did not: then the read begins as if there were no archives.
func (rd *reading) openShelves(ctx context.Context) bool {
	var indexes map[string]*archive.Index
	err := rd.api.attempt(ctx, func(ctx context.Context) (err error) {
		indexes, err = rd.indexes(ctx)
		return err
	})
	if err != nil {
		rd.cfg.Log.Debug("archives cannot be looked for", slog.Any("error", err))
	}
	if err != nil || len(indexes) == 0 {
		return false
	}
	err = rd.api.attempt(ctx, func(ctx context.Context) error { return rd.fill(ctx, indexes) })
	if err != nil && !errors.Is(err, errNoShelf) {
		rd.cfg.Log.Debug("archives cannot be read", slog.Any("error", err))
	}
	if err != nil && rd.strands != nil {
		rd.strands.close()
		rd.strands, rd.tape = nil, nil
	}
	return err == nil
}

// errNoShelf: no archive says what the log says, or the rest is too much for
// strands.
var errNoShelf = errors.New("no archive fits")

// indexes are those of the scope, by the subject of their session in the log.
func (rd *reading) indexes(ctx context.Context) (map[string]*archive.Index, error) {
	layout, found := rd.cfg.Layout, make(map[string]*archive.Index)
	keys := []string{}
	if rd.scope == chunk.ScopeSession {
		key, err := archive.IndexKey(layout, rd.session)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	} else {
		filter, err := archive.TreeIndexKeys(layout, rd.session)
		if err != nil {
			return nil, err
		}
		_, there, err := rd.api.list(ctx, archive.Stream(layout), filter)
		if err != nil {
			return nil, err
		}
		for key := range there {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		m, err := rd.api.lastOf(ctx, archive.Stream(layout), key)
		if errors.Is(err, errMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s, err := archive.SessionOf(layout, key)
		if err != nil {
			return nil, err
		}
		subject, err := layout.Subject(s)
		if err != nil {
			return nil, err
		}
		if found[subject], err = archive.ReadIndex(m.data); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// fill makes the strands, with a shelf where the archive fits.
func (rd *reading) fill(ctx context.Context, indexes map[string]*archive.Index) error {
	state, counts, err := rd.api.list(ctx, rd.stream, rd.filter)
	if err != nil {
		return err
	}
	if rd.after.Seq > state.last {
		return errNoShelf
	}
	rd.strands = &strands{Reader: rd.Reader, end: state.last}
	shelved := 0
	for subject, count := range counts {
		st := &strand{tape: rd.newTape(tapeSpec{stream: rd.stream, filter: subject, after: rd.after.Seq, share: len(counts)})}
		st.mark.created, st.state = state.created, state
		if x := indexes[subject]; x != nil {
			if st.shelf, err = rd.shelf(ctx, subject, x, state, count); err != nil {
				return err
			}
		}
		rd.strands.open = append(rd.strands.open, st)
		if st.shelf != nil {
			st.left = st.shelf.left()
			shelved++
		}
	}
	if shelved == 0 || len(counts)-shelved > mostStrands {
		return errNoShelf
	}
	return rd.openRest(ctx)
}

// shelf is the archive of a session if it fits; nil if not, or if all of it lies
// before the position.
func (rd *reading) shelf(ctx context.Context, subject string, x *archive.Index, state streamState, count uint64) (*shelf, error) {
	last, err := rd.api.lastOf(ctx, rd.stream, subject) // after the count, see Fits
	if errors.Is(err, errMissing) {
		return nil, nil //nolint:nilnil // it was purged meanwhile
	}
	if err != nil {
		return nil, err
	}
	if !x.Fits(state.created, count, archive.Tail{Seq: last.seq, Stored: last.time.UnixNano()}) || last.seq <= rd.after.Seq {
		return nil, nil //nolint:nilnil // nothing is the answer
	}
	s, err := rd.sessionOf(subject)
	if err != nil {
		return nil, err
	}
	sh := &shelf{Reader: rd.Reader, session: s, index: x}
	sh.next = sort.Search(len(x.Segments), func(i int) bool { return x.Segments[i].Last > rd.after.Seq })
	if err := sh.load(ctx); err != nil {
		return nil, err
	}
	sh.loaded = slices.DeleteFunc(sh.loaded, func(rec chunk.Record) bool { return rec.Seq <= rd.after.Seq })
	return sh, nil
}

// openRest attaches the strands that have no shelf. tape is one of those, if
// there are any.
func (rd *reading) openRest(ctx context.Context) error {
	for _, st := range rd.strands.open {
		if st.shelf != nil {
			if rd.tape == nil {
				rd.tape = st.tape
			}
			continue
		}
		rd.tape = st.tape
		if err := st.open(ctx); err != nil {
			return err
		}
	}
	return rd.strands.ask(ctx)
}

// left is how many records the archive has from here on.
func (sh *shelf) left() uint64 {
	n := len(sh.loaded)
	for _, segment := range sh.index.Segments[sh.next:] {
		n += segment.Count
	}
	return uint64(n)
}

// take is the next record, which stays until the one after it is taken; errEnd at
// the end.
func (sh *shelf) take(ctx context.Context) (*chunk.Record, error) {
	if len(sh.loaded) == 0 {
		if sh.next == len(sh.index.Segments) {
			return nil, errEnd
		}
		if err := sh.api.attempt(ctx, sh.load); err != nil {
			return nil, err
		}
	}
	rec := &sh.loaded[0]
	sh.loaded = sh.loaded[1:]
	return rec, nil
}

// load gets the next segment.
func (sh *shelf) load(ctx context.Context) (err error) {
	if sh.loaded, err = sh.fetch(ctx, sh.segment[:0], sh.index.Segments[sh.next]); err == nil {
		sh.segment = sh.loaded
		sh.next++
	}
	return err
}

// fetch appends the records of a segment to dst.
func (sh *shelf) fetch(ctx context.Context, dst []chunk.Record, segment archive.Segment) ([]chunk.Record, error) {
	m, err := sh.api.leader(ctx, archive.Stream(sh.cfg.Layout), getRequest{Seq: chunk.Seq(segment.At)})
	if err != nil {
		return nil, err
	}
	return archive.Unpack(dst, sh.session, segment, m.data)
}

// explains reports whether markers of the archive at or behind seq list every
// ordinal of h. All of them are older than the read.
func (sh *shelf) explains(ctx context.Context, h hole, seq chunk.Seq) bool {
	if !sh.search {
		sh.search = true
		var records []chunk.Record
		for _, segment := range sh.index.Segments {
			var err error
			if records, err = sh.fetch(ctx, records[:0], segment); err != nil {
				return false // the log will tell
			}
			for _, rec := range records {
				if m, ok := markerOf(rec); ok {
					sh.markers = append(sh.markers, m)
				}
			}
		}
	}
	return explains(slices.DeleteFunc(slices.Clone(sh.markers), func(m marker) bool { return m.seq < seq }), h)
}

// next is the next message of the strand.
func (st *strand) next(ctx context.Context) (entry, error) {
	if st.shelf == nil {
		return st.tape.next(ctx)
	}
	rec, err := st.shelf.take(ctx)
	if err == nil {
		e := entry{seq: rec.Seq, subject: st.spec.filter, stored: rec.Stored.UnixNano(), archived: rec}
		st.mark.move(&e)
		st.left--
		st.shelf.archived.Add(1)
		return e, nil
	}
	if errors.Is(err, errEnd) || ctx.Err() != nil {
		return entry{}, err
	}
	st.cfg.Log.Debug("an archive is given up, the log is read", slog.Any("session", st.shelf.session), slog.Any("error", err))
	st.shelf, st.left = nil, 0
	st.begun = true // so that it is held against what was given out
	if err := st.open(ctx); err != nil {
		return entry{}, err
	}
	return st.tape.next(ctx)
}

// shelfOf is the shelf that a subject is read from now, nil for none.
func (rd *reading) shelfOf(subject string) *shelf {
	if rd.strands == nil {
		return nil
	}
	for _, st := range rd.strands.open {
		if st.spec.filter == subject {
			return st.shelf
		}
	}
	return nil
}
