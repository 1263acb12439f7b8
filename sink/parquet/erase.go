package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/sink/row"
)

// erased is a position, and files of Delete: all erasures up to it and those of the files are applied to all files up to it.
type erased struct {
	Generation int       `json:"generation"`
	Seq        chunk.Seq `json:"sequence"`
	Deletions  []string  `json:"deletions,omitempty"`
}

func (e erased) isBehind(other erased) bool {
	return e.Generation < other.Generation || e.Generation == other.Generation && e.Seq < other.Seq
}

// less reports whether other has erasures that e does not have.
func (e erased) less(other erased) bool {
	return e.isBehind(other) || slices.ContainsFunc(other.Deletions, func(name string) bool { return !slices.Contains(e.Deletions, name) })
}

// with returns e after the erasures of another one. The files of its deletions are those that exist.
func (e erased) with(other erased) erased {
	if other.isBehind(e) {
		other.Generation, other.Seq = e.Generation, e.Seq
	}
	return other
}

// isBefore reports whether a file may have rows after the position. The last record of a file is one before the next file of its kind, merged or not.
func (e erased) isBefore(files []file, i int) bool {
	n := files[i]
	isNewest := i+1 == len(files) || files[i+1].generation != n.generation
	return n.generation > e.Generation || n.generation == e.Generation && (isNewest || files[i+1].first > uint64(e.Seq)+1)
}

// erase removes the rows of deleted sessions from the files of a partition. The erasures up to the position to are complete in the files then.
func (s *Store) erase(ctx context.Context, done, to erased, files map[string][]file) error {
	if !done.less(to) {
		return nil
	}
	fresh, old, err := s.erasures(ctx, done, to, files[tableGaps])
	if err != nil {
		return err
	}
	if fresh, old, err = s.deleted(ctx, done, to.Deletions, fresh, old); err != nil {
		return err
	}
	for _, table := range []string{tableObservations, tableEvents} {
		for _, kind := range byKind(files[table]) {
			for i, n := range kind {
				applied := fresh
				if done.isBefore(kind, i) {
					// A restored log may contain the records of a session again that was deleted after the backup.
					applied = slices.Concat(fresh, old)
				}
				if err := s.eraseFrom(ctx, n.name, applied); err != nil {
					return fmt.Errorf("erase from %s: %w", n, err)
				}
			}
		}
	}
	return nil
}

// erasures returns the erasures after a position and up to the stored one. Those after it are left to the next call: their batch is not complete. Old ones are
// returned as far as they are of earlier generations.
func (s *Store) erasures(ctx context.Context, done, at erased, files []file) (fresh, old []row.Gap, err error) {
	var fits []file
	for _, kind := range byKind(files) {
		for i, n := range kind {
			if n.generation < at.Generation || n.generation == at.Generation && done.isBefore(kind, i) {
				fits = append(fits, n)
			}
		}
	}
	for _, n := range fits {
		rows, err := s.gapsIn(ctx, n.String())
		if err != nil {
			return nil, nil, err
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
	return s.without(ctx, n, func(p *row.Place) bool {
		return slices.ContainsFunc(found, func(g row.Gap) bool { return g.Covers(p) })
	})
}

// without rewrites a file without some of its rows, if it has any of them.
func (s *Store) without(ctx context.Context, n name, remove func(*row.Place) bool) (err error) {
	for {
		switch n.table {
		case tableEvents:
			err = rewrite(ctx, s.objects, n, func(r *row.Event) bool { return remove(&r.Place) })
		case tableObservations:
			err = rewrite(ctx, s.objects, n, func(r *row.Observation) bool { return remove(&r.Place) })
		default:
			err = rewrite(ctx, s.objects, n, func(r *row.Gap) bool { return remove(&r.Place) })
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

// rewrite replaces a file with one that has the same footer and fewer rows.
func rewrite[T any](ctx context.Context, o objects, n name, remove func(*T) bool) error {
	data, version, err := read(ctx, o, n.String())
	if err != nil {
		return err
	}
	f, err := checkedFooter(data)
	if err != nil {
		return err
	}
	rows, err := decode[T](data)
	if err != nil {
		return err
	}
	before := len(rows)
	rows = slices.DeleteFunc(rows, func(r T) bool { return remove(&r) })
	if len(rows) == before {
		return nil
	}
	data, err = encode(f, rows)
	if err != nil {
		return err
	}
	return o.replace(ctx, n.String(), version, data)
}

// checkedFooter returns the footer of a file whose columns are known, so that it can be written again.
func checkedFooter(data []byte) (footer, error) {
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return footer{}, err
	}
	if schema, _ := file.Lookup(keySchema); schema > schemaVersion {
		return footer{}, fmt.Errorf("file has the schema %s, want %s or earlier", schema, schemaVersion)
	}
	return readFooter(file)
}
