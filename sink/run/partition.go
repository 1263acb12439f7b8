package run

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
)

// partition copies one partition.
type partition struct {
	sink   *Sink
	number int

	mu       sync.Mutex
	epoch    string       // of the stream
	stored   row.Position // as the store has it
	position row.Position // up to which everything is stored: stored, or the beginning of the first generation
	folder   *observe.Folder
	batch    row.Batch
	bytes    int       // of the batch
	since    time.Time // when the first record of the batch was read
	failed   error     // of a commit: nothing is stored after it
	gaps     []row.Gap // whose place is that of the next record, which revealed them

	// Of the loop of the sink, which begins one partition after the other.
	missed     bool         // deletions after the position may have left the log
	compared   row.Position // at which the sessions were compared with the heads, at comparedAt
	comparedAt time.Time
}

// after returns where the reader begins.
func (p *partition) after() consumers.PartitionPosition {
	at := p.position
	return consumers.PartitionPosition{StreamEpoch: p.epoch, Partition: p.number, Cursor: chunk.Cursor{Seq: at.Seq, Anchor: at.Anchor}}
}

// handle adds the rows of a record to the batch.
func (p *partition) handle(ctx context.Context, rec chunk.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crossesMidnight(rec) {
		if err := p.commit(ctx); err != nil {
			return err
		}
	}
	if p.folder.Missing(rec) {
		p.sink.cfg.Metrics.treeRead()
	}
	at := row.PlaceOf(p.position, rec)
	p.reveal(at)
	events, observations := len(p.batch.Events), len(p.batch.Observations)
	err := Fold(ctx, p.sink.trees, p.folder, &p.batch, rec)
	if _, ok := errors.AsType[*FoldError](err); ok {
		p.sink.cfg.Log.Error("record skipped: its rows cannot be computed", slog.Any("error", err))
		p.batch.Gaps = append(p.batch.Gaps, row.Gap{Place: at, Reason: row.Malformed, FromSeq: &at.Seq, ToSeq: &at.Seq, Detail: "its rows cannot be computed"})
	} else if err != nil {
		return err
	}
	p.bytes += sizeOf(p.batch.Events[events:], p.batch.Observations[observations:])
	p.moveTo(row.Position{Seq: rec.Seq, Anchor: rec.Anchor(), StoredAt: rec.StoredAt})
	if p.bytes >= p.sink.cfg.Bytes {
		return p.commit(ctx)
	}
	return p.failed
}

// moveTo moves the end of the batch.
func (p *partition) moveTo(at row.Position) {
	if p.since.IsZero() {
		p.since = time.Now()
	}
	at.Partition, at.Generation, at.History = p.number, p.position.Generation, p.position.History
	p.batch.Through = at
}

// crossesMidnight reports whether rec was stored on another day than the records of the batch.
func (p *partition) crossesMidnight(rec chunk.Record) bool {
	last := p.batch.Through.StoredAt
	return !p.since.IsZero() && !last.IsZero() && last.UTC().Truncate(24*time.Hour).Before(rec.StoredAt.UTC().Truncate(24*time.Hour))
}

// gap adds the row of records that the log has lost.
func (p *partition) gap(g consumers.Gap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := row.Gap{Place: row.PlaceOf(p.position, chunk.Record{Session: g.Session}), Reason: row.Missing}
	out.FromSeq, out.ToSeq, out.FromOrdinal, out.ToOrdinal = new(int64(g.From)), new(int64(g.To)), int64(g.FirstOrdinal), int64(g.LastOrdinal)
	if g.Reason == chunk.TruncatedExpired {
		out.Reason = row.Expired
	}
	p.gaps = append(p.gaps, out)
}

// reveal adds the rows of gaps before a record.
func (p *partition) reveal(at row.Place) {
	for _, g := range p.gaps {
		g.Seq, g.StoredAt = at.Seq, at.StoredAt
		p.batch.Gaps = append(p.batch.Gaps, g)
	}
	p.gaps = p.gaps[:0]
}

// malformed adds the row of a message that is not a record.
func (p *partition) malformed(m consumers.Malformed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.sink.cfg.Layout.Parse(m.Subject)
	if err != nil {
		s = chunk.Session{}
	}
	at := p.placeAt(m.Seq, s)
	p.reveal(at)
	p.batch.Gaps = append(p.batch.Gaps, row.Gap{
		Place: at, Reason: row.Malformed, FromSeq: new(int64(m.Seq)), ToSeq: new(int64(m.Seq)), Detail: row.Text(m.Err.Error()),
	})
	p.moveTo(row.Position{Seq: m.Seq, StoredAt: at.StoredAt})
}

// placeAt is a place in the log whose record is not known: it has the time of the record before it.
func (p *partition) placeAt(seq chunk.Seq, s chunk.Session) row.Place {
	at := row.PlaceOf(p.position, chunk.Record{Seq: seq, Session: s})
	at.StoredAt = p.lastStored()
	return at
}

func (p *partition) lastStored() time.Time {
	if !p.batch.Through.StoredAt.IsZero() {
		return p.batch.Through.StoredAt.UTC()
	}
	return p.position.StoredAt.UTC()
}

// commitIfOld commits a batch that is older than Config.Every at a time.
func (p *partition) commitIfOld(ctx context.Context, at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || at.Sub(p.since) < p.sink.cfg.Every {
		return nil
	}
	return p.commit(ctx)
}

func (p *partition) commitAll(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commit(ctx)
}

// commit stores the batch. After an error it stores nothing more: the folder is ahead of the store.
func (p *partition) commit(ctx context.Context) error {
	if p.since.IsZero() || p.failed != nil {
		return p.failed
	}
	began := time.Now()
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lastCommit, cancel) })
	defer stop()
	err := p.sink.cfg.Store.Commit(lasting, p.stored, &p.batch)
	p.sink.cfg.Metrics.committed(&p.batch, time.Since(began), err)
	if err != nil {
		p.failed = fmt.Errorf("partition %d, records %d to %d: %w", p.number, p.position.Seq+1, p.batch.Through.Seq, err)
		return p.failed
	}
	p.sink.stored.Add(1)
	p.sink.rows.Add(uint64(len(p.batch.Events) + len(p.batch.Observations)))
	p.stored, p.position = p.batch.Through, p.batch.Through
	p.batch.Events, p.batch.Observations, p.batch.Gaps = p.batch.Events[:0], p.batch.Observations[:0], p.batch.Gaps[:0]
	p.bytes, p.since = 0, time.Time{}
	if p.sink.isLate(p.stored.StoredAt, time.Now()) {
		p.failed = fmt.Errorf("partition %d: %w", p.number, errLate)
	}
	return p.failed
}

// sizeOf estimates the bytes of rows.
func sizeOf(events []row.Event, observations []row.Observation) int {
	const perEvent, perObservation = 300, 800
	n := len(events)*perEvent + len(observations)*perObservation
	for i := range events {
		n += len(events[i].Body)
	}
	for i := range observations {
		n += len(observations[i].Input) + len(observations[i].Output)
	}
	return n
}
