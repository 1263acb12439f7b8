package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/consumers"
	"github.com/tailrace/tailrace/internal/retention"
)

// history measures Replay of an ended session from its archive against Replay
// from the log, where one message in ten belongs to the session.
func (l *harness) history(ctx context.Context) ([]pair, error) {
	w, err := l.env(ctx)
	if err != nil {
		return nil, err
	}
	turns := 35
	if l.cfg.Quick {
		turns = 1
	}
	chunks := turns * turnChunks
	writers := w.sessionWriters(10)
	if err := w.write(ctx, len(writers)*chunks, writers...); err != nil {
		return nil, err
	}
	s := writers[0].session
	quiet := slog.New(slog.DiscardHandler)
	compactor, err := retention.NewArchiver(l.js, retention.ArchiverConfig{Layout: w.layout, Log: quiet})
	if err != nil {
		return nil, err
	}
	if archived, err := compactor.Archive(ctx, s); err != nil || !archived {
		return nil, errors.Join(err, fmt.Errorf("archive session %s: archived is %t", s, archived))
	}
	archives, err := consumers.New(l.js, consumers.Config{Layout: w.layout, UseArchives: true, Log: quiet})
	if err != nil {
		return nil, err
	}
	return []pair{{
		name: fmt.Sprintf("history-%d", chunks), baseline: "Replay from the log",
		targets: []target{{figure: chunksPerSecond, ratioAtLeast: 10}},
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
	for _, err := range reader.Replay(ctx, chunk.Range{Session: s}) {
		if err != nil {
			return nil, err
		}
		n++
	}
	if n != chunks {
		return nil, fmt.Errorf("replay: read %d of %d records", n, chunks)
	}
	return rate(n, time.Since(start)), nil
}
