package erase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/projector"
	"github.com/tailrace/tailrace/projector/fold"
)

const (
	// sweepBatch is how many old heads are looked at before the first of them is
	// dealt with.
	sweepBatch = 500

	// sweepAge is how old a grave is that somebody should have finished.
	sweepAge = 2 * time.Minute
)

// Run sweeps now and then, and after a sweep that failed in a minute, until ctx
// ends. Several may run, also at the same time: without a Turn each does all of it.
func (e *Eraser) Run(ctx context.Context, every time.Duration) error {
	for {
		wait := every
		var n int
		err := e.cfg.Turn(ctx, func(ctx context.Context) (err error) {
			n, err = e.Sweep(ctx, e.now())
			return err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			wait = min(every, time.Minute)
			e.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "not all old sessions could be removed; trying again", slog.Any("error", err))
		case n > 0:
			e.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "old sessions were removed", slog.Int("sessions", n))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// Sweep finishes deletions that somebody left, and removes the snapshots of
// sessions that nobody has written to for the TTL and that the log has forgotten.
// It says how many sessions it removed. It reads the headers of all heads.
func (e *Eraser) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	for place := uint64(0); ; {
		aged, next, err := e.store.Aged(ctx, now.Add(-sweepAge), sweepBatch, place)
		if err != nil {
			return removed, err
		}
		for _, a := range aged {
			expired := e.cfg.TTL > 0 && a.Saved.Before(now.Add(-e.cfg.TTL))
			if !a.Deleted && !expired {
				continue
			}
			gone, err := e.expire(ctx, a.Session, expired)
			if err != nil {
				return removed, fmt.Errorf("remove %s: %w", a.Session, err)
			}
			if gone {
				removed++
			}
		}
		if place = next; place == 0 {
			return removed, nil
		}
	}
}

// expire removes what is left of a deleted session, or the snapshot of one whose
// time is over. There is no last record to be written: the log is empty, or ends
// with one, or belongs to a session that began anew.
func (e *Eraser) expire(ctx context.Context, s chunk.Session, old bool) (bool, error) {
	subject, err := e.cfg.Layout.Subject(s)
	if err != nil {
		return false, err
	}
	head, r, err := e.store.Load(ctx, s)
	if err != nil && r == 0 {
		if errors.Is(err, projector.ErrNoSnapshot) {
			err = nil
		}
		return false, err
	}
	// First how far the bucket is, then the log: a projector that has something
	// to store of a session that begins anew stores it behind this.
	before, err := e.store.Now(ctx)
	if err != nil {
		return false, err
	}
	last, err := e.api.Last(ctx, e.stream(s), subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, err
	}
	if !head.Deleted() {
		if !old || last.Seq > 0 {
			return false, nil // somebody has written, and no projector has seen it
		}
		head = fold.Grave(s, head.Position, head.Epoch)
		if r, err = e.store.Save(ctx, head, r); err != nil {
			if errors.Is(err, projector.ErrConflict) {
				return false, nil // it is no longer old
			}
			return false, err
		}
	}
	end := uint64(head.Position.Seq)
	if last.Seq > end {
		before = r // it has begun anew: only what was there before the grave is old
	} else if err := (&deletion{Eraser: e, session: s}).copies(ctx); err != nil {
		return false, err
	}
	if last.Seq > 0 && end > 0 {
		if _, err := e.api.PurgeWithin(ctx, patience, e.stream(s), subject, end); err != nil {
			return false, fmt.Errorf("purge the log: %w", err)
		}
	}
	if _, err = e.store.Clear(ctx, head, r, max(before, r)); err != nil {
		return false, err
	}
	return true, nil
}

// copies removes what others have kept of the log, and what people said to its
// runs. Commands are no part of it: one may wait for a session that is about to
// begin anew.
func (d *deletion) copies(ctx context.Context) error {
	if err := d.archives(ctx); err != nil {
		return err
	}
	if err := d.letters(ctx); err != nil {
		return err
	}
	_, err := d.inbox.Forget(ctx, d.session)
	return err
}
