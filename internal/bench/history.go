package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/compact"
)

// history measures Replay of a session that has ended, from its archive, against
// the same from the log, where it lies scattered, one message in ten.
func (l *lab) history(ctx context.Context) ([]pair, error) {
	w, err := l.world(ctx)
	if err != nil {
		return nil, err
	}
	turns := 35
	if l.cfg.Quick {
		turns = 1
	}
	chunks := turns * turnChunks
	scribes := w.scribes(10)
	if err := w.write(ctx, len(scribes)*chunks, scribes...); err != nil {
		return nil, err
	}
	s := scribes[0].session
	quiet := slog.New(slog.DiscardHandler)
	compactor, err := compact.New(l.js, compact.Config{Layout: w.layout, Log: quiet})
	if err != nil {
		return nil, err
	}
	if archived, err := compactor.Compact(ctx, s); err != nil || !archived {
		return nil, errors.Join(err, fmt.Errorf("session %s: archived is %t", s, archived))
	}
	archives, err := consumers.New(l.nc, l.js, consumers.Config{Layout: w.layout, Archives: true, Log: quiet})
	if err != nil {
		return nil, err
	}
	return []pair{{
		name: fmt.Sprintf("history-%d", chunks), floor: "Replay from the log",
		aims: []aim{{figure: chunksPerSecond, ratioFrom: 10}},
		ours: func(ctx context.Context, _ int) (figures, error) {
			before := archives.Stats().Archived
			f, err := replayed(ctx, archives, s, chunks)
			if got := archives.Stats().Archived - before; err == nil && got != uint64(chunks) {
				err = fmt.Errorf("%d of %d records came from the archive", got, chunks)
			}
			return f, err
		},
		raw: func(ctx context.Context, _ int) (figures, error) { return replayed(ctx, w.reader, s, chunks) },
	}}, nil
}

func replayed(ctx context.Context, reader *consumers.Reader, s chunk.Session, chunks int) (figures, error) {
	start, n := time.Now(), 0
	for _, err := range reader.Replay(ctx, s, chunk.Position{}) {
		if err != nil {
			return nil, err
		}
		n++
	}
	if n != chunks {
		return nil, fmt.Errorf("read %d of %d", n, chunks)
	}
	return rate(n, time.Since(start)), nil
}
