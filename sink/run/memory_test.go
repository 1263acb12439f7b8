package run

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tailrace/tailrace/sink/row"
)

// memory is a store in memory, whose calls fail as a test wants. Two sinks may share it.
type memory struct {
	mu        sync.Mutex
	positions map[int][]row.Position // of each batch, by partition
	events    []row.Event
	rows      []row.Observation
	gaps      []row.Gap
	commits   int

	fails func(commit int) failure // nil: never
}

// failure is how a commit fails.
type failure int

const (
	succeeds failure = iota
	storesNothing
	losesAnswer // the batch is stored
)

var errStore = errors.New("the store is away")

func (m *memory) Begin(_ context.Context, partitions int) ([]row.Position, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]row.Position, partitions)
	for p := range out {
		out[p].Partition = p
		if at := m.positions[p]; len(at) > 0 {
			out[p] = at[len(at)-1]
		}
	}
	return out, nil
}

func (m *memory) Commit(_ context.Context, after row.Position, b *row.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits++
	how := succeeds
	if m.fails != nil {
		how = m.fails(m.commits)
	}
	if how == storesNothing {
		return errStore
	}
	p := b.Through.Partition
	var at row.Position
	if n := len(m.positions[p]); n > 0 {
		at = m.positions[p][n-1]
	}
	if at.Seq != after.Seq || at.Generation != after.Generation {
		return row.ErrConflict
	}
	if m.positions == nil {
		m.positions = map[int][]row.Position{}
	}
	m.positions[p] = append(m.positions[p], b.Through)
	m.events = append(m.events, b.Events...)
	m.rows = append(m.rows, b.Observations...)
	m.gaps = append(m.gaps, b.Gaps...)
	if how == losesAnswer {
		return errStore
	}
	return nil
}

func (m *memory) Before(_ context.Context, at row.Position) (row.Position, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.positions[at.Partition]
	i := slices.Index(all, at)
	if i < 1 {
		return row.Position{}, false, nil
	}
	return all[i-1], true, nil
}

func (m *memory) Positions(ctx context.Context, partitions int) ([]row.Position, error) {
	return m.Begin(ctx, partitions)
}

func (m *memory) Sessions(context.Context, row.Selection, func(row.Place) error) error { return nil }

func (m *memory) Delete(context.Context, []row.Gap) error { return errStore }

func (m *memory) Close() error { return nil }
