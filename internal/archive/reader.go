package archive

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sort"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jsreader"
	"github.com/tailrace/tailrace/subjects"
)

// Reader opens archives. Its methods may be called concurrently. It tries everything once: an archive that cannot be opened is logged and read as if there
// were none, because the log has the same records.
type Reader struct {
	client *jsclient.Client
	layout subjects.Layout
	log    *slog.Logger
}

// NewReader returns a Reader of the archives of a layout.
func NewReader(client *jsclient.Client, layout subjects.Layout, log *slog.Logger) *Reader {
	return &Reader{client: client, layout: layout, log: log}
}

// Indexes returns the indexes of the archives of s, or with chunk.ScopeTree of all sessions of its tree, by the subject of the session in the log.
func (r *Reader) Indexes(ctx context.Context, s chunk.Session, scope chunk.Scope) (found map[string]*Index) {
	err := r.client.Attempt(ctx, func(ctx context.Context) (err error) {
		found, err = r.indexes(ctx, s, scope)
		return err
	})
	if err != nil {
		r.log.Debug("archives not listed", slog.Any("session", s), slog.Any("error", err))
	}
	return found
}

func (r *Reader) indexes(ctx context.Context, s chunk.Session, scope chunk.Scope) (map[string]*Index, error) {
	keys, err := r.indexKeys(ctx, s, scope)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*Index)
	for _, key := range keys {
		m, err := r.client.Last(ctx, Stream(r.layout), key)
		if errors.Is(err, jsclient.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s, err := SessionOf(r.layout, key)
		if err != nil {
			return nil, err
		}
		subject, err := r.layout.Subject(s)
		if err != nil {
			return nil, err
		}
		if found[subject], err = ReadIndex(m.Data); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// indexKeys returns the key of the index of s, which may not exist, or the keys of all indexes of its tree.
func (r *Reader) indexKeys(ctx context.Context, s chunk.Session, scope chunk.Scope) (keys []string, err error) {
	if scope == chunk.ScopeSession {
		key, err := IndexKey(r.layout, s)
		return []string{key}, err
	}
	filter, err := TreeIndexKeys(r.layout, s)
	if err != nil {
		return nil, err
	}
	state, err := r.client.State(ctx, Stream(r.layout), filter)
	for key := range state.Subjects {
		keys = append(keys, key)
	}
	return keys, err
}

// Open opens the archives that have exactly what the log has, each at its first record after a sequence, and returns them by the subject of the session in
// the log. It omits archives that have no such record. log is the state of the stream with the number of messages of each of the sessions.
func (r *Reader) Open(ctx context.Context, indexes map[string]*Index, log jsclient.State, after chunk.Seq) (sessions map[string]*Session) {
	if len(indexes) == 0 {
		return nil
	}
	err := r.client.Attempt(ctx, func(ctx context.Context) (err error) {
		sessions, err = r.open(ctx, indexes, log, after)
		return err
	})
	if err != nil {
		r.log.Debug("archives not opened", slog.Any("error", err))
	}
	return sessions
}

func (r *Reader) open(ctx context.Context, indexes map[string]*Index, log jsclient.State, after chunk.Seq) (map[string]*Session, error) {
	sessions := make(map[string]*Session)
	for subject, x := range indexes {
		if log.Subjects[subject] == 0 {
			continue
		}
		s, err := r.layout.Parse(subject)
		if err != nil {
			return nil, err
		}
		// After the number of messages, see MatchesLog.
		last, err := r.client.Last(ctx, r.layout.Stream(r.layout.Partition(s)), subject)
		if errors.Is(err, jsclient.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !x.MatchesLog(log.Created, log.Subjects[subject], LastMessage{Seq: chunk.Seq(last.Seq), Stored: last.Stored.UnixNano()}) || x.Last.Seq <= after {
			continue
		}
		a := &Session{Reader: r, session: s, index: x}
		if err := a.begin(ctx, after); err != nil {
			return nil, err
		}
		sessions[subject] = a
	}
	return sessions, nil
}

// Session reads the archive of one session. When it was opened, the log had exactly what the archive has. It also returns records that are removed from the
// log during the read, as a consumer does that has them in flight. A Session belongs to one goroutine. It holds no resources.
type Session struct {
	*Reader

	session chunk.Session
	index   *Index
	next    int            // segment to load next
	segment []chunk.Record // the previous segment
	loaded  []chunk.Record // of it, not returned yet
	left    uint64         // records not returned yet

	truncations []truncation // of the whole archive, once searched
	searched    bool
}

// truncation is a truncated record.
type truncation struct {
	seq     chunk.Seq
	removed []chunk.OrdinalRange
}

// begin loads the segment of the first record after a sequence, so that a missing segment is noticed before the read begins.
func (a *Session) begin(ctx context.Context, after chunk.Seq) error {
	a.next = sort.Search(len(a.index.Segments), func(i int) bool { return a.index.Segments[i].Last > after })
	if err := a.load(ctx); err != nil {
		return err
	}
	a.loaded = slices.DeleteFunc(a.loaded, func(rec chunk.Record) bool { return rec.Seq <= after })
	a.left = uint64(len(a.loaded))
	for _, segment := range a.index.Segments[a.next:] {
		a.left += uint64(segment.Count)
	}
	return nil
}

// Left returns the number of records that Next has not returned yet.
func (a *Session) Left() uint64 { return a.left }

// Next returns the next record, which is valid until the next call; jsreader.ErrEnd at the end. After another error the archive cannot be read further.
func (a *Session) Next(ctx context.Context) (*chunk.Record, error) {
	if len(a.loaded) == 0 {
		if a.next == len(a.index.Segments) {
			return nil, jsreader.ErrEnd
		}
		if err := a.client.Attempt(ctx, a.load); err != nil {
			return nil, err
		}
	}
	rec := &a.loaded[0]
	a.loaded = a.loaded[1:]
	a.left--
	return rec, nil
}

// load reads the next segment.
func (a *Session) load(ctx context.Context) (err error) {
	if a.loaded, err = a.fetch(ctx, a.segment[:0], a.index.Segments[a.next]); err == nil {
		a.segment = a.loaded
		a.next++
	}
	return err
}

// fetch appends the records of a segment to dst.
func (a *Session) fetch(ctx context.Context, dst []chunk.Record, segment Segment) ([]chunk.Record, error) {
	m, err := a.client.At(ctx, Stream(a.layout), segment.Seq)
	if err != nil {
		return nil, err
	}
	return Unpack(dst, a.session, segment, m.Data)
}

// Removed returns the ordinals that the truncated records of the archive list, from a sequence on. It reads the whole archive once. If a segment cannot be
// read, the result has only the ordinals of the segments before it.
func (a *Session) Removed(ctx context.Context, from chunk.Seq) (removed []chunk.OrdinalRange) {
	if !a.searched {
		a.searched = true
		a.searchTruncations(ctx)
	}
	for _, t := range a.truncations {
		if t.seq >= from {
			removed = append(removed, t.removed...)
		}
	}
	return removed
}

func (a *Session) searchTruncations(ctx context.Context) {
	var records []chunk.Record
	for _, segment := range a.index.Segments {
		var err error
		if records, err = a.fetch(ctx, records[:0], segment); err != nil {
			return
		}
		for _, rec := range records {
			if rec.Type != chunk.TypeTruncated {
				continue
			}
			if c, err := rec.Decode(); err == nil {
				if body, ok := c.Body.(chunk.Truncated); ok {
					a.truncations = append(a.truncations, truncation{rec.Seq, body.Removed})
				}
			}
		}
	}
}
