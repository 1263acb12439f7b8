// Package postgres keeps the rows of a sink in Postgres 13 or later.
//
// Rows and the position up to which they are complete are stored in one transaction, which succeeds only on the position that the writer has read. So each
// row is stored once, whichever process is killed and however many write.
//
// The tables are in the schema tailrace. Begin creates the schema and its tables, adds columns that a later version of the sink has, and creates the views. The role
// of the URL needs the privilege CREATE on the database the first time, and owns the schema from then on. A connection pooler must keep
// sessions: the lease is an advisory lock of a session, and batches pass through a temporary table.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says which database a Store writes to, and what for.
type Config struct {
	// URL is the URL of the database, such as postgres://user@host:5432/db?sslmode=verify-full. The password may be in the URL, in PGPASSWORD, or in a file in the format of
	// .pgpass that PGPASSFILE or the parameter passfile names. It is in no error.
	URL string

	// Name is the name of the sink. Two stores with equal names write alternately: the second one waits in Begin.
	Name string

	// Tenant is the only tenant whose rows the sink stores, or "" for all tenants. Sinks with different tenants may share a database.
	Tenant string
}

// Store is a row.Store in Postgres.
type Store struct {
	cfg    Config
	pool   *pgxpool.Pool
	end    context.CancelFunc
	open   context.Context //nolint:containedctx // ends the calls in progress when the store is closed
	lease  lease
	months months
}

// Open returns a Store. It does not connect: Begin does.
func Open(cfg Config) (*Store, error) {
	poolConfig, err := parseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of Postgres: %w", err)
	}
	if cfg.Name == "" {
		return nil, errors.New("Name is empty, want the name of the sink")
	}
	poolConfig.AfterConnect = prepareConnection
	pool, err := pgxpool.NewWithConfig(context.Background(), poolConfig)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, pool: pool, lease: lease{config: poolConfig.ConnConfig, turn: make(chan struct{}, 1)}}
	s.open, s.end = context.WithCancel(context.Background())
	return s, nil
}

// parseURL parses a URL without its password, so that no error can have it.
func parseURL(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("malformed URL") // the error of url.Parse has parts of the URL
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("want postgres://host/database")
	}
	query := u.Query()
	password := query.Get("password")
	if p, isSet := u.User.Password(); isSet {
		password = p
		u.User = url.User(u.User.Username())
	}
	query.Del("password")
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if parseError := new(pgconn.ParseConfigError); errors.As(err, &parseError) && parseError.Unwrap() != nil {
		return nil, parseError.Unwrap() // without the URL, which may have the password of a key
	}
	if err != nil {
		return nil, errors.New("want postgres://host/database")
	}
	if password != "" {
		config.ConnConfig.Password = password
	}
	return config, nil
}

// prepareConnection makes a new connection ready for commits. A writer that stalls in a transaction holds the row of its position: the server ends that transaction.
func prepareConnection(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SET idle_in_transaction_session_timeout = '60s'; `+createIncoming)
	return err
}

// call returns a context that ends with ctx, and when the store is closed.
func (s *Store) call(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.open, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Close ends calls in progress, whose outcome is unknown then, and releases the lease.
func (s *Store) Close() error {
	s.end()
	s.lease.turn <- struct{}{} // calls of Begin that had it have ended
	err := s.lease.release()
	<-s.lease.turn
	s.pool.Close()
	return err
}
