package export

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tailrace/tailrace/internal/wait"
)

const (
	// maxBytes bounds the rows in memory, by estimate.
	maxBytes = 64 << 20

	// maxBatchBytes is the size at which a delivery is not filled up. The collector of OpenTelemetry accepts requests of 20 MiB.
	maxBatchBytes = 4 << 20
)

// item is a row in a lane.
type item struct {
	Row

	partition *partition
	group     *group
	readAt    time.Time
}

// lane delivers the rows of a part of the sessions, one delivery after the other.
type lane struct {
	cfg    *Config
	items  chan item
	memory *semaphore.Weighted // of all lanes
	warn   *wait.Throttle      // of failed deliveries, of all lanes
	lost   *wait.Throttle      // of dead letters, of all lanes
}

// add blocks until there is space for the row.
func (l *lane) add(ctx context.Context, it item) error {
	if err := l.memory.Acquire(ctx, min(it.size(), maxBytes)); err != nil {
		return err
	}
	select {
	case l.items <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run delivers until ctx ends.
func (l *lane) run(ctx context.Context) error {
	for {
		items := l.collect(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.deliver(ctx, items); err != nil {
			return err
		}
	}
}

// collect waits for a row, and for those that come with it.
func (l *lane) collect(ctx context.Context) (items []item) {
	var timeout <-chan time.Time
	for bytes := int64(0); len(items) < l.cfg.Batch && bytes < maxBatchBytes; {
		select {
		case it := <-l.items:
			items = append(items, it)
			bytes += it.size()
		case <-timeout:
			return items
		case <-ctx.Done():
			return nil
		}
		if timeout == nil {
			timeout = time.After(l.cfg.Every)
		}
	}
	return items
}

// deliver delivers rows, or makes them dead letters. Its error is that of ctx, or of a confirmation.
func (l *lane) deliver(ctx context.Context, items []item) error {
	rows := make([]Row, len(items))
	for i := range items {
		rows[i] = items[i].Row
	}
	refusals := 0
	for failed := 1; ; failed++ {
		err := l.cfg.Deliver(ctx, rows)
		if err == nil || ctx.Err() != nil {
			if err == nil {
				l.cfg.Metrics.delivered(len(rows))
				err = l.complete(items)
			}
			return err
		}
		l.cfg.Metrics.failed()
		left := time.Until(items[len(items)-1].readAt.Add(l.cfg.GiveUp))
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			if half := len(items) / 2; half > 0 {
				if err := l.deliver(ctx, items[:half]); err != nil {
					return err
				}
				return l.deliver(ctx, items[half:])
			}
			if refusals++; refusals >= l.cfg.Refusals || refused.Final {
				left = 0
			}
		}
		if left <= 0 {
			if failure := l.addDeadLetters(rows, err); failure == nil {
				return l.complete(items)
			} else { //nolint:revive // the scope of failure
				err, left = failure, l.cfg.Delays.Max
			}
		}
		if err := l.pause(ctx, failed, err, left); err != nil {
			return err
		}
	}
}

// pause waits until the next attempt.
func (l *lane) pause(ctx context.Context, failed int, err error, most time.Duration) error {
	delay := l.cfg.Delays.Delay(failed)
	if asked, ok := errors.AsType[*RetryError](err); ok {
		delay = max(delay, min(asked.After, l.cfg.Delays.Max))
	}
	delay = min(delay, most)
	if skipped, ok := l.warn.Allow(); ok {
		l.cfg.Log.Warn("delivery failed, trying again", slog.Any("error", err), slog.Int("attempt", failed), slog.Duration("delay", delay), slog.Int64("skipped", skipped))
	}
	return wait.Sleep(ctx, delay)
}

// complete confirms the records of rows that are delivered or dead letters.
func (l *lane) complete(items []item) error {
	for _, it := range items {
		l.memory.Release(min(it.size(), maxBytes))
		if err := it.partition.delivered(it.group); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) addDeadLetters(rows []Row, cause error) error {
	if err := l.cfg.DeadLetters.add(rows, cause); err != nil {
		return err
	}
	l.cfg.Metrics.deadLetters(len(rows))
	if skipped, ok := l.lost.Allow(); ok {
		p := rows[0].Place()
		l.cfg.Log.Error("rows not delivered", slog.Int("rows", len(rows)), slog.String("session", p.Session), slog.Int64("sequence", p.Seq), slog.Any("error", cause),
			slog.Int64("skipped", skipped))
	}
	return nil
}
