package parquet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
)

const (
	// grace is the time that a reader has for a query, from the list of files on. A writer that has not read the lake for as long stores nothing.
	grace = time.Hour

	// upkeepTime is the time after which Maintain merges and removes no more files.
	upkeepTime = 5 * time.Minute
)

// state is what maintenance knows of a partition. It is replaced on the version that was read before the lists of files: of two processes one has done its work
// for nothing.
type state struct {
	Erased erased     `json:"erased"`
	Merged []*merging `json:"merged"`

	version string
	stored  []byte // nil if there is none
}

// merging is the state of the files of a table in one generation of a partition.
//
//	files of days that are over     Next gets the ranges to merge
//	Next, without Since             each range is merged, then Since is set
//	Next, a grace after Since       End moves after the ranges: readers take the merged files
//	no Next, a grace after Since    the files before End are removed, then Next gets more ranges
type merging struct {
	Table      string `json:"table"`
	Partition  int    `json:"partition"`
	Generation int    `json:"generation"`

	End   uint64    `json:"end"`            // the records before it are in merged files
	Next  []span    `json:"next,omitempty"` // ranges after End that are merged or will be
	Since time.Time `json:"since,omitzero"` // when all of Next were merged; without Next, when End moved
}

// span is the range of records of a merged file.
type span struct {
	First  uint64 `json:"first"`
	End    uint64 `json:"end"` // after the last one
	Date   string `json:"date"`
	Merged bool   `json:"merged,omitempty"`
}

func stateName(partition int) string { return fmt.Sprintf("maintained/p%d.json", partition) }

// noStateName names the state of no partition, so that readers find one before there is another.
const noStateName = "maintained/none.json"

// byKind returns the files that are merged, and the others.
func byKind(files []file) [2][]file {
	var kinds [2][]file
	for _, f := range files {
		if f.merged {
			kinds[0] = append(kinds[0], f)
		} else {
			kinds[1] = append(kinds[1], f)
		}
	}
	return kinds
}

// Maintain erases, merges and removes rows; it does nothing before Begin. It may be called at any time beside writers, readers and other calls. What a call does not
// complete, because it fails, or after some minutes, the next one does.
//
// It removes the rows of deleted sessions from all files: the views leave them out from the commit of the deletion on. It merges the files of days that are over. It
// removes the rows of days before olderThan, unless that is zero. An S3-compatible store with versions keeps the bytes of the versions before.
func (s *Store) Maintain(ctx context.Context, olderThan time.Time) error {
	s.maintaining.Lock()
	defer s.maintaining.Unlock()
	u := upkeep{Store: s, began: s.now()}
	if !olderThan.IsZero() {
		u.keepFrom, u.keepGapsFrom = dateOf(olderThan), dateOf(olderThan.AddDate(0, 0, -1))
	}
	for {
		again, err := u.pass(ctx)
		if !again || err != nil {
			return err
		}
	}
}

// upkeep is one call of Maintain.
type upkeep struct {
	*Store

	began    time.Time
	keepFrom string // date of the first day whose rows stay; empty: all stay

	// keepGapsFrom is a day earlier: a gap is removed after the rows that it makes invisible.
	keepGapsFrom string
}

func (u *upkeep) isLate() bool { return u.now().Sub(u.began) > upkeepTime }

// pass maintains all partitions. It reports whether there are new ranges to merge.
func (u *upkeep) pass(ctx context.Context) (again bool, err error) {
	u.mu.Lock()
	positions, begun := maps.Clone(u.positions), u.begun
	u.mu.Unlock()
	if !begun {
		return false, nil
	}
	// The states come before the lists: if no other process has replaced the state at the end, the lists have all that it knows.
	partitions := slices.Sorted(maps.Keys(positions))
	states := map[int]*state{}
	for _, p := range partitions {
		if states[p], err = u.readState(ctx, p); err != nil {
			return false, err
		}
	}
	all := map[string][]file{}
	for _, table := range tables {
		if all[table], err = u.files(ctx, table); err != nil {
			return false, err
		}
	}
	deletions, err := u.deletions(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range partitions {
		files := map[string][]file{}
		for table, list := range all {
			files[table] = slices.DeleteFunc(slices.Clone(list), func(f file) bool { return f.partition != p })
		}
		at := positions[p]
		planned, partitionErr := u.partition(ctx, states[p], p, erased{at.Generation, at.Seq, deletions[p]}, files)
		switch {
		case errors.Is(partitionErr, errChanged), errors.Is(partitionErr, fs.ErrNotExist): // another process maintains the lake
		case partitionErr != nil:
			err = errors.Join(err, fmt.Errorf("partition %d: %w", p, partitionErr))
		}
		again = again || planned && partitionErr == nil
	}
	return again, err
}

// partition maintains a partition whose position is at.
func (u *upkeep) partition(ctx context.Context, s *state, partition int, at erased, files map[string][]file) (planned bool, err error) {
	done := s.Erased
	if err := u.erase(ctx, done, at, files); err != nil {
		return false, err
	}
	s.Erased = done.with(at)
	for _, table := range []string{tableObservations, tableEvents, tableGaps} { // gaps last: they make rows of the others invisible
		for generation, list := range byGeneration(files[table]) {
			c := s.chain(table, partition, generation)
			if list, err = u.keep(ctx, list); err != nil {
				return false, err
			}
			more, err := u.merge(ctx, c, done, s.Erased, list)
			if err != nil {
				return false, fmt.Errorf("merge %s of generation %d: %w", table, generation, err)
			}
			planned = planned || more
		}
	}
	if err := u.keepDeletions(ctx, at.Deletions); err != nil {
		return false, err
	}
	return planned, u.writeState(ctx, partition, s)
}

// chain returns the state of a chain.
func (s *state) chain(table string, partition, generation int) *merging {
	for _, c := range s.Merged {
		if c.Table == table && c.Generation == generation {
			return c
		}
	}
	c := &merging{Table: table, Partition: partition, Generation: generation}
	s.Merged = append(s.Merged, c)
	return c
}

func (u *upkeep) readState(ctx context.Context, partition int) (*state, error) {
	s := &state{}
	data, version, err := read(ctx, u.objects, stateName(partition))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", stateName(partition), err)
	}
	s.version, s.stored = version, data
	return s, nil
}

// writeState stores a state in place of the one that was read.
func (u *upkeep) writeState(ctx context.Context, partition int, s *state) error {
	s.Merged = slices.DeleteFunc(s.Merged, func(c *merging) bool { return c.End == 0 && len(c.Next) == 0 })
	slices.SortFunc(s.Merged, func(a, b *merging) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Generation, b.Generation))
	})
	data, err := json.Marshal(s)
	switch {
	case err != nil:
		return err
	case bytes.Equal(data, s.stored):
		return nil
	case s.stored != nil:
		return u.objects.replace(ctx, stateName(partition), s.version, data)
	}
	err = u.objects.create(ctx, stateName(partition), data)
	if errors.Is(err, errExists) {
		return errChanged
	}
	return err
}
