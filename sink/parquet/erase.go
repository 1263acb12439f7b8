package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// erased is stored for each partition: all erasures up to this position are applied to all files up to it.
type erased struct {
	Generation int       `json:"generation"`
	Seq        chunk.Seq `json:"sequence"`
	Deletions  []string  `json:"deletions,omitempty"` // files of Delete that are applied, too
}

// isBefore reports whether a file may have rows after the position. The last record of a file is the one before the next file.
func (e erased) isBefore(files []name, i int) bool {
	n := files[i]
	isNewest := i+1 == len(files) || files[i+1].generation != n.generation
	return n.generation > e.Generation || n.generation == e.Generation && (isNewest || files[i+1].first > uint64(e.Seq)+1)
}

func erasedName(partition int) string { return fmt.Sprintf("erased/p%d.json", partition) }

// Erase removes the rows of deleted sessions from the files of all partitions; it does nothing before Begin. The views leave them out from the commit of the
// deletion on. A call that fails is repeated as a whole by the next one. An S3-compatible store with versions keeps the bytes of the versions before.
func (s *Store) Erase(ctx context.Context) error {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	s.mu.Lock()
	positions, begun := maps.Clone(s.positions), s.begun
	s.mu.Unlock()
	if !begun {
		return nil
	}
	all := map[string][]name{}
	for _, table := range tables {
		names, err := s.names(ctx, table)
		if err != nil {
			return err
		}
		all[table] = names
	}
	deletions, err := s.deletions(ctx)
	if err != nil {
		return err
	}
	for partition, at := range positions {
		files := map[string][]name{}
		for table, names := range all {
			files[table] = slices.DeleteFunc(slices.Clone(names), func(n name) bool { return n.partition != partition })
		}
		if err := s.erasePartition(ctx, at, files, deletions[partition]); err != nil {
			return fmt.Errorf("erase deleted sessions of partition %d: %w", partition, err)
		}
	}
	return nil
}

func (s *Store) erasePartition(ctx context.Context, at row.Position, files map[string][]name, deletions []string) error {
	done, err := s.erasedUpTo(ctx, at.Partition)
	if err != nil || done.Generation == at.Generation && done.Seq == at.Seq && slices.Equal(done.Deletions, deletions) {
		return err
	}
	fresh, old, err := s.erasures(ctx, done, at, files[tableGaps])
	if err != nil {
		return err
	}
	if fresh, old, err = s.deleted(ctx, done, deletions, fresh, old); err != nil {
		return err
	}
	for _, table := range []string{tableObservations, tableEvents} {
		for i, n := range files[table] {
			applied := fresh
			if done.isBefore(files[table], i) {
				// A restored log may contain the records of a session again that was deleted after the backup.
				applied = slices.Concat(fresh, old)
			}
			if err := s.eraseFrom(ctx, n, applied); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
	}
	data, err := json.Marshal(erased{at.Generation, at.Seq, deletions})
	if err != nil {
		return err
	}
	return put(ctx, s.objects, erasedName(at.Partition), data)
}

func (s *Store) erasedUpTo(ctx context.Context, partition int) (done erased, err error) {
	data, _, err := read(ctx, s.objects, erasedName(partition))
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return done, err
	}
	err = json.Unmarshal(data, &done)
	return done, err
}

// erasures returns the erasures after a position and up to the stored one. Those after it are left to the next call: their batch is not complete. Old ones are
// returned as far as they are of earlier generations.
func (s *Store) erasures(ctx context.Context, done erased, at row.Position, files []name) (fresh, old []row.Gap, err error) {
	for i, n := range files {
		if n.generation > at.Generation || n.generation == at.Generation && !done.isBefore(files, i) {
			continue
		}
		data, _, err := read(ctx, s.objects, n.String())
		if err != nil {
			return nil, nil, err
		}
		rows, err := decode[row.Gap](data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", n, err)
		}
		for _, g := range rows {
			switch seq := chunk.Seq(g.Seq); {
			case !g.Erases() || n.generation == at.Generation && seq > at.Seq:
			case n.generation > done.Generation || n.generation == done.Generation && seq > done.Seq:
				fresh = append(fresh, g)
			case n.generation < at.Generation:
				old = append(old, g)
			}
		}
	}
	return fresh, old, nil
}

// eraseFrom rewrites a file without the rows that are erased, if it has any.
func (s *Store) eraseFrom(ctx context.Context, n name, erasures []row.Gap) error {
	found, err := s.mayHave(ctx, n, erasures)
	if err != nil || len(found) == 0 {
		return err
	}
	for {
		var err error
		if n.table == tableEvents {
			err = rewrite(ctx, s.objects, n, found, func(r *row.Event) *row.Place { return &r.Place })
		} else {
			err = rewrite(ctx, s.objects, n, found, func(r *row.Observation) *row.Place { return &r.Place })
		}
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// mayHave returns the erasures whose root a file may have.
func (s *Store) mayHave(ctx context.Context, n name, erasures []row.Gap) (found []row.Gap, err error) {
	if len(erasures) == 0 {
		return nil, nil
	}
	_, file, in, err := openFooter(ctx, s.objects, n.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	column, ok := file.Schema().Lookup("root")
	if !ok {
		return nil, errors.New("file has no column root")
	}
	for i := range erasures {
		for _, group := range file.RowGroups() {
			filter := group.ColumnChunks()[column.ColumnIndex].BloomFilter()
			has, err := true, error(nil)
			if filter != nil {
				has, err = filter.Check(parquet.ValueOf(erasures[i].Root))
			}
			if err != nil {
				return nil, err
			}
			if has {
				found = append(found, erasures[i])
				break
			}
		}
	}
	return found, nil
}

// rewrite replaces a file with one that has the same footer and the rows that are not erased.
func rewrite[T any](ctx context.Context, o objects, n name, erasures []row.Gap, place func(*T) *row.Place) error {
	data, version, err := read(ctx, o, n.String())
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(strings.NewReader(string(data)), int64(len(data)))
	if err != nil {
		return err
	}
	if schema, _ := file.Lookup(keySchema); schema > schemaVersion {
		return fmt.Errorf("file has the schema %s, want %s or earlier", schema, schemaVersion)
	}
	f, err := readFooter(file)
	if err != nil {
		return err
	}
	rows, err := decode[T](data)
	if err != nil {
		return err
	}
	before := len(rows)
	rows = slices.DeleteFunc(rows, func(r T) bool {
		return slices.ContainsFunc(erasures, func(g row.Gap) bool { return g.Covers(place(&r)) })
	})
	if len(rows) == before {
		return nil
	}
	data, err = encode(f, rows)
	if err != nil {
		return err
	}
	return o.replace(ctx, n.String(), version, data)
}
