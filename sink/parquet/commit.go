package parquet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tailrace/tailrace/sink/row"
)

// Commit implements row.Store. After is the stored position, also if the batch begins a generation, which it does if its generation is higher. The caller ends a
// batch before a record of a later day in UTC: the day is part of the names, and two writers must choose the same one.
func (s *Store) Commit(ctx context.Context, after row.Position, b *row.Batch) error {
	s.mu.Lock()
	known := s.begun && s.known
	s.mu.Unlock()
	if !known {
		return errNotBegun
	}
	if err := s.readAgain(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	at := s.positions[after.Partition]
	s.mu.Unlock()
	if at.Generation != after.Generation || at.Seq != after.Seq {
		return row.ErrConflict
	}
	if to := b.Through; to.Partition != after.Partition || to.Generation < max(after.Generation, 1) || to.Generation == after.Generation && to.Seq <= after.Seq {
		return fmt.Errorf("batch ends at generation %d, sequence %d of partition %d, want a position after generation %d, sequence %d of partition %d",
			to.Generation, to.Seq, to.Partition, after.Generation, after.Seq, after.Partition)
	}
	err := s.commit(ctx, after, b)
	if err != nil {
		s.mu.Lock()
		s.known = false
		s.mu.Unlock()
	}
	return err
}

func (s *Store) commit(ctx context.Context, after row.Position, b *row.Batch) error {
	w := write{store: s, through: b.Through, day: dayOf(b), boundary: boundaryOf(after, b)}
	if err := storeRows(ctx, w, tableObservations, b.Observations, func(r *row.Observation) *row.Place { return &r.Place }); err != nil {
		return err
	}
	if err := storeRows(ctx, w, tableGaps, b.Gaps, func(r *row.Gap) *row.Place { return &r.Place }); err != nil {
		return err
	}
	return storeRows(ctx, w, tableEvents, b.Events, func(r *row.Event) *row.Place { return &r.Place })
}

// dayOf is when the first row of a batch was stored, or its last record if it has no rows: all writers that begin at one position have the same day, and it does not
// depend on the end of the batch.
func dayOf(b *row.Batch) time.Time {
	day, seq := b.Through.StoredAt, int64(math.MaxInt64)
	first := func(p *row.Place) {
		if p.Seq < seq {
			day, seq = p.StoredAt, p.Seq
		}
	}
	if len(b.Events) > 0 {
		first(&b.Events[0].Place)
	}
	if len(b.Observations) > 0 {
		first(&b.Observations[0].Place)
	}
	if len(b.Gaps) > 0 {
		first(&b.Gaps[0].Place)
	}
	return day
}

// boundaryOf returns the last record of earlier generations that counts after a batch that begins one.
func boundaryOf(after row.Position, b *row.Batch) uint64 {
	if b.Through.Generation == after.Generation {
		return 0
	}
	boundary := uint64(after.Seq)
	for i := range b.Gaps {
		if g := &b.Gaps[i]; g.Reason == row.Recreated && g.FromSeq != nil {
			boundary = min(boundary, uint64(max(*g.FromSeq, 1)-1))
		}
	}
	return boundary
}

// write stores the files of a batch.
type write struct {
	store    *Store
	through  row.Position
	day      time.Time // of the file of events
	boundary uint64
}

// storeRows stores the rows of a table that its chain does not have.
func storeRows[T any](ctx context.Context, w write, table string, rows []T, place func(*T) *row.Place) error {
	s := w.store
	for {
		s.mu.Lock()
		first, hasFile := s.next[chain{table, w.through.Partition, w.through.Generation}]
		s.mu.Unlock()
		isStored := func(r T) bool {
			p := place(&r)
			// Rows of another history are in the first file of a generation.
			return hasFile && (p.Seq < int64(first) || p.StreamEpoch != w.through.History)
		}
		if slices.ContainsFunc(rows, isStored) {
			rows = slices.DeleteFunc(slices.Clone(rows), isStored)
		}
		if len(rows) == 0 && table != tableEvents {
			return nil
		}
		day := w.day
		if table != tableEvents {
			day = place(&rows[0]).StoredAt
		}
		f := footer{first: first, through: w.through, writer: s.writer, boundary: w.boundary}
		n := name{table: table, date: dateOf(day), partition: w.through.Partition, generation: w.through.Generation, first: f.first}
		data, err := encode(f, rows)
		if err != nil {
			return fmt.Errorf("encode %s: %w", n, err)
		}
		found, err := s.store(ctx, n, f, data)
		if err != nil {
			return fmt.Errorf("store %s: %w", n, err)
		}
		same := found.writer == s.writer && found.through.Seq == f.through.Seq
		if same {
			return nil
		}
		if table == tableEvents {
			return row.ErrConflict
		}
	}
}

// store stores a file, and returns what its name has: this file, or the one that another call stored.
func (s *Store) store(ctx context.Context, n name, f footer, data []byte) (footer, error) {
	err := s.objects.create(ctx, n.String(), data)
	if errors.Is(err, errExists) {
		f, err = footerOf(ctx, s.objects, n.String())
		if err == nil && (f.first != n.first || uint64(f.through.Seq) < n.first) {
			err = fmt.Errorf("file has the records %d to %d", f.first, f.through.Seq)
		}
	}
	if err != nil {
		return footer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := s.now().Sub(s.readAt); age < 0 || age > grace {
		// The process was suspended. The name may have been that of a file which was merged or removed meanwhile: readers ignore this one then.
		return footer{}, row.ErrConflict
	}
	s.learn(n.table, f)
	return f, nil
}
