package parquet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/tailrace/tailrace/sink/row"
)

// Deletions that no record of the log caused are gaps in files of their own, which no position names: they are stored at any time, beside the process that commits.
var deletionPattern = regexp.MustCompile(`^gaps/date=(\d{4}-\d\d-\d\d)/deleted-p(\d+)-[A-Z2-7]+\.parquet$`)

func (s *Store) deletionName(partition int) string {
	return fmt.Sprintf("%s/date=%s/deleted-p%d-%s.parquet", tableGaps, dateOf(s.now()), partition, rand.Text())
}

// Delete implements row.Store. The views leave out the rows at once; Maintain removes them.
func (s *Store) Delete(ctx context.Context, gaps []row.Gap) error {
	if len(gaps) == 0 {
		return nil
	}
	through := row.Position{Partition: int(gaps[0].Partition)}
	data, err := encode(footer{through: through, writer: s.writer}, gaps)
	if err != nil {
		return fmt.Errorf("encode deletions: %w", err)
	}
	name := s.deletionName(through.Partition)
	if err := s.objects.create(ctx, name, data); err != nil && !errors.Is(err, errExists) { // it exists if the answer to the first request was lost
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// deletions returns the names of the files of Delete by partition.
func (s *Store) deletions(ctx context.Context) (map[int][]string, error) {
	all, err := s.objects.list(ctx, tableGaps)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", tableGaps, err)
	}
	names := map[int][]string{}
	for _, e := range all {
		if m := deletionPattern.FindStringSubmatch(e.name); m != nil {
			if partition, err := strconv.Atoi(m[2]); err == nil {
				names[partition] = append(names[partition], e.name)
			}
		}
	}
	return names, nil
}

// keepDeletions removes the files of Delete that are too old: the rows that they make invisible are older.
func (u *upkeep) keepDeletions(ctx context.Context, names []string) error {
	for _, name := range names {
		if m := deletionPattern.FindStringSubmatch(name); len(m) > 1 && m[1] < u.keepGapsFrom {
			if err := u.objects.remove(ctx, name); err != nil {
				return fmt.Errorf("remove %s: %w", name, err)
			}
		}
	}
	return nil
}

// gapsIn returns the gaps of a file.
func (s *Store) gapsIn(ctx context.Context, name string) ([]row.Gap, error) {
	data, _, err := read(ctx, s.objects, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	gaps, err := decode[row.Gap](data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return gaps, nil
}

// deleted adds the gaps of the files of Delete to those that an erasure applies to all files (fresh), or as far as one before has applied them, to later files (old).
func (s *Store) deleted(ctx context.Context, done erased, names []string, fresh, old []row.Gap) ([]row.Gap, []row.Gap, error) {
	for _, name := range names {
		gaps, err := s.gapsIn(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(done.Deletions, name) {
			old = append(old, gaps...)
		} else {
			fresh = append(fresh, gaps...)
		}
	}
	return fresh, old, nil
}
