package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/tailrace/tailrace/sink/row"
)

// mergeBytes is how much is merged into one file at most, unless one file has more. The new file is in memory until it is stored, as S3 wants it. That needs 60 MB
// beside the state of sessions and the batches of all partitions, and the process is to stay below 300 MB.
const mergeBytes = 16 << 20

// merge does the next step for a chain, whose files had the erasures up to done when its state was read, and have those up to now. It reports whether there are new
// ranges to merge.
func (u *upkeep) merge(ctx context.Context, c *merging, done, now erased, files []file) (planned bool, err error) {
	kinds := byKind(files)
	merged, own := kinds[0], kinds[1]
	waits := u.began.Sub(c.Since) < grace
	switch {
	case len(c.Next) > 0 && c.Since.IsZero():
		return false, u.mergeNext(ctx, c, done, now, merged, own)
	case waits:
		return false, nil
	case len(c.Next) > 0:
		c.End, c.Next, c.Since = c.Next[len(c.Next)-1].End, nil, u.now().UTC()
		return false, nil
	}
	for len(own) > 0 && own[0].first < c.End {
		if u.isLate() {
			return false, nil
		}
		if err := u.objects.remove(ctx, own[0].String()); err != nil {
			return false, err
		}
		own = own[1:]
	}
	return u.plan(ctx, c, own)
}

// plan sets the ranges to merge: files of one day that is over, without the newest file of the chain. A range is in the state before it is merged, so all processes
// merge the same ones.
func (u *upkeep) plan(ctx context.Context, c *merging, own []file) (bool, error) {
	groups := group(own, dateOf(u.began))
	for _, g := range groups {
		last, err := footerOf(ctx, u.objects, g[len(g)-1].String())
		if err != nil {
			return false, err
		}
		c.Next = append(c.Next, span{First: g[0].first, End: uint64(last.through.Seq) + 1, Date: g[0].date})
	}
	c.Since = time.Time{}
	return len(groups) > 0, nil
}

// group returns the files to merge, up to the last group of several files.
func group(own []file, today string) (groups [][]file) {
	useful := 0
	for len(own) > 1 && own[0].date < today {
		n, size := 1, own[0].size
		for n+1 < len(own) && own[n].date == own[0].date && size+own[n].size <= mergeBytes {
			size += own[n].size
			n++
		}
		groups, own = append(groups, own[:n]), own[n:]
		if n > 1 {
			useful = len(groups)
		}
	}
	return groups[:useful]
}

// mergeNext stores the merged files that do not exist.
func (u *upkeep) mergeNext(ctx context.Context, c *merging, done, now erased, merged, own []file) error {
	for i := range c.Next {
		to := &c.Next[i]
		if to.Merged {
			continue
		}
		var from []file
		size := int64(0)
		for _, f := range own {
			if f.first >= to.First && f.first < to.End {
				from, size = append(from, f), size+f.size
			}
		}
		if i > 0 && u.isLate() {
			return nil
		}
		if len(from) > 0 { // otherwise they were too old, and are removed
			n := name{merged: true, table: c.Table, date: to.Date, partition: c.Partition, generation: c.Generation, first: to.First}
			var err error
			switch c.Table {
			case tableEvents:
				err = mergeFiles[row.Event](ctx, u, n, *to, done, now, merged, from, size)
			case tableObservations:
				err = mergeFiles[row.Observation](ctx, u, n, *to, done, now, merged, from, size)
			default:
				err = mergeFiles[row.Gap](ctx, u, n, *to, done, now, merged, from, size)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
		to.Merged = true
	}
	c.Since = u.now().UTC()
	return nil
}

// mergeFiles stores a merged file, if there is none that has all erasures.
func mergeFiles[T any](ctx context.Context, u *upkeep, n name, to span, done, now erased, merged, from []file, size int64) error {
	var version string
	exists := false
	for _, m := range merged {
		if m.name != n {
			continue
		}
		found, _, in, err := openFooter(ctx, u.objects, n.String())
		if err != nil {
			return err
		}
		version, exists = in.version(), true
		if err := in.Close(); err != nil {
			return err
		}
		if !found.erased.less(done) {
			return nil
		}
		// A process has read the files before an erasure, and has stored this one after it.
	}
	last, err := footerOf(ctx, u.objects, from[len(from)-1].String())
	if err != nil {
		return err
	}
	f := footer{first: to.First, through: last.through, writer: u.writer, erased: now}
	if uint64(f.through.Seq)+1 != to.End {
		return fmt.Errorf("files end at %d, want %d", f.through.Seq, to.End-1)
	}
	first, err := footerOf(ctx, u.objects, from[0].String())
	if err != nil {
		return err
	}
	f.boundary = first.boundary
	out := newEncoder[T](f, int(size))
	for _, source := range from {
		data, _, err := read(ctx, u.objects, source.String())
		if err != nil {
			return err
		}
		if err := copyRows(out, data); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	data, err := out.close()
	if err != nil {
		return err
	}
	if exists {
		return u.objects.replace(ctx, n.String(), version, data)
	}
	err = u.objects.create(ctx, n.String(), data)
	if errors.Is(err, errExists) {
		return errChanged
	}
	return err
}

// copyRows appends the rows of a file.
func copyRows[T any](out *encoder[T], data []byte) (err error) {
	if _, err := checkedFooter(data); err != nil {
		return err
	}
	in := parquet.NewGenericReader[T](bytes.NewReader(data))
	defer func() { err = errors.Join(err, in.Close()) }()
	rows := make([]T, writeRows)
	for {
		clear(rows)
		n, err := in.Read(rows)
		if err := out.write(rows[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
