package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/internal/jssnapshots"
	"github.com/tailrace/tailrace/internal/names"
	"github.com/tailrace/tailrace/sink/row"
)

// The record of a deletion stays in the log for 48 hours. A sink that reads a part of the log later than that has missed deletions, and finds the sessions that are
// deleted by the heads of snapshots: a session has one until it is deleted or expires, and a deleted one has a tombstone for three days.
const (
	missedAfter = 47 * time.Hour

	// headsAtOnce is the number of sessions whose heads are read by one request.
	headsAtOnce = 500

	// clockMargin is how much the clocks of servers may differ: a session that has expired, by one of them, is not taken for a deleted one.
	clockMargin = 2 * time.Minute
)

// Sessions are numbers of sessions of a store.
type Sessions struct {
	// Present are those that have a head. Deleted are those that were deleted after their last row: they have a tombstone, or began again with their first ordinal.
	Present, Deleted int

	// Absent are those that neither the heads nor the log have, or have since a later time only: they were deleted, if the heads are complete.
	Absent int

	// Unknown are those of Absent whose last row was stored before the heads of the partition were created.
	Unknown int
}

func (s Sessions) plus(t Sessions) Sessions {
	return Sessions{s.Present + t.Present, s.Deleted + t.Deleted, s.Absent + t.Absent, s.Unknown + t.Unknown}
}

// finding is what the heads and the log show of a session.
type finding int

const (
	other   finding = iota // the log has it, or it has expired
	present                // counted in Sessions, as all that follow
	deleted
	absent
	unknown
)

func isDeleted(f finding) bool { return f == deleted }
func isAbsent(f finding) bool  { return f == absent }
func isGone(f finding) bool    { return f == deleted || f == absent || f == unknown }
func isNothing(finding) bool   { return false }

// missesDeletions reports whether deletions after the position may have left the log before the sink reads them.
func (p *partition) missesDeletions(ctx context.Context, at row.Position) (bool, error) {
	state, err := stateOf(ctx, p.sink.client, p.sink.cfg.Layout.Stream(p.number))
	if err != nil {
		return false, err
	}
	isOld := p.sink.now(state).Sub(at.StoredAt) > missedAfter
	if p.position.Generation != at.Generation { // of another log
		return isOld, nil
	}
	return state.Last > uint64(at.Seq) && (isOld || state.First > uint64(at.Seq)+1), nil
}

// errLate ends copying, so that the sink begins again and compares the sessions.
var errLate = errors.New("records are read so late that deletions may have left the log")

// isLate reports whether the sink has copied for so long, and is so far behind, that deletions since it has begun may have left the log.
func (s *Sink) isLate(stored, now time.Time) bool {
	return !stored.IsZero() && now.Sub(stored) > missedAfter && now.Sub(s.begun) > missedAfter
}

// now returns the time of the server.
func (s *Sink) now(state jsclient.State) time.Time { return state.Now.Add(s.later) }

// eraseMissed deletes the sessions from the store whose deletions may have left the log, before the first record is read. After an error it is repeated as a whole.
func (s *Sink) eraseMissed(ctx context.Context) error {
	var parts []*partition
	for _, p := range s.parts {
		if p.missed && (p.compared != p.position || time.Since(p.comparedAt) > missedAfter) {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	found, err := s.deleteMissed(ctx, parts)
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.compared, p.comparedAt = p.position, time.Now()
	}
	s.cfg.Log.Info("sessions compared with the snapshots: deletions may have left the log", slog.Int("partitions", len(parts)),
		slog.Int("present", found.Present), slog.Int("deleted", found.Deleted), slog.Int("absent", found.Absent), slog.Int("unknown", found.Unknown))
	return nil
}

// deleteMissed deletes sessions of partitions. Those that are absent are deleted only if no more are absent than present: heads that are lost look like deletions, and
// deleted rows do not come back.
func (s *Sink) deleteMissed(ctx context.Context, parts []*partition) (Sessions, error) {
	found, err := s.compareAll(ctx, parts, isDeleted)
	if err != nil || found.Absent == 0 {
		return found, err
	}
	if found.Absent-found.Unknown <= found.Present {
		if _, err := s.compareAll(ctx, parts, isAbsent); err != nil {
			return found, err
		}
		found.Absent = found.Unknown
	}
	if found.Absent > 0 {
		s.cfg.Log.Error("sessions without a snapshot are not erased: run tailrace-sink check, and if they were deleted, tailrace-sink erase --deleted",
			slog.Int("sessions", found.Absent), slog.Int("present", found.Present))
	}
	return found, nil
}

// compareAll compares the sessions of partitions, and deletes those with a wanted finding.
func (s *Sink) compareAll(ctx context.Context, parts []*partition, wanted func(finding) bool) (sum Sessions, err error) {
	maxAge, err := s.snapshots.MaxAge(ctx)
	if err != nil {
		return sum, err
	}
	for _, p := range parts {
		c := comparison{partition: p, at: p.position, heads: heads{s.client, names.Layout(s.cfg.Layout).SnapshotsOf(p.number)}}
		found, err := c.run(ctx, maxAge, wanted)
		if err != nil {
			return sum, fmt.Errorf("compare the sessions of partition %d: %w", p.number, err)
		}
		sum = sum.plus(found)
	}
	return sum, nil
}

// comparison compares the sessions of a partition in the store with the heads.
type comparison struct {
	*partition

	at      row.Position // of the store
	heads   heads
	created time.Time // the bucket of the heads
	found   Sessions
}

// run deletes the sessions with a wanted finding, page by page. An expired session, whose last row is older than maxAge, stays.
func (c *comparison) run(ctx context.Context, maxAge time.Duration, wanted func(finding) bool) (Sessions, error) {
	s := c.sink
	state, err := stateOf(ctx, s.client, s.cfg.Layout.Stream(c.number))
	if err != nil {
		return c.found, err
	}
	if c.created, err = c.heads.created(ctx); err != nil {
		return c.found, err
	}
	selection := row.Selection{Partition: c.number, Tenant: s.cfg.Tenant}
	if maxAge > 0 {
		selection.Since = s.now(state).Add(clockMargin - maxAge)
	}
	var page []row.Place
	compare := func() error {
		erased, err := c.page(ctx, page, wanted)
		page = page[:0]
		if err != nil || len(erased) == 0 {
			return err
		}
		if err := s.cfg.Store.Delete(ctx, erased); err != nil {
			return err
		}
		s.cfg.Metrics.deleted(len(erased))
		return nil
	}
	err = s.cfg.Store.Sessions(ctx, selection, func(p row.Place) error {
		if page = append(page, p); len(page) < headsAtOnce {
			return nil
		}
		return compare()
	})
	if err == nil {
		err = compare()
	}
	return c.found, err
}

// page returns the gaps of the sessions of a page that have a wanted finding.
func (c *comparison) page(ctx context.Context, page []row.Place, wanted func(finding) bool) (erased []row.Gap, err error) {
	if len(page) == 0 {
		return nil, nil
	}
	sessions := make([]chunk.Session, len(page))
	for i, p := range page {
		sessions[i] = sessionOf(p)
	}
	found, err := c.heads.read(ctx, sessions)
	if err != nil {
		return nil, err
	}
	for i, p := range page {
		var head *jssnapshots.HeadIndex
		if h, ok := found[sessions[i]]; ok {
			head = &h
		}
		v, err := c.find(ctx, p, head)
		if err != nil {
			return nil, err
		}
		c.count(v)
		if wanted(v) {
			erased = append(erased, row.DeletionThrough(p))
		}
	}
	return erased, nil
}

func sessionOf(p row.Place) chunk.Session {
	return chunk.RootSession(p.Tenant, p.Root).Child(p.Session)
}

func (c *comparison) count(f finding) {
	switch f {
	case present:
		c.found.Present++
	case deleted:
		c.found.Deleted++
	case unknown:
		c.found.Unknown++
		c.found.Absent++
	case absent:
		c.found.Absent++
	case other:
	}
}

// find compares the last row of a session with its head and the log.
func (c *comparison) find(ctx context.Context, last row.Place, head *jssnapshots.HeadIndex) (finding, error) {
	switch {
	case head == nil:
	case head.Deleted && head.Seq > 0 && last.StreamEpoch == c.at.History:
		if int64(head.Seq) > last.Seq {
			return deleted, nil
		}
		return other, nil // the session began again after its deletion, or has expired
	case !head.Deleted && !last.StoredAt.Before(time.UnixMilli(head.Created)):
		return present, nil
	case !head.Deleted && head.Since <= 1:
		return deleted, nil // the session began again after its last row
	case !head.Deleted:
		return c.gone(last), nil // the same, or the head was lost, and the log did not have the first records any more
	}
	client, layout := c.sink.client, c.sink.cfg.Layout
	subject, err := layout.Subject(sessionOf(last))
	if err != nil {
		return other, nil //nolint:nilerr // no record has this session
	}
	m, err := client.NextRetry(ctx, openTimeout, layout.Stream(c.number), subject, 1)
	if errors.Is(err, jsclient.ErrNotFound) {
		if head != nil {
			return deleted, nil
		}
		return c.gone(last), nil
	}
	if err != nil {
		return other, err
	}
	rec, err := codec.Decode(codec.Stored{Session: sessionOf(last), Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data})
	if err == nil && m.Stored.After(last.StoredAt) && (rec.IsDeletion() || rec.Ordinal == 1) {
		return deleted, nil
	}
	return other, nil // a malformed record proves no deletion
}

// gone is the finding of a session that no longer exists, as far as the heads show.
func (c *comparison) gone(last row.Place) finding {
	if last.StoredAt.Before(c.created) {
		return unknown
	}
	return absent
}
