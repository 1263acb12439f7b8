package parquet

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/sink/row"
)

// Positions implements row.Store.
func (s *Store) Positions(ctx context.Context, partitions int) ([]row.Position, error) {
	files, err := s.files(ctx, tableEvents)
	if err != nil {
		return nil, err
	}
	names := byKind(files)[1]
	all := make([]row.Position, partitions)
	for p := range all {
		all[p].Partition = p
	}
	for i, n := range names {
		if n.partition >= partitions || i+1 < len(names) && names[i+1].partition == n.partition {
			continue
		}
		f, err := footerOf(ctx, s.objects, n.String())
		if err != nil {
			return nil, err
		}
		all[n.partition] = f.through
	}
	return all, nil
}

// session is the key of a session.
type session struct{ tenant, root, id string }

// hash is a key in less memory: that of all sessions is in memory at once.
type hash [16]byte

func (s session) hash() (h hash) {
	sum := sha256.Sum256([]byte(s.tenant + "\x00" + s.root + "\x00" + s.id))
	copy(h[:], sum[:])
	return h
}

// Sessions implements row.Store. It reads the days backwards, so that it has the places of the sessions of one day in memory.
func (s *Store) Sessions(ctx context.Context, of row.Selection, yield func(row.Place) error) error {
	var files []file
	for _, table := range []string{tableObservations, tableEvents} {
		found, err := s.files(ctx, table)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	first := dateOf(of.Since)
	files = slices.DeleteFunc(files, func(n file) bool { return n.partition != of.Partition || n.date < first })
	slices.SortStableFunc(files, func(a, b file) int { return strings.Compare(b.date, a.date) })
	gaps, err := s.gapsOf(ctx, of.Partition)
	if err != nil {
		return err
	}
	seen := map[hash]bool{}
	for len(files) > 0 {
		day := slices.IndexFunc(files, func(n file) bool { return n.date != files[0].date })
		if day < 0 {
			day = len(files)
		}
		places := map[session]row.Place{}
		for _, n := range files[:day] {
			if err := s.places(ctx, n.name, of, gaps, places); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
		for key, p := range places {
			if h := key.hash(); !seen[h] {
				seen[h] = true
				if err := yield(p); err != nil {
					return err
				}
			}
		}
		files = files[day:]
	}
	return nil
}

// gapsOf returns the gaps of a partition that say which rows do not count: those of a root, and under an empty root those that the log has lost.
func (s *Store) gapsOf(ctx context.Context, partition int) (map[string][]row.Gap, error) {
	names, err := s.files(ctx, tableGaps)
	if err != nil {
		return nil, err
	}
	deletions, err := s.deletions(ctx)
	if err != nil {
		return nil, err
	}
	all := deletions[partition]
	for _, n := range names {
		if n.partition == partition {
			all = append(all, n.String())
		}
	}
	found := map[string][]row.Gap{}
	for _, name := range all {
		gaps, err := s.gapsIn(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, g := range gaps {
			switch {
			case g.Erases():
				found[g.Root] = append(found[g.Root], g)
			case g.Reason == row.Recreated:
				found[""] = append(found[""], g)
			}
		}
	}
	return found, nil
}

// places adds the last places of the sessions of a file. It reads the columns of a place only.
func (s *Store) places(ctx context.Context, n name, of row.Selection, gaps map[string][]row.Gap, last map[session]row.Place) (err error) {
	if of.Root != "" {
		roots := append([]row.Gap(nil), row.Gap{Place: row.Place{Root: of.Root}})
		if found, err := s.mayHave(ctx, n, roots); err != nil || len(found) == 0 {
			return err
		}
	}
	in, err := s.objects.open(ctx, n.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	file, err := parquet.OpenFile(in, in.size(), parquet.SkipMagicBytes(true), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(footerRead))
	if err != nil {
		return err
	}
	rows := parquet.NewGenericReader[row.Place](file)
	defer func() { err = errors.Join(err, rows.Close()) }()
	read := make([]row.Place, writeRows)
	for {
		count, err := rows.Read(read)
		for _, p := range read[:count] {
			p.StoredAt = p.StoredAt.UTC()
			key := session{p.Tenant, p.Root, p.Session}
			known, ok := last[key]
			if ok && !p.IsAfter(&known) || p.StoredAt.Before(of.Since) || of.Tenant != "" && p.Tenant != of.Tenant || of.Root != "" && p.Root != of.Root {
				continue
			}
			if !slices.ContainsFunc(gaps[""], func(g row.Gap) bool { return g.Loses(&p) }) && !slices.ContainsFunc(gaps[p.Root], func(g row.Gap) bool { return g.Covers(&p) }) {
				last[key] = p
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
