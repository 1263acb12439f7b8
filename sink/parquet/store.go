package parquet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/sql"
)

// viewsName names the object with the statements of DuckDB.
const viewsName = "views.sql"

// Store is a lake. It implements row.Store.
type Store struct {
	objects objects
	writer  string

	// maintaining is locked by Erase, which replaces objects, and by Close.
	maintaining sync.Mutex

	mu        sync.Mutex // guards the following
	begun     bool
	known     bool // positions and next are those of the lake; a Commit that fails may have learned a part only
	positions map[int]row.Position
	next      map[chain]uint64 // the record after the newest file; without a file there is no entry
}

// chain names the files of a table of one generation of a partition.
type chain struct {
	table                 string
	partition, generation int
}

var _ row.Store = (*Store)(nil)

var errNotBegun = errors.New("lake is not open for writing: call Begin")

func newStore(o objects) *Store {
	return &Store{objects: o, writer: rand.Text(), positions: map[int]row.Position{}, next: map[chain]uint64{}}
}

// Begin implements row.Store. In a directory it waits until no other process writes; in an S3-compatible store it cannot know that, and Commit returns
// row.ErrConflict to one of two writers. It writes views.sql.
func (s *Store) Begin(ctx context.Context, partitions int) ([]row.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	type found struct {
		table  string
		footer footer
	}
	var ends []found
	// Events first: what a batch stores before them is in the lists of the other tables then. Nothing is learned before all lists are read: a position without the
	// ends of the other tables would be wrong.
	for _, table := range []string{tableEvents, tableObservations, tableGaps} {
		names, err := s.names(ctx, table)
		if err != nil {
			return nil, err
		}
		newest := map[chain]name{}
		for _, n := range names {
			newest[n.chain()] = n
		}
		for _, n := range newest {
			f, err := footerOf(ctx, s.objects, n.String())
			if err != nil {
				return nil, err
			}
			ends = append(ends, found{table, f})
		}
	}
	for _, e := range ends {
		s.learn(e.table, e.footer)
	}
	s.known = true
	positions := make([]row.Position, partitions)
	for i := range positions {
		positions[i] = s.positions[i]
		positions[i].Partition = i
	}
	return positions, nil
}

// prepare stores what a reader needs besides the files of rows.
func (s *Store) prepare(ctx context.Context) error {
	if s.begun {
		return nil
	}
	if err := s.objects.begin(ctx); err != nil {
		return fmt.Errorf("lake: %w", err)
	}
	events, err1 := encode[row.Event](footer{}, nil)
	observations, err2 := encode[row.Observation](footer{}, nil)
	gaps, err3 := encode[row.Gap](footer{}, nil)
	for _, object := range []struct {
		name string
		data []byte
		err  error
	}{
		{schemaName(tableEvents), events, err1},
		{schemaName(tableObservations), observations, err2},
		{schemaName(tableGaps), gaps, err3},
		{viewsName, []byte(sql.DuckDB(s.objects.url())), nil},
	} {
		if object.err != nil {
			return object.err
		}
		if err := put(ctx, s.objects, object.name, object.data); err != nil {
			return err
		}
	}
	s.begun = true
	return nil
}

// names returns the files of a table, sorted.
func (s *Store) names(ctx context.Context, table string) ([]name, error) {
	objects, err := s.objects.list(ctx, table)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", table, err)
	}
	names := make([]name, 0, len(objects))
	for _, object := range objects {
		if n, ok := parseName(object); ok {
			names = append(names, n)
		}
	}
	sortNames(names)
	return names, nil
}

func (n name) chain() chain { return chain{n.table, n.partition, n.generation} }

// learn records that a file exists. A list of names may be older than what Commit has learned meanwhile.
func (s *Store) learn(table string, f footer) {
	at := f.through
	c := chain{table, at.Partition, at.Generation}
	s.next[c] = max(s.next[c], uint64(at.Seq)+1)
	known := s.positions[at.Partition]
	if table == tableEvents && (at.Generation > known.Generation || at.Generation == known.Generation && at.Seq > known.Seq) {
		s.positions[at.Partition] = at
	}
}

// Before implements row.Store. It leaves out batches that a later generation has replaced.
func (s *Store) Before(ctx context.Context, at row.Position) (row.Position, bool, error) {
	all, err := s.names(ctx, tableEvents)
	if err != nil {
		return row.Position{}, false, err
	}
	limit := uint64(at.Seq) // the position is below
	for g := at.Generation; g > 0; g-- {
		var names []name
		for _, n := range all {
			if n.partition == at.Partition && n.generation == g {
				names = append(names, n)
			}
		}
		// The last record of a file is the one before the next file.
		for len(names) > 1 && names[len(names)-1].first > limit {
			names = names[:len(names)-1]
		}
		for i := len(names) - 1; i >= 0 && i >= len(names)-2; i-- {
			f, err := footerOf(ctx, s.objects, names[i].String())
			if err != nil {
				return row.Position{}, false, err
			}
			if uint64(f.through.Seq) < limit {
				return f.through, true, nil
			}
		}
		if len(names) > 0 {
			f, err := footerOf(ctx, s.objects, names[0].String())
			if err != nil {
				return row.Position{}, false, err
			}
			limit = min(limit, f.boundary+1)
		}
	}
	return row.Position{}, false, nil
}

// Close implements row.Store. It waits for Erase. Begin opens the lake again.
func (s *Store) Close() error {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = false
	return s.objects.close()
}
