package consumers

import (
	"context"
	"log/slog"
	"time"

	"github.com/tailrace/tailrace/chunk"
	"github.com/tailrace/tailrace/internal/wait"
)

// handleBackoff delays the attempts to handle a record.
var handleBackoff = wait.Backoff{First: 100 * time.Millisecond, Max: 10 * time.Second}

// maxDeadLettersInRow is the number of records in a row that cannot be handled at which Run ends. Without it, a sink that is unavailable for an hour would turn all
// records of that hour into dead letters.
const maxDeadLettersInRow = 3

// attempt calls handle, several times if there are dead letters.
func (l *partitionLoop) attempt(ctx context.Context, rec chunk.Record) error {
	err := l.handle(ctx, rec)
	if err == nil {
		l.deadLetters = 0
	}
	if err == nil || l.cfg.DeadLetter == nil {
		return err
	}
	for n := 1; n < l.cfg.MaxAttempts; n++ {
		if wait.Sleep(ctx, handleBackoff.Delay(n)) != nil {
			return err
		}
		if err = l.handle(ctx, rec); err == nil {
			l.deadLetters = 0
			return nil
		}
	}
	if l.deadLetters++; ctx.Err() != nil || l.deadLetters >= maxDeadLettersInRow {
		return err
	}
	l.reader.deadLetters.Add(1)
	l.reader.cfg.Log.LogAttrs(ctx, slog.LevelError, "firehose record not handled", slog.String("session", rec.Session.String()),
		slog.Int("partition", l.partition), slog.Uint64("sequence", uint64(rec.Seq)), slog.Int("attempts", l.cfg.MaxAttempts), slog.Any("error", err))
	return l.cfg.DeadLetter(ctx, rec, err)
}
