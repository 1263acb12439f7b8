package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tailrace/tailrace/internal/wait"
	"github.com/tailrace/tailrace/sink/parquet"
	"github.com/tailrace/tailrace/sink/postgres"
	"github.com/tailrace/tailrace/sink/row"
	"github.com/tailrace/tailrace/sink/sql"
)

// store is a store with what its kind needs.
type store struct {
	row.Store

	every    time.Duration                   // age of a batch
	size     int                             // of the batches of all partitions
	memory   int64                           // that it needs besides the state of sessions
	upkeep   func(ctx context.Context) error // nil: none is needed
	interval time.Duration                   // of upkeep

	open     chan struct{} // closed by the first Begin
	openOnce sync.Once
	last     func() // called by Close, if it is not nil
}

// bytes returns the size of a batch.
func (s *store) bytes(partitions int) int { return max(1<<20, s.size/partitions) }

// Begin implements row.Store.
func (s *store) Begin(ctx context.Context, partitions int) ([]row.Position, error) {
	positions, err := s.Store.Begin(ctx, partitions)
	if err == nil {
		s.openOnce.Do(func() { close(s.open) })
	}
	return positions, err
}

// Close implements row.Store.
func (s *store) Close() error {
	if s.last != nil {
		s.last()
	}
	return s.Store.Close()
}

// openStore opens the store that the setting TO names.
func (c config) openStore(log *slog.Logger) (st *store, err error) {
	scheme, rest, isURL := strings.Cut(c.To, "://")
	switch {
	case !isURL:
		st, err = c.openLake(parquet.OpenDirectory(c.To))
	case scheme == "file":
		st, err = c.openLake(parquet.OpenDirectory(rest))
	case scheme == "s3":
		st, err = c.openLake(parquet.OpenS3(c.To))
	case scheme == "postgres", scheme == "postgresql":
		st, err = c.openPostgres()
	default:
		return st, fmt.Errorf("to is %s, want a directory, s3://bucket/prefix, postgres://host/database, otlp+https://host or webhook+https://host/path", withoutPassword(c.To))
	}
	if err != nil {
		return st, fmt.Errorf("to: %w", err)
	}
	if c.Every > 0 {
		st.every = c.Every
	}
	if c.Bytes > 0 {
		st.size = c.Bytes
	}
	st.open = make(chan struct{})
	log.Debug("store opened", slog.Duration("every", st.every), slog.Int("bytes", st.size))
	return st, nil
}

func (c config) openLake(lake *parquet.Store, err error) (*store, error) {
	if err != nil {
		return nil, err
	}
	lake.Tenant = c.Tenant
	upkeep := func(ctx context.Context) error {
		var olderThan time.Time
		if c.Keep > 0 {
			olderThan = time.Now().Add(-c.Keep)
		}
		return lake.Maintain(ctx, olderThan)
	}
	return &store{Store: lake, every: time.Minute, size: 32 << 20, memory: 96 << 20, upkeep: upkeep, interval: 10 * time.Minute}, nil
}

func (c config) openPostgres() (*store, error) {
	db, err := postgres.Open(postgres.Config{URL: c.To, Name: c.Name, Tenant: c.Tenant})
	if err != nil {
		return nil, err
	}
	st := &store{Store: db, every: time.Second, size: 8 << 20, memory: 64 << 20}
	if c.Keep > 0 {
		st.interval = time.Hour
		st.upkeep = func(ctx context.Context) error { return db.Keep(ctx, time.Now().Add(-c.Keep)) }
	}
	return st, nil
}

// maintain does the upkeep from the first Begin on until ctx ends.
func (s *store) maintain(ctx context.Context, log *slog.Logger) error {
	select {
	case <-s.open:
	case <-ctx.Done():
	}
	for {
		s.maintainOnce(ctx, log)
		if err := wait.Sleep(ctx, s.interval); err != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// maintainOnce erases what was deleted, or is too old. What fails is done again the next time.
func (s *store) maintainOnce(ctx context.Context, log *slog.Logger) {
	if s.upkeep == nil || ctx.Err() != nil {
		return
	}
	if err := s.upkeep(ctx); err != nil && ctx.Err() == nil {
		log.Error("maintenance of the store failed", slog.Any("error", err))
	}
}

// printSQL prints the views over the tables.
func printSQL(args []string, out io.Writer) (err error) {
	if len(args) == 0 || len(args) > 2 {
		return usageError{errors.New("want sql duckdb LAKE, or sql postgres")}
	}
	var text string
	switch {
	case args[0] == "postgres" && len(args) == 1:
		text = sql.Postgres()
	case args[0] == "duckdb":
		lake := "./lake"
		if len(args) == 2 {
			lake = args[1]
		}
		if !strings.Contains(lake, "://") {
			if lake, err = filepath.Abs(lake); err != nil {
				return err
			}
		}
		text = sql.DuckDB(lake)
	default:
		return usageError{fmt.Errorf("sql of %q, want duckdb or postgres", args[0])}
	}
	_, err = io.WriteString(out, text)
	return err
}
