package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/jsclient"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
)

// openTimeout is how long the comparison of the log waits for a response of the server.
const openTimeout = 10 * time.Second

// begin makes at the position of the partition, after the log was compared with it.
func (p *partition) begin(ctx context.Context, at row.Position) error {
	tip, err := p.sink.log.Tip(ctx, p.number)
	if err != nil {
		return fmt.Errorf("end of partition %d: %w", p.number, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch = tip.StreamEpoch
	p.stored = at
	p.position, p.batch, p.bytes, p.since, p.failed, p.gaps = at, row.Batch{}, 0, time.Time{}, nil, nil
	p.missed = false
	if at.Generation == 0 {
		err = p.first(ctx, tip)
	} else if err = p.compare(ctx, tip); err == nil {
		p.missed, err = p.missesDeletions(ctx, at)
	}
	if p.missed && p.position.Generation != at.Generation {
		p.missed = false
		p.sink.cfg.Log.Error("deletions before the log was restored or created again may be missing: run tailrace-sink check", slog.Int("partition", p.number))
	}
	cfg := p.sink.cfg.Observe
	cfg.Position = p.position
	p.folder = observe.New(cfg)
	return err
}

// first begins in a store without a position.
func (p *partition) first(ctx context.Context, tip chunk.Tip) error {
	p.position = row.Position{Partition: p.number, Generation: 1, History: tip.StreamEpoch}
	if !p.sink.cfg.FromNow || tip.Seq == 0 {
		return nil
	}
	start := p.position
	start.Seq = tip.Seq
	return p.commitStart(ctx, &row.Batch{Through: start})
}

// commitStart stores a position without records.
func (p *partition) commitStart(ctx context.Context, b *row.Batch) error {
	if err := p.sink.cfg.Store.Commit(ctx, p.stored, b); err != nil {
		return fmt.Errorf("partition %d, start at %d: %w", p.number, b.Through.Seq, err)
	}
	p.stored, p.position = b.Through, b.Through
	return nil
}

// compare finds out whether the log is still the one of the position. If it was created again or restored from a backup, a generation begins after the newest batch
// whose last record the log has.
func (p *partition) compare(ctx context.Context, tip chunk.Tip) error {
	same, err := p.has(ctx, p.position, tip)
	if err != nil || same {
		return err
	}
	old, last := p.position, p.position
	histories := []string{old.History}
	for !same {
		var ok bool
		if last, ok, err = p.sink.cfg.Store.Before(ctx, last); err != nil {
			return fmt.Errorf("earlier positions of partition %d: %w", p.number, err)
		}
		if !ok {
			last = row.Position{}
			break
		}
		if !slices.Contains(histories, last.History) {
			histories = append(histories, last.History)
		}
		if last.Anchor == 0 {
			continue
		}
		if same, err = p.has(ctx, last, tip); err != nil {
			return err
		}
	}
	p.sink.cfg.Log.Warn("the log was restored or created again: rows of records that it does not have are marked as recreated",
		slog.Int("partition", p.number), slog.Uint64("position", uint64(old.Seq)), slog.Uint64("last", uint64(last.Seq)))
	next := row.Position{
		Partition: p.number, Generation: old.Generation + 1, History: tip.StreamEpoch + "." + strconv.Itoa(old.Generation+1),
		Seq: last.Seq, Anchor: last.Anchor, StoredAt: last.StoredAt,
	}
	b := &row.Batch{Through: next}
	for _, history := range histories {
		// The range has no end: another process may store more of the lost records before it notices.
		lost := row.Gap{Place: row.PlaceOf(next, chunk.Record{Seq: next.Seq, StoredAt: old.StoredAt}), Reason: row.Recreated, FromSeq: new(int64(last.Seq) + 1), ToSeq: new(int64(math.MaxInt64))}
		lost.StreamEpoch = history
		b.Gaps = append(b.Gaps, lost)
	}
	return p.commitStart(ctx, b)
}

// has reports whether the log has the record at a position. A record that was removed is there if the history of the log is that of the position.
func (p *partition) has(ctx context.Context, at row.Position, tip chunk.Tip) (bool, error) {
	sameHistory := at.History == tip.StreamEpoch || at.Generation > 1 && at.History == tip.StreamEpoch+"."+strconv.Itoa(at.Generation)
	switch {
	case at.Seq == 0:
		return sameHistory, nil
	case at.Seq > tip.Seq:
		return false, nil
	case at.Anchor == 0:
		return sameHistory, nil
	}
	client := p.sink.client
	m, err := jsclient.Retry(ctx, client.Reading(openTimeout), func(ctx context.Context) (jsclient.Message, error) {
		return client.At(ctx, p.sink.cfg.Layout.Stream(p.number), uint64(at.Seq))
	})
	switch {
	case errors.Is(err, jsclient.ErrNotFound): // it was removed, or has expired
		return sameHistory, nil
	case err != nil:
		return false, fmt.Errorf("record %d of partition %d: %w", at.Seq, p.number, err)
	}
	return chunk.AnchorAt(m.Stored) == at.Anchor, nil
}
