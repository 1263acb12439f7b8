package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/sink/observe"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/run"
)

// partition reads one partition. Its folder belongs to the goroutine that reads.
type partition struct {
	export *Export
	number int
	folder *observe.Folder

	mu     sync.Mutex
	groups []*group // of the records that are not confirmed, in order
}

// group is a record with rows, and the records without rows after it.
type group struct {
	first, last chunk.Cursor
	storedAt    time.Time // of the first
	waiting     int       // rows that are not delivered
}

func (x *Export) newPartition(ctx context.Context, number int) (*partition, error) {
	tip, err := x.reader.Tip(ctx, number)
	if err != nil {
		return nil, fmt.Errorf("end of partition %d: %w", number, err)
	}
	cfg := x.cfg.Observe
	cfg.Position = row.Position{Partition: number, Generation: 1, History: tip.StreamEpoch}
	return &partition{export: x, number: number, folder: observe.New(cfg)}, nil
}

// handle passes the rows of a record to their lanes.
func (p *partition) handle(ctx context.Context, rec chunk.Record, lanes []*lane) error {
	var b row.Batch
	err := run.Fold(ctx, p.export.trees, p.folder, &b, rec)
	if _, ok := errors.AsType[*run.FoldError](err); ok {
		p.export.cfg.Log.Error("record skipped: its rows cannot be computed", slog.Any("error", err))
	} else if err != nil {
		return err
	}
	rows := rowsOf(&b, p.export.cfg.Select)
	g, err := p.add(rec, len(rows))
	if err != nil {
		return err
	}
	now := time.Now()
	for _, r := range rows {
		if err := lanes[r.lane(len(lanes))].add(ctx, item{Row: r, partition: p, group: g, readAt: now}); err != nil {
			return err
		}
	}
	return nil
}

// add adds a record with n rows, and confirms it if nothing waits.
func (p *partition) add(rec chunk.Record, n int) (*group, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.groups) - 1; n == 0 && last >= 0 {
		p.groups[last].last = rec.Cursor()
		return nil, nil //nolint:nilnil // a record without rows needs no group
	}
	g := &group{first: rec.Cursor(), last: rec.Cursor(), storedAt: rec.StoredAt, waiting: n}
	p.groups = append(p.groups, g)
	return g, p.confirm()
}

// delivered notes that a row is delivered.
func (p *partition) delivered(g *group) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.waiting--
	return p.confirm()
}

// confirm confirms the records before the first one with rows that wait.
func (p *partition) confirm() error {
	n := 0
	for n < len(p.groups) && p.groups[n].waiting == 0 {
		n++
	}
	if n == 0 {
		return nil
	}
	at := p.groups[n-1].last
	p.groups = p.groups[n:]
	return p.export.firehose.Confirm(consumers.PartitionPosition{Partition: p.number, Cursor: at})
}

// age returns the age of the oldest record that is not confirmed, 0 if there is none.
func (p *partition) age() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.groups) == 0 {
		return 0
	}
	return time.Since(p.groups[0].storedAt)
}
