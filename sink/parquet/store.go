package parquet

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/sql"
)

// tenantName names the object with the tenant, as JSON.
const tenantName = "tenant.json"

// viewsName names the object with the statements of DuckDB.
const viewsName = "views.sql"

// Store is a lake. It implements row.Store.
type Store struct {
	// Tenant is the tenant whose rows the lake has, empty for all. It is set before Begin, which refuses a lake of another one: its rows before the position would be missing.
	Tenant string

	objects objects
	writer  string
	now     func() time.Time // by the clock of the system, which counts while the process is suspended

	// maintaining is locked by Maintain, which replaces and removes objects, and by Close.
	maintaining sync.Mutex

	// reading is locked by Begin, Close, and by a Commit that reads the positions again.
	reading sync.Mutex

	mu        sync.Mutex // guards the following
	begun     bool
	known     bool      // positions and next are those of the lake; a Commit that fails may have learned a part only
	readAt    time.Time // when the positions were read from the lake
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
	now := func() time.Time { return time.Now().Round(0) }
	return &Store{objects: o, writer: rand.Text(), now: now, positions: map[int]row.Position{}, next: map[chain]uint64{}}
}

// Begin implements row.Store. In a directory it waits until no other process writes; in an S3-compatible store it cannot know that, and Commit returns
// row.ErrConflict to one of two writers. It writes views.sql.
func (s *Store) Begin(ctx context.Context, partitions int) ([]row.Position, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.readPositions(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.known = true, true
	positions := make([]row.Position, partitions)
	for i := range positions {
		positions[i] = s.positions[i]
		positions[i].Partition = i
	}
	return positions, nil
}

// readPositions learns the positions from the files.
func (s *Store) readPositions(ctx context.Context) error {
	type found struct {
		table  string
		footer footer
	}
	var ends []found
	began := s.now()
	// Events first: what a batch stores before them is in the lists of the other tables then. Nothing is learned before all lists are read: a position without the
	// ends of the other tables would be wrong.
	for _, table := range []string{tableEvents, tableObservations, tableGaps} {
		files, err := s.files(ctx, table)
		if err != nil {
			return err
		}
		newest := map[chain]name{}
		for _, n := range byKind(files)[1] {
			newest[n.chain()] = n.name
		}
		for _, n := range newest {
			f, err := footerOf(ctx, s.objects, n.String())
			if err != nil {
				return err
			}
			ends = append(ends, found{table, f})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range ends {
		s.learn(e.table, e.footer)
	}
	s.readAt = began
	return nil
}

// prepare stores what a reader needs besides the files of rows.
func (s *Store) prepare(ctx context.Context) error {
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if begun {
		return nil
	}
	if err := s.objects.begin(ctx); err != nil {
		return fmt.Errorf("lake: %w", err)
	}
	if err := s.checkTenant(ctx); err != nil {
		return err
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
		{noStateName, []byte(`{"merged":[]}`), nil},
		{viewsName, []byte(sql.DuckDB(s.objects.url())), nil},
	} {
		if object.err != nil {
			return object.err
		}
		if err := put(ctx, s.objects, object.name, object.data); err != nil {
			return err
		}
	}
	return nil
}

// checkTenant stores the tenant in a lake that has none.
func (s *Store) checkTenant(ctx context.Context) error {
	data, err := json.Marshal(s.Tenant)
	if err != nil {
		return err
	}
	if err := s.objects.create(ctx, tenantName, data); !errors.Is(err, errExists) {
		return err
	}
	stored, _, err := read(ctx, s.objects, tenantName)
	if err == nil && !bytes.Equal(stored, data) {
		err = fmt.Errorf("%w: the lake is one of tenant %s, the sink of %s (\"\" means all tenants): it needs another store", row.ErrOtherTenant, stored, data)
	}
	return err
}

// files returns the files of a table, sorted.
func (s *Store) files(ctx context.Context, table string) ([]file, error) {
	entries, err := s.objects.list(ctx, table)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", table, err)
	}
	files := make([]file, 0, len(entries))
	for _, e := range entries {
		if n, ok := parseName(e.name); ok {
			files = append(files, file{n, e.size, e.modified})
		}
	}
	sortFiles(files)
	return files, nil
}

func (n name) chain() chain { return chain{n.table, n.partition, n.generation} }

// readAgain reads the positions if that was half a grace ago or longer: the names of files that exist are reserved for so long, and not longer.
func (s *Store) readAgain(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	age := s.now().Sub(s.readAt)
	s.mu.Unlock()
	if age >= 0 && age < grace/2 {
		return nil
	}
	return s.readPositions(ctx)
}

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

// Before implements row.Store. It leaves out batches that a later generation has replaced. Of an earlier generation whose batches were merged it returns the beginning, so that its
// history is known.
func (s *Store) Before(ctx context.Context, at row.Position) (row.Position, bool, error) {
	all, err := s.files(ctx, tableEvents)
	if err != nil {
		return row.Position{}, false, err
	}
	limit := uint64(at.Seq) // the position is below
	for g := at.Generation; g > 0; g-- {
		var files []file
		for _, f := range all {
			if f.partition == at.Partition && f.generation == g {
				files = append(files, f)
			}
		}
		if len(files) == 0 {
			continue
		}
		found, err := s.lastEnd(ctx, files, limit)
		if err != nil || found.Generation > 0 {
			return found, err == nil, err
		}
		f, err := footerOf(ctx, s.objects, files[0].String())
		switch {
		case err != nil:
			return row.Position{}, false, err
		case g < at.Generation:
			return row.Position{Partition: at.Partition, Generation: g, History: f.through.History}, true, nil
		}
		limit = min(limit, f.boundary+1)
	}
	return row.Position{}, false, nil
}

// lastEnd returns the last end of a file that is below limit, zero without one.
func (s *Store) lastEnd(ctx context.Context, files []file, limit uint64) (found row.Position, err error) {
	for len(files) > 1 && files[len(files)-1].first > limit {
		files = files[:len(files)-1]
	}
	// A file before this one may have been merged into a longer one.
	for i := len(files) - 1; i >= 0 && (found.Generation == 0 || files[i].first > uint64(found.Seq)); i-- {
		f, err := footerOf(ctx, s.objects, files[i].String())
		if err != nil {
			return row.Position{}, err
		}
		if uint64(f.through.Seq) < limit && f.through.Seq >= found.Seq {
			found = f.through
		}
	}
	return found, nil
}

// Close implements row.Store. It waits for Maintain. Begin opens the lake again.
func (s *Store) Close() error {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = false
	return s.objects.close()
}
