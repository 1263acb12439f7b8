package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/codec"
	"github.com/tailrace/tailrace/internal/archive"
	"github.com/tailrace/tailrace/internal/jsapi"
)

// Report is what a sweep did.
type Report struct {
	Archived int // sessions whose archive was written
	Unfit    int // sessions that cannot be archived, see ErrUnfit
	Removed  int // archives of sessions of which the log has less by now
}

// again is when a sweep that failed is tried again, if not earlier by itself: the
// streams may just be on their way.
const again = 10 * time.Second

// Run sweeps until ctx ends, whose error it returns. A sweep that fails is told
// to Log and tried again.
func (c *Compactor) Run(ctx context.Context) error {
	for {
		pause := c.cfg.Every
		var r Report
		err := c.cfg.Turn(ctx, func(ctx context.Context) (err error) {
			r, err = c.Sweep(ctx)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			pause = min(pause, again)
			c.cfg.Log.Warn("archives could not be written", slog.Any("error", err))
		case r != Report{}:
			c.cfg.Log.Info("archives", slog.Int("archived", r.Archived), slog.Int("unfit", r.Unfit), slog.Int("removed", r.Removed))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// Sweep archives all sessions that have ended before After, and removes the
// archives of those that have expired or were deleted. It asks the leader four
// to six questions for each session with Least messages.
func (c *Compactor) Sweep(ctx context.Context) (Report, error) {
	var r Report
	for p := range c.cfg.Layout.PartitionCount() {
		name := c.cfg.Layout.Stream(p)
		counts, err := c.counts(ctx, name, c.cfg.Layout.AllFilter(p))
		if err != nil {
			return r, err
		}
		c.remember(p, counts)
		for _, subject := range slices.Sorted(maps.Keys(counts)) {
			if counts[subject] < uint64(c.cfg.Least) {
				continue
			}
			s, err := c.cfg.Layout.Parse(subject)
			if err != nil {
				continue // written by somebody else, and read by nobody
			}
			if err := c.sweep(ctx, s, &r); err != nil {
				return r, err
			}
		}
	}
	err := c.forget(ctx, &r)
	return r, err
}

func (c *Compactor) counts(ctx context.Context, name, filter string) (map[string]uint64, error) {
	info, err := c.info(ctx, name, filter)
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

func (c *Compactor) info(ctx context.Context, name, filter string) (*jetstream.StreamInfo, error) {
	info, err := jsapi.Within(ctx, c.cfg.Patience, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		stream, err := c.js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		return stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return info, nil
}

// sweep archives one session if it is time.
func (c *Compactor) sweep(ctx context.Context, s chunk.Session, r *Report) error {
	j, err := c.job(s)
	if err != nil {
		return err
	}
	err = j.begin(ctx)
	if err == nil && j.ended() && !j.fits(j.old, j.before) && !c.knownUnfit(j) {
		if err = j.run(ctx); err == nil {
			r.Archived++
		}
	}
	if errors.Is(err, chunk.ErrUnknownSession) {
		return nil // deleted meanwhile
	}
	if errors.Is(err, ErrUnfit) {
		r.Unfit++
		c.mu.Lock()
		c.unfit[j.subject] = j.before.last.Seq
		c.mu.Unlock()
		c.cfg.Log.Debug("a session is not archived", slog.Any("session", s), slog.Any("error", err))
		return nil
	}
	return err
}

// knownUnfit reports whether the session was unfit before and ends as it did
// then: it would be read in vain.
func (c *Compactor) knownUnfit(j *job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.unfit[j.subject]
	return known && last == j.before.last.Seq
}

// remember drops what is known of sessions of a partition that are gone.
func (c *Compactor) remember(p int, counts map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.unfit, func(subject string, _ uint64) bool {
		s, err := c.cfg.Layout.Parse(subject)
		return err != nil || c.cfg.Layout.Partition(s) == p && counts[subject] == 0
	})
}

// ended reports whether the last message of the session is the end of it, and
// old enough.
func (j *job) ended() bool {
	m := j.before.last
	rec, err := codec.Decode(j.session, chunk.Seq(m.Seq), m.Time, m.Header, m.Data)
	return err == nil && rec.Type.Terminal() && time.Since(m.Time) >= j.cfg.After
}

// forget removes archives that cannot fit again: the log has less.
func (c *Compactor) forget(ctx context.Context, r *Report) error {
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
