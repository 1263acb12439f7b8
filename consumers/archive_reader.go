package consumers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
)

// archiveReader reads the archive of one session. When the read began, the log had exactly what the archive has. Records that are removed from the log
// during the read are still delivered, as by a consumer that had them in flight.
//
// An error of an archive is not an error of the read, which then continues from the log after the last record that was delivered.
type archiveReader struct {
	*Reader

	session     chunk.Session
	index       *archive.Index
	next        int                // segment to load next
	segment     []chunk.Record     // the previous segment
	loaded      []chunk.Record     // of it, not returned yet
	truncations []truncationRecord // all of the archive, once searched
	search      bool               // truncations are known
}

// openArchives begins a read from archives, as far as there are any; a session of the tree without one is read from the log. It reports whether it did.
// After any error it returns false, and the read begins as if there were no archives.
func (rd *readState) openArchives(ctx context.Context) bool {
	var indexes map[string]*archive.Index
	err := rd.client.Attempt(ctx, func(ctx context.Context) (err error) {
		indexes, err = rd.indexes(ctx)
		return err
	})
	if err != nil {
		rd.cfg.Log.Debug("archives not listed", slog.Any("error", err))
	}
	if err != nil || len(indexes) == 0 {
		return false
	}
	err = rd.client.Attempt(ctx, func(ctx context.Context) error { return rd.buildReaders(ctx, indexes) })
	if err != nil && !errors.Is(err, errNoArchive) {
		rd.cfg.Log.Debug("archives not read", slog.Any("error", err))
	}
	if err != nil && rd.merge != nil {
		rd.merge.close()
		rd.merge, rd.ordered = nil, nil
	}
	return err == nil
}

// errNoArchive: no archive has exactly what the log has, or too many sessions have none.
var errNoArchive = errors.New("no matching archive")

// indexes returns the archive indexes of the scope, by the subject of their session in the log.
func (rd *readState) indexes(ctx context.Context) (map[string]*archive.Index, error) {
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
		state, err := rd.client.State(ctx, archive.Stream(layout), filter)
		if err != nil {
			return nil, err
		}
		for key := range state.Subjects {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		m, err := rd.client.Last(ctx, archive.Stream(layout), key)
		if errors.Is(err, jsclient.ErrNotFound) {
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
		if found[subject], err = archive.ReadIndex(m.Data); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// buildReaders creates the readers of the merge, with an archive where it matches the log.
func (rd *readState) buildReaders(ctx context.Context, indexes map[string]*archive.Index) error {
	state, err := rd.client.State(ctx, rd.stream, rd.filter)
	if err != nil {
		return err
	}
	counts := state.Subjects
	if rd.after.Seq > chunk.Seq(state.Last) {
		return errNoArchive
	}
	rd.state = state
	rd.merge = &mergeReader{Reader: rd.Reader, end: state.Last}
	archived := 0
	for subject, count := range counts {
		st := &sessionReader{Ordered: rd.newOrdered(jsreader.OrderedConfig{
			Stream: rd.stream, Filter: subject, After: uint64(rd.after.Seq), Created: state.Created, Share: len(counts),
		})}
		if x := indexes[subject]; x != nil {
			if st.archive, err = rd.archiveReader(ctx, subject, x, state, count); err != nil {
				return err
			}
		}
		rd.merge.open = append(rd.merge.open, st)
		if st.archive != nil {
			st.unread = st.archive.left()
			archived++
		}
	}
	if archived == 0 || len(counts)-archived > maxMergeSessions {
		return errNoArchive
	}
	return rd.openUnarchived(ctx)
}

// archiveReader returns the archive of a session if it matches the log; nil if not, or if all of it is before the position.
func (rd *readState) archiveReader(ctx context.Context, subject string, x *archive.Index, state jsclient.State, count uint64) (*archiveReader, error) {
	last, err := rd.client.Last(ctx, rd.stream, subject) // after the count, see MatchesLog
	if errors.Is(err, jsclient.ErrNotFound) {
		return nil, nil //nolint:nilnil // purged meanwhile
	}
	if err != nil {
		return nil, err
	}
	if !x.MatchesLog(state.Created, count, archive.LastMessage{Seq: chunk.Seq(last.Seq), Stored: last.Stored.UnixNano()}) || chunk.Seq(last.Seq) <= rd.after.Seq {
		return nil, nil //nolint:nilnil // none is a valid result
	}
	s, err := rd.sessionOf(subject)
	if err != nil {
		return nil, err
	}
	sh := &archiveReader{Reader: rd.Reader, session: s, index: x}
	sh.next = sort.Search(len(x.Segments), func(i int) bool { return x.Segments[i].Last > rd.after.Seq })
	if err := sh.load(ctx); err != nil {
		return nil, err
	}
	sh.loaded = slices.DeleteFunc(sh.loaded, func(rec chunk.Record) bool { return rec.Seq <= rd.after.Seq })
	return sh, nil
}

// openUnarchived attaches the readers without an archive. ordered is one of those, if there are any.
func (rd *readState) openUnarchived(ctx context.Context) error {
	for _, st := range rd.merge.open {
		if st.archive != nil {
			if rd.ordered == nil {
				rd.ordered = st.Ordered
			}
			continue
		}
		rd.ordered = st.Ordered
		if err := st.Open(ctx); err != nil {
			return err
		}
		rd.state = st.State()
	}
	return rd.merge.ask(ctx)
}

// left returns how many records the archive has from here on.
func (sh *archiveReader) left() uint64 {
	n := len(sh.loaded)
	for _, segment := range sh.index.Segments[sh.next:] {
		n += segment.Count
	}
	return uint64(n)
}

// take returns the next record, which is valid until the next call; jsreader.ErrEnd at the end.
func (sh *archiveReader) take(ctx context.Context) (*chunk.Record, error) {
	if len(sh.loaded) == 0 {
		if sh.next == len(sh.index.Segments) {
			return nil, jsreader.ErrEnd
		}
		if err := sh.client.Attempt(ctx, sh.load); err != nil {
			return nil, err
		}
	}
	rec := &sh.loaded[0]
	sh.loaded = sh.loaded[1:]
	return rec, nil
}

// load reads the next segment.
func (sh *archiveReader) load(ctx context.Context) (err error) {
	if sh.loaded, err = sh.fetch(ctx, sh.segment[:0], sh.index.Segments[sh.next]); err == nil {
		sh.segment = sh.loaded
		sh.next++
	}
	return err
}

// fetch appends the records of a segment to dst.
func (sh *archiveReader) fetch(ctx context.Context, dst []chunk.Record, segment archive.Segment) ([]chunk.Record, error) {
	m, err := sh.client.At(ctx, archive.Stream(sh.cfg.Layout), segment.Seq)
	if err != nil {
		return nil, err
	}
	return archive.Unpack(dst, sh.session, segment, m.Data)
}

// explains reports whether truncated records of the archive from seq on list every ordinal of h. All of them are older than the read.
func (sh *archiveReader) explains(ctx context.Context, h gap, seq chunk.Seq) bool {
	if !sh.search {
		sh.search = true
		var records []chunk.Record
		for _, segment := range sh.index.Segments {
			var err error
			if records, err = sh.fetch(ctx, records[:0], segment); err != nil {
				return false // the log decides
			}
			for _, rec := range records {
				if m, ok := truncationOf(rec); ok {
					sh.truncations = append(sh.truncations, m)
				}
			}
		}
	}
	return covers(slices.DeleteFunc(slices.Clone(sh.truncations), func(m truncationRecord) bool { return m.seq < seq }), h)
}

// remaining returns how many messages the session has from here on, by the count of the server or the archive.
func (st *sessionReader) remaining() uint64 {
	if st.archive != nil {
		return st.unread
	}
	return st.Remaining()
}

// next returns the next message of the session.
func (st *sessionReader) next(ctx context.Context) (entry, error) {
	if st.archive == nil {
		e, err := st.Next(ctx)
		return entry{Entry: e}, err
	}
	rec, err := st.archive.take(ctx)
	if err == nil {
		e := entry{archived: rec}
		e.Seq, e.Subject, e.Stored = uint64(rec.Seq), st.Filter(), rec.StoredAt
		st.Advance(e.Seq, e.Stored)
		st.unread--
		st.archive.archived.Add(1)
		return e, nil
	}
	if errors.Is(err, jsreader.ErrEnd) || ctx.Err() != nil {
		return entry{}, err
	}
	st.archive.cfg.Log.Debug("archive not read further, reading the log", slog.Any("session", st.archive.session), slog.Any("error", err))
	st.archive = nil
	st.Resume() // so that the log is compared with what was delivered
	if err := st.Open(ctx); err != nil {
		return entry{}, err
	}
	e, err := st.Next(ctx)
	return entry{Entry: e}, err
}

// archiveOf returns the archive that a subject is read from now, or nil.
func (rd *readState) archiveOf(subject string) *archiveReader {
	if rd.merge == nil {
		return nil
	}
	for _, st := range rd.merge.open {
		if st.Filter() == subject {
			return st.archive
		}
	}
	return nil
}
