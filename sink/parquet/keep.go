package parquet

import (
	"context"
	"fmt"
	"iter"

	"github.com/tailrace/tailrace/sink/row"
)

// byGeneration returns the files of each generation, the first one first.
func byGeneration(files []file) iter.Seq2[int, []file] {
	return func(yield func(int, []file) bool) {
		for len(files) > 0 {
			n := 1
			for n < len(files) && files[n].generation == files[0].generation {
				n++
			}
			if !yield(files[0].generation, files[:n:n]) {
				return
			}
			files = files[n:]
		}
	}
}

// keep removes what is too old from the files of a chain, and returns the others. The newest file that is not merged has the position: it stays without its rows.
func (u *upkeep) keep(ctx context.Context, files []file) (left []file, err error) {
	from := u.keepFrom
	if len(files) > 0 && files[0].table == tableGaps {
		from = u.keepGapsFrom
	}
	own := byKind(files)[1]
	for i, f := range files {
		isNewest := len(own) > 0 && f.name == own[len(own)-1].name
		switch {
		case f.date >= from || f.date == unknownDate:
			left = append(left, f)
		case isNewest:
			left = append(left, f)
			err = u.empty(ctx, f.name)
		case u.isLate():
			return append(left, files[i:]...), nil
		case u.began.Sub(f.modified) < 2*grace: // a writer may not know that this name exists
			left = append(left, f)
		default:
			err = u.objects.remove(ctx, f.String())
		}
		if err != nil {
			return nil, fmt.Errorf("remove old rows from %s: %w", f, err)
		}
	}
	return left, nil
}

// empty removes all rows from a file.
func (u *upkeep) empty(ctx context.Context, n name) error {
	_, in, closer, err := openFooter(ctx, u.objects, n.String())
	if err != nil {
		return err
	}
	rows := in.NumRows()
	if err := closer.Close(); err != nil || rows == 0 {
		return err
	}
	return u.without(ctx, n, func(*row.Place) bool { return true })
}
