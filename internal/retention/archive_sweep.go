package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/jsclient"
)

// Report is the result of a sweep.
type Report struct {
	Archived      int // sessions whose archive was written
	NotArchivable int // sessions that cannot be archived, see ErrNotArchivable
	Removed       int // archives of sessions of which the log has less than the archive
}

// Sweep archives all sessions that ended before MinAge, and removes the archives of sessions that have expired or were deleted. It sends the leader about
// four requests for each session with at least MinMessages messages.
func (c *Archiver) Sweep(ctx context.Context) (Report, error) {
	var r Report
	for p := range c.cfg.Layout.PartitionCount() {
		name := c.cfg.Layout.Stream(p)
		counts, err := c.counts(ctx, name, c.cfg.Layout.AllFilter(p))
		if err != nil {
			return r, err
		}
		c.remember(p, counts)
		for _, subject := range slices.Sorted(maps.Keys(counts)) {
			if counts[subject] < uint64(c.cfg.MinMessages) {
				continue
			}
			s, err := c.cfg.Layout.Parse(subject)
			if err != nil {
				continue // not a subject of a session; readers skip it too
			}
			if err := c.sweep(ctx, s, &r); err != nil {
				return r, err
			}
		}
	}
	err := c.forget(ctx, &r)
	return r, err
}

// counts returns the number of messages of each subject of a filter.
func (c *Archiver) counts(ctx context.Context, stream, filter string) (map[string]uint64, error) {
	s, err := c.state(ctx, stream, filter)
	return s.Subjects, err
}

func (c *Archiver) state(ctx context.Context, stream, filter string) (jsclient.State, error) {
	s, err := jsclient.Retry(ctx, jsclient.Policy{For: c.cfg.RetryTimeout}, func(ctx context.Context) (jsclient.State, error) {
		return c.client.State(ctx, stream, filter)
	})
	if err != nil {
		return s, fmt.Errorf("stream %s: %w", stream, err)
	}
	return s, nil
}

// sweep archives one session if it is due.
func (c *Archiver) sweep(ctx context.Context, s chunk.Session, r *Report) error {
	j, err := c.job(s)
	if err != nil {
		return err
	}
	err = j.begin(ctx)
	if err == nil && j.ended() && !j.fits(j.old, j.before) && !c.knownNotArchivable(j) {
		if err = j.run(ctx); err == nil {
			r.Archived++
		}
	}
	if errors.Is(err, chunk.ErrUnknownSession) {
		return nil // deleted meanwhile
	}
	if errors.Is(err, ErrNotArchivable) {
		r.NotArchivable++
		c.mu.Lock()
		c.notArchivable[j.subject] = j.before.last.Seq
		c.mu.Unlock()
		c.cfg.Log.Debug("session not archived", slog.Any("session", s), slog.Any("error", err))
		return nil
	}
	return err
}

// knownNotArchivable reports whether an earlier sweep could not archive the session and it has the same last message as then.
func (c *Archiver) knownNotArchivable(j *archiveJob) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.notArchivable[j.subject]
	return known && last == j.before.last.Seq
}

// remember removes the entries of sessions of a partition that are no longer in the log.
func (c *Archiver) remember(p int, counts map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.notArchivable, func(subject string, _ uint64) bool {
		s, err := c.cfg.Layout.Parse(subject)
		return err != nil || c.cfg.Layout.Partition(s) == p && counts[subject] == 0
	})
}

// ended reports whether the last message of the session ends it and is older than MinAge.
func (j *archiveJob) ended() bool {
	m := j.before.last
	rec, err := codec.Decode(codec.Stored{Session: j.session, Seq: chunk.Seq(m.Seq), At: m.Stored, Header: m.Header, Data: m.Data})
	return err == nil && rec.Type.Terminal() && time.Since(m.Stored) >= j.cfg.MinAge
}

// forget removes archives that can never match the log again, because the log has less.
func (c *Archiver) forget(ctx context.Context, r *Report) error {
	indexes, err := c.counts(ctx, archive.Stream(c.cfg.Layout), archive.IndexKeys(c.cfg.Layout))
	if err != nil {
		return err
	}
	for key := range indexes {
		s, err := archive.SessionOf(c.cfg.Layout, key)
		if err != nil {
			continue
		}
		j, err := c.job(s)
		if err != nil {
			return err
		}
		err = j.begin(ctx)
		if err != nil && !errors.Is(err, chunk.ErrUnknownSession) {
			return err
		}
		if j.found != nil && j.before.created.Equal(j.found.Created) && j.before.messages >= j.found.Messages {
			continue
		}
		if err := j.forget(ctx); err != nil {
			return err
		}
		r.Removed++
	}
	return nil
}
